//! Socket activation: listening sockets inherited from the parent process, for example systemd.
//!
//! `LISTEN_FDS` holds their number, `LISTEN_PID` the process that they are for, and `LISTEN_FDNAMES` their
//! names. A socket at an address from the command line serves that address. Any other socket serves WebSocket
//! or HTTP if its name is `ws` or `http`, and frames otherwise; with TLS if its name is `tls`, `wss` or `https`.

use std::env::VarError;

use duet_rpc::transport::{Address, Listener, TlsServer};

use super::tls;
use crate::exit::Problem;
use crate::sys::{self, InheritedSocket};

/// Names of sockets that serve a protocol over TCP alone.
const OVER_TCP: [&str; 5] = ["ws", "http", "tls", "wss", "https"];

/// Maximum number of inherited sockets.
const MAX_SOCKETS: i32 = 1024;

/// Inherited sockets that are not in use yet, with their names.
pub(super) struct Inherited(Vec<(InheritedSocket, String)>);

/// Takes over the sockets for this process.
pub(super) fn inherited() -> Result<Inherited, Problem> {
    check_count()?;
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let names: Vec<_> = names.split(':').collect();
    let mut sockets = Vec::new();
    for (place, socket) in sys::take_inherited() {
        let name = names.get(place).copied().unwrap_or_default().to_owned();
        let socket = socket.and_then(|socket| match socket.listens() {
            _ if !socket.is_tcp() && OVER_TCP.contains(&&*name) => {
                Err(format!("it is a Unix socket, and {name} is served over TCP"))
            }
            true => Ok((socket, name)),
            false => Err("it does not listen: systemd needs Accept=no for this".to_owned()),
        });
        sockets.push(socket.map_err(|why| {
            Problem::failure(format!("cannot use inherited socket {place}: {why}"))
        })?);
    }
    Ok(Inherited(sockets))
}

/// Refuses an absurd number of sockets. `listenfd` allocates a list of that length before it looks at the
/// first one.
fn check_count() -> Result<(), Problem> {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<i32>().ok());
    let is_for_us = match std::env::var("LISTEN_PID") {
        Ok(pid) => pid.is_empty() || pid.parse() == Ok(std::process::id()),
        Err(error) => error == VarError::NotPresent,
    };
    let Some(count) = number("LISTEN_FDS").filter(|_| is_for_us) else { return Ok(()) };
    if count > MAX_SOCKETS {
        let told = format!("LISTEN_FDS promises {count} sockets");
        return Err(Problem::failure(format!("{told}: the limit is {MAX_SOCKETS}")));
    }
    // Some service managers set it to begin elsewhere than at 3.
    match number("LISTEN_FDS_FIRST_FD").unwrap_or(3).checked_add(count) {
        None => Err(Problem::failure("LISTEN_FDS_FIRST_FD is too large for a descriptor")),
        Some(_) => Ok(()),
    }
}

impl Inherited {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the socket that listens at this address, if there is one.
    pub(super) fn take(
        &mut self,
        address: &Address,
        tls: Option<&TlsServer>,
    ) -> Result<Option<Listener>, Problem> {
        let Some(place) = self.0.iter().position(|(socket, _)| socket.is_at(address)) else {
            return Ok(None);
        };
        listener(self.0.swap_remove(place).0, address, tls).map(Some)
    }

    /// Takes all other sockets.
    pub(super) fn rest(self, tls: Option<&TlsServer>) -> Result<Vec<Listener>, Problem> {
        let plain = |(socket, name): (InheritedSocket, String)| {
            let scheme = match OVER_TCP.contains(&&*name) {
                true => &name,
                false => "tcp",
            };
            let address: Result<Address, _> = format!("{scheme}://127.0.0.1:0").parse();
            let address = address.map_err(|error| Problem::failure(format!("{error}")))?;
            let tls = tls::needed(&address, tls)?;
            listener(socket, &address, tls)
        };
        self.0.into_iter().map(plain).collect()
    }
}

fn listener(
    socket: InheritedSocket,
    address: &Address,
    tls: Option<&TlsServer>,
) -> Result<Listener, Problem> {
    socket
        .into_listener(address, tls)
        .map_err(|error| Problem::failure(format!("cannot use an inherited socket: {error}")))
}
