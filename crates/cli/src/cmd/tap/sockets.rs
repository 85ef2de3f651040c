//! A tap between two sockets: one trace for each connection.
//!
//! Bytes pass as they are, so any protocol passes. `ws://` and `http://` are TCP here: the recorder finds the
//! messages in the bytes. For fault rules, each piece of such a connection that arrives is a message.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use duet_rpc::transport::{Address, Place, Security};
use duet_rpc_trace::{Dir, FaultEnd, FaultLink, FaultRule, Feed, Stop, discard, fault_pump, pump};

use super::super::rpc;
use super::super::watch::WatchTarget;
use super::faults::{self, FaultTotals};
use super::{LAST_RECORDS, report_losses, settings, show};
use crate::args::TapArgs;
use crate::console;
use crate::exit::Problem;
use crate::sys::local::{self, LocalListener, LocalPlace, TappedSocket};
use crate::sys::{self, Ended, TapSignals};

/// The time after which a listener that failed to accept a connection tries again.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);

/// Forwards connections until this process is ended.
pub(super) fn run(
    args: &TapArgs,
    listen: &Address,
    connect: &Address,
) -> Result<Option<Ended>, Problem> {
    let server = Target::new(connect)?;
    if !args.allow_remote && matches!(listen.is_local(), Ok(false)) {
        return Err(Problem::remote(listen));
    }
    let faults = (!args.faults.fault.is_empty()).then(FaultTotals::default).map(Arc::new);
    if faults.is_some() {
        faults::check_for_sockets(args, has_messages(connect))?;
    }
    let signals = TapSignals::receive().map_err(no_signals)?;
    let target = Target::new(listen)?;
    let listener = Listener::bind(&target, listen)
        .map_err(|error| Problem::failure(format!("cannot listen on {listen}: {error}")))?;
    end_on_signal(signals, target, &args.faults.fault, faults.clone()).map_err(no_signals)?;
    // A wrong option should not wait for the first client.
    let recording = settings::recording(args, &[])?;
    rpc::announce(&[&listener.address]);
    if args.web {
        let folder = recording.file.path.parent().unwrap_or(Path::new("."));
        show(WatchTarget::Folder(folder.to_owned()));
    }
    thread::scope(|scope| {
        loop {
            let client = match listener.accept() {
                Ok(client) => client,
                Err(error) => {
                    // The client has gone, or this process has too many files open for now.
                    console::say(format_args!("cannot accept a connection: {error}"));
                    thread::sleep(ACCEPT_AGAIN);
                    continue;
                }
            };
            let (server, listener, faults) = (&server, &listener, faults.as_deref());
            let serve = move || {
                let connected =
                    connection(args, client, server, &listener.address, connect, faults);
                if let Err(error) = connected {
                    console::say(format_args!("cannot connect to {connect}: {error}"));
                }
            };
            // Without a thread, the connection is closed.
            if thread::Builder::new().spawn_scoped(scope, serve).is_err() {
                console::say(format_args!("cannot serve a connection: out of threads"));
            }
        }
    })
}

/// Connections that fault rules have seen. Each has a seed of its own.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

/// Forwards one connection.
fn connection(
    args: &TapArgs,
    client: TappedSocket,
    server: &Target,
    listen: &str,
    connect: &Address,
    totals: Option<&FaultTotals>,
) -> io::Result<()> {
    let server = Arc::new(server.connect()?);
    let client = Arc::new(client);
    let (feeds, recorder) = match args.no_record {
        true => ([None, None, None], None),
        false => {
            let Ok(mut recording) = settings::recording(args, &[]) else { return Ok(()) };
            recording.header.listen = Some(listen.to_owned());
            recording.header.connect = Some(connect.to_string());
            recording.number();
            match recording.claim() {
                Ok(()) => settings::start(recording),
                // The bytes of this connection pass all the same.
                Err(problem) => {
                    console::say(format_args!("{}", problem.message));
                    ([None, None, None], None)
                }
            }
        }
    };
    let [c2s, s2c, _] = feeds;
    let (from, to) = (Arc::clone(&client), Arc::clone(&server));
    match totals {
        None => {
            let c2s = thread::Builder::new().spawn(move || forward(&from, &to, c2s))?;
            forward(&server, &client, s2c);
            let _ = c2s.join();
        }
        Some(totals) => {
            let mut rules = faults::rules(args, CONNECTIONS.fetch_add(1, Ordering::Relaxed));
            if !has_messages(connect) {
                rules = rules.with_pieces();
            }
            let link = Arc::new(FaultLink::new(rules, s2c.as_ref(), |_| {})?);
            totals.begin(&link);
            let faults = Arc::clone(&link);
            let c2s = thread::Builder::new()
                .spawn(move || forward_with_faults(Dir::C2s, &from, &to, &faults, c2s))?;
            forward_with_faults(Dir::S2c, &server, &client, &link, s2c);
            let _ = c2s.join();
            totals.end(&link);
        }
    }
    if let Some(recorder) = recorder {
        report_losses(recorder.finish(LAST_RECORDS));
    }
    Ok(())
}

/// Forwards one direction, and passes on its end.
fn forward(input: &TappedSocket, output: &TappedSocket, mut feed: Option<Feed>) {
    match pump(input, output, feed.as_mut()) {
        Stop::Eof => output.shutdown(Shutdown::Write),
        Stop::Closed | Stop::Failed(_) => {
            input.shutdown(Shutdown::Both);
            output.shutdown(Shutdown::Both);
        }
    }
}

/// Forwards one direction through fault rules, and passes on its end.
fn forward_with_faults(
    dir: Dir,
    input: &TappedSocket,
    output: &TappedSocket,
    link: &FaultLink,
    mut feed: Option<Feed>,
) {
    match fault_pump(dir, input, output, link, feed.as_mut()) {
        FaultEnd::Usual(Stop::Eof) => output.shutdown(Shutdown::Write),
        FaultEnd::HalfClosed => {
            output.shutdown(Shutdown::Write);
            discard(input);
        }
        FaultEnd::Usual(_) | FaultEnd::Cut => {
            input.shutdown(Shutdown::Both);
            output.shutdown(Shutdown::Both);
        }
    }
}

/// Returns `true` if the bytes of a transport are messages in one of our framings.
fn has_messages(address: &Address) -> bool {
    matches!(address, Address::Tcp(_) | Address::Unix(_))
}

/// Ends this process at a signal, as the daemon ends: with exit code 0 if the signal asks for that, and without the
/// socket's file. Names the fault rules that made no fault.
fn end_on_signal(
    signals: TapSignals,
    target: Target,
    rules: &[FaultRule],
    totals: Option<Arc<FaultTotals>>,
) -> io::Result<()> {
    let rules = rules.to_vec();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let signal = signals.first();
        if let Target::Local(place) = target {
            local::remove(&place);
        }
        if let Some(totals) = totals {
            totals.report(&rules);
        }
        sys::end_by_signal(signal);
    })?;
    Ok(())
}

fn no_signals(error: io::Error) -> Problem {
    Problem::failure(format!("cannot receive signals: {error}"))
}

/// The place of a socket.
enum Target {
    Tcp(String, u16),
    Local(LocalPlace),
}

impl Target {
    fn new(address: &Address) -> Result<Self, Problem> {
        if let Some(place) = local::place(address) {
            return Ok(Target::Local(place));
        }
        match address {
            Address::Tcp(place) | Address::WebSocket(place, _) | Address::Http(place, _)
                if place.security == Security::Plain =>
            {
                let Place { host, port, .. } = place;
                Ok(Target::Tcp(host.clone(), *port))
            }
            _ => {
                let why = match address.is_secure() {
                    true => "its bytes are encrypted",
                    false => "a tap cannot stand in between there",
                };
                let tapped = local::TAPPED;
                Err(Problem::usage(format!("cannot tap {address}: {why}; use {tapped}")))
            }
        }
    }

    fn connect(&self) -> io::Result<TappedSocket> {
        match self {
            Target::Local(place) => local::connect(place).map(TappedSocket::Local),
            Target::Tcp(host, port) => {
                let socket = TcpStream::connect((host.as_str(), *port))?;
                socket.set_nodelay(true)?;
                Ok(TappedSocket::Tcp(socket))
            }
        }
    }
}

/// A listening socket, and its address with the port that it got.
struct Listener {
    kind: ListenerKind,
    address: String,
}

enum ListenerKind {
    Tcp(TcpListener),
    Local(LocalListener),
}

impl Listener {
    fn bind(target: &Target, address: &Address) -> io::Result<Self> {
        match target {
            Target::Local(place) => {
                let kind = ListenerKind::Local(local::bind(place)?);
                Ok(Listener { kind, address: address.to_string() })
            }
            Target::Tcp(host, port) => {
                let listener = TcpListener::bind((host.as_str(), *port))?;
                let actual = listener.local_addr()?.port();
                let address =
                    address.to_string().replacen(&format!(":{port}"), &format!(":{actual}"), 1);
                Ok(Listener { kind: ListenerKind::Tcp(listener), address })
            }
        }
    }

    fn accept(&self) -> io::Result<TappedSocket> {
        match &self.kind {
            ListenerKind::Local(listener) => local::accept(listener).map(TappedSocket::Local),
            ListenerKind::Tcp(listener) => {
                let (socket, _) = listener.accept()?;
                socket.set_nodelay(true)?;
                Ok(TappedSocket::Tcp(socket))
            }
        }
    }
}
