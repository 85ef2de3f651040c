//! A tap between two sockets: one trace for each connection.
//!
//! Bytes pass as they are, so any protocol passes. `ws://` is TCP here: the trace has the handshake and
//! the WebSocket frames as noise, byte for byte.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use duet_rpc::transport::{Address, Place, Security};
use duet_rpc_trace::{Feed, Stop, pump};
use rustix::fs::Mode;

use super::super::watch::WatchTarget;
use super::child::Ended;
use super::{LAST_RECORDS, report_losses, settings, show};
use crate::args::TapArgs;
use crate::console;
use crate::exit::Problem;

/// The time after which a listener that failed to accept a connection tries again.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);

/// Forwards connections until this process is ended.
pub(super) fn run(
    args: &TapArgs,
    listen: &Address,
    connect: &Address,
) -> Result<Option<Ended>, Problem> {
    let server = Target::new(connect)?;
    let listener = Listener::bind(&Target::new(listen)?, listen)
        .map_err(|error| Problem::failure(format!("cannot listen on {listen}: {error}")))?;
    // A wrong option should not wait for the first client.
    let recording = settings::recording(args, &[])?;
    if args.web {
        let folder = recording.file.path.parent().unwrap_or(Path::new("."));
        show(WatchTarget::Folder(folder.to_owned()));
    }
    console::say(format_args!("listening on {}", listener.address));
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
            let (server, listener) = (&server, &listener);
            let serve = move || {
                if let Err(error) = connection(args, client, server, &listener.address, connect) {
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

/// Forwards one connection.
fn connection(
    args: &TapArgs,
    client: TappedSocket,
    server: &Target,
    listen: &str,
    connect: &Address,
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
            settings::start(recording)
        }
    };
    let [c2s, s2c, _] = feeds;
    let (from, to) = (Arc::clone(&client), Arc::clone(&server));
    let c2s = thread::Builder::new().spawn(move || forward(&from, &to, c2s))?;
    forward(&server, &client, s2c);
    let _ = c2s.join();
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

/// The place of a socket.
enum Target {
    Tcp(String, u16),
    Unix(std::path::PathBuf),
}

impl Target {
    fn new(address: &Address) -> Result<Self, Problem> {
        match address {
            Address::Unix(path) => Ok(Target::Unix(path.clone())),
            Address::Tcp(place) | Address::WebSocket(place, _) | Address::Http(place, _)
                if place.security == Security::Plain =>
            {
                let Place { host, port, .. } = place;
                Ok(Target::Tcp(host.clone(), *port))
            }
            _ => Err(Problem::usage(format!(
                "cannot tap {address}: its bytes are encrypted; use tcp://, unix://, ws:// or http://"
            ))),
        }
    }

    fn connect(&self) -> io::Result<TappedSocket> {
        match self {
            Target::Unix(path) => UnixStream::connect(path).map(TappedSocket::Unix),
            Target::Tcp(host, port) => {
                let socket = TcpStream::connect((host.as_str(), *port))?;
                socket.set_nodelay(true)?;
                Ok(TappedSocket::Tcp(socket))
            }
        }
    }
}

enum TappedSocket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl TappedSocket {
    fn shutdown(&self, how: Shutdown) {
        // It fails if the other side has closed the connection.
        let _ = match self {
            TappedSocket::Tcp(socket) => socket.shutdown(how),
            TappedSocket::Unix(socket) => socket.shutdown(how),
        };
    }
}

impl AsFd for TappedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            TappedSocket::Tcp(socket) => socket.as_fd(),
            TappedSocket::Unix(socket) => socket.as_fd(),
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
    Unix(UnixListener),
}

impl Listener {
    fn bind(target: &Target, address: &Address) -> io::Result<Self> {
        match target {
            Target::Unix(path) => {
                // For this user only, from the first moment.
                let before = rustix::process::umask(Mode::from_raw_mode(0o177));
                let mut listener = UnixListener::bind(path);
                let is_used = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
                if listener.as_ref().is_err_and(is_used) && is_abandoned(path) {
                    let _ = std::fs::remove_file(path);
                    listener = UnixListener::bind(path);
                }
                rustix::process::umask(before);
                Ok(Listener { kind: ListenerKind::Unix(listener?), address: address.to_string() })
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
            ListenerKind::Unix(listener) => {
                listener.accept().map(|(socket, _)| TappedSocket::Unix(socket))
            }
            ListenerKind::Tcp(listener) => {
                let (socket, _) = listener.accept()?;
                socket.set_nodelay(true)?;
                Ok(TappedSocket::Tcp(socket))
            }
        }
    }
}

/// Returns `true` if nobody listens on a socket file: the tap that made it was ended.
fn is_abandoned(path: &Path) -> bool {
    let refused = UnixStream::connect(path).err().map(|error| error.kind());
    refused == Some(io::ErrorKind::ConnectionRefused)
        && std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket())
}
