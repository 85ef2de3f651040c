//! Listeners with TLS: binding, and the handshake of an accepted connection.

use std::io;
use std::net::TcpListener;
use std::time::Duration;

use duet_rpc_proto::Profile;

use super::{Listener, Reach};
use crate::net::address::resolve;
use crate::net::tls::{self, Inside};
use crate::net::{Address, AddressError, Socket, TlsServer};
use crate::remote::Remote;

/// The time for the handshake if the profile has no read timeout.
const HANDSHAKE_TIME: Duration = Duration::from_secs(30);

/// A fatal alert `internal_error`, for a connection that is refused before the handshake.
pub(super) const REFUSAL: &[u8] = b"\x15\x03\x03\x00\x02\x02\x50";

/// Binds listeners for `tls://`, `wss://` and `https://`; made by [`Listener::tls`].
#[derive(Clone, Debug)]
pub struct TlsBinder(TlsServer);

impl Listener {
    /// Listens at an address with TLS: `tls://`, `wss://` or `https://`. Such an address cannot be bound without
    /// these settings.
    ///
    /// The handshake of a client takes no longer than the profile's [`read_timeout`](Profile::read_timeout), or than
    /// 30 s if it has none, and counts as a connection. A plain HTTP request to such a port is answered with status 400.
    ///
    /// ```no_run
    /// use duet_rpc::{Hub, transport::{Listener, TlsServer}};
    ///
    /// # async fn example() -> std::io::Result<()> {
    /// let tls = TlsServer::from_files("server.pem", "server.key")?;
    /// let listener = Listener::tls(tls).bind_anywhere("tls://0.0.0.0:4000")?;
    /// Hub::builder().build().serve(listener).await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn tls(settings: TlsServer) -> TlsBinder {
        TlsBinder(settings)
    }

    /// The settings of TLS, to reload them.
    pub(crate) fn tls_settings(&self) -> Option<&TlsServer> {
        self.tls.as_ref()
    }
}

impl TlsBinder {
    /// Listens at this address, if only this machine can reach it; see [`Listener::bind`].
    pub fn bind(
        self,
        address: impl TryInto<Address, Error: Into<AddressError>>,
    ) -> io::Result<Listener> {
        self.finish(Listener::bind_with(&must_be_secure(resolve(address)?)?, Reach::Loopback))
    }

    /// Listens at this address, even if other machines can reach it; see [`Listener::bind_anywhere`].
    pub fn bind_anywhere(
        self,
        address: impl TryInto<Address, Error: Into<AddressError>>,
    ) -> io::Result<Listener> {
        self.finish(Listener::bind_with(&must_be_secure(resolve(address)?)?, Reach::Anywhere))
    }

    /// Takes over a listening TCP socket; see [`Listener::from_tcp`].
    pub fn take_tcp(
        self,
        socket: TcpListener,
        address: impl TryInto<Address, Error: Into<AddressError>>,
    ) -> io::Result<Listener> {
        self.finish(Listener::over_tcp(socket, must_be_secure(resolve(address)?)?))
    }

    fn finish(self, bound: io::Result<Listener>) -> io::Result<Listener> {
        bound.map(|listener| Listener { tls: Some(self.0), ..listener })
    }
}

fn must_be_secure(address: Address) -> io::Result<Address> {
    match address.is_secure() {
        true => Ok(address),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{address} has no TLS: begin it with tls://, wss:// or https://"),
        )),
    }
}

/// The TLS part of an accepted connection.
pub(super) struct Secured {
    settings: TlsServer,
    inside: Inside,
}

impl Secured {
    pub(super) fn at(listener: &Listener) -> Option<Self> {
        let settings = listener.tls.clone()?;
        Some(Secured { settings, inside: Inside::at(&listener.address) })
    }

    /// Makes the handshake. The certificate of the client is the identity of the remote.
    pub(super) async fn open(
        self,
        socket: Socket,
        remote: Remote,
        profile: &Profile,
    ) -> io::Result<(Socket, Remote)> {
        let patience = profile.read_timeout.unwrap_or(HANDSHAKE_TIME);
        let socket = tls::accept(socket, &self.settings, self.inside, patience).await?;
        let remote = socket.certificate().into_iter().fold(remote, Remote::with_identity);
        Ok((socket, remote))
    }
}
