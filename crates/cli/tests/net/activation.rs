//! Socket activation: sockets that the service manager opened before it started the daemon (T2).

use std::fs;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
#[cfg(target_os = "linux")]
use std::os::unix::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::process::Command;

use duet_rpc::proto::frame::Framing;
use rustix::process::Signal;

use crate::client::Way;
use crate::support::daemon::{in_shell, rpc};
use crate::support::folder::Folder;
use crate::support::listening::{HTTP, Server, TCP, Url};

/// Starts the daemon with inherited sockets; it listens on `count` addresses.
fn serve(sockets: Vec<OwnedFd>, variables: &str, options: &[&str], count: usize) -> Server {
    Server::with_stdin_and_stdout(activated(sockets, variables, options), count)
}

/// The daemon as a service manager starts it: its sockets are the descriptors from 3 on, and the environment
/// holds their number. A shell places them, and then becomes the daemon, so `$$` is its pid.
fn activated(sockets: Vec<OwnedFd>, variables: &str, options: &[&str]) -> Command {
    let started = rpc(&[&["--profile", "agent"], options].concat());
    let count = sockets.len();
    let variables = format!("LISTEN_PID=$$ LISTEN_FDS={count} {variables}");
    let place = if count > 1 { "3<&0 4<&1" } else { "3<&0" };
    let script = format!(r#"exec {place} 0</dev/null 1>/dev/null; export {variables}; exec "$@""#);
    let mut command = in_shell(&script, &started);
    let mut sockets = sockets.into_iter();
    command.stdin(sockets.next().expect("one at least"));
    if let Some(second) = sockets.next() {
        command.stdout(second);
    }
    command
}

fn tcp() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it has one").port();
    (listener, port)
}

#[test]
fn t2_sockets_of_a_service_manager_are_served() {
    let folder = Folder::new();
    let (listener, port) = tcp();
    // A client that connects before the daemon starts is served too: the purpose of socket activation.
    let mut early =
        Way::Tcp(Framing::Ndjson).connect_to(&Url::parse(&format!("tcp://127.0.0.1:{port}")));
    let unix = UnixListener::bind(folder.path("socket")).expect("it can be made");
    let server = serve(vec![listener.into(), unix.into()], "", &[], 2);
    assert_eq!(server.urls[0].text, format!("tcp://127.0.0.1:{port}"));
    assert_eq!(server.urls[1].text, folder.url("socket"));
    early.check(1);
    for way in [Way::Tcp(Framing::Ndjson), Way::Unix(Framing::Ndjson)] {
        way.connect(&server).check(1);
    }
    assert_eq!(server.end(Signal::TERM).status.code(), Some(0));
    // The socket belongs to the manager, which starts the daemon again for the next connection.
    assert!(folder.path("socket").exists());
}

/// systemd creates sockets for all users, unless `SocketMode` is set.
#[test]
fn t3_an_inherited_socket_open_to_all_users_is_warned_of() {
    let folder = Folder::new();
    let said_of = |socket: UnixListener| {
        serve(vec![socket.into()], "", &[], 1).end(Signal::TERM).lines.concat()
    };
    for (name, mode, is_open) in [("a", 0o600, false), ("b", 0o660, false), ("c", 0o666, true)] {
        let socket = UnixListener::bind(folder.path(name)).expect("it can be made");
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(folder.path(name), permissions).expect("it is ours");
        let said = said_of(socket);
        assert_eq!(said.contains("every user of this machine"), is_open, "{mode:o}: {said}");
    }
    #[cfg(target_os = "linux")]
    {
        use std::os::linux::net::SocketAddrExt;

        let name = format!("duet-rpc test {}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let said = said_of(UnixListener::bind_addr(&address).expect("it can be made"));
        let shown = name.replace(' ', "%20");
        assert!(said.contains(&format!("listening on unix://@{shown}")), "{said}");
        assert!(said.contains("every user of this machine"), "{said}");
    }
}

#[test]
fn t2_the_name_of_an_inherited_socket_sets_its_protocol() {
    for (name, way) in [("ws", Way::WebSocket), ("http", Way::Http), ("tcp", Way::ALL[0])] {
        let (listener, port) = tcp();
        let variables = format!("LISTEN_FDNAMES={name}");
        let server = serve(vec![listener.into()], &variables, &[], 1);
        assert!(server.urls[0].text.starts_with(&format!("{name}://127.0.0.1:{port}")));
        way.connect(&server).check(1);
        server.stop();
    }
    let (first, second) = (tcp().0, tcp().0);
    let server = serve(vec![first.into(), second.into()], "LISTEN_FDNAMES=http:ws", &[], 2);
    Way::Http.connect(&server).check(1);
    Way::WebSocket.connect(&server).check(1);
    server.stop();
}

#[test]
fn t2_an_address_opened_by_the_manager_is_taken_over() {
    let (listener, port) = tcp();
    let url = format!("http://127.0.0.1:{port}/rpc");
    let server = serve(vec![listener.into()], "", &["--listen", &url, "--listen", TCP], 2);
    assert_eq!(server.url("http").text, url);
    Way::Http.connect(&server).check(1);
    Way::ALL[0].connect(&server).check(1);
    server.stop();
}

/// Sockets for another process, such as the parent, are not used.
#[test]
fn t2_sockets_of_another_process_are_left_alone() {
    let others = "LISTEN_PID=1 LISTEN_FDS=2147483647";
    for variables in ["LISTEN_PID=1", others, "LISTEN_PID=x", "LISTEN_FDS=0"] {
        let (listener, _) = tcp();
        let server = serve(vec![listener.into()], variables, &["--listen", HTTP], 1);
        assert_eq!(server.urls[0].scheme, "http", "{variables}");
        Way::Http.connect(&server).check(1);
        let end = server.end(Signal::TERM);
        assert_eq!(end.status.code(), Some(0), "{variables}: {end:?}");
        let others = end.lines.iter().filter(|line| line.starts_with("listening on "));
        assert_eq!(others.count(), 0, "{variables}: {:?}", end.lines);
    }
}

/// Descriptors that are not sockets, or are missing, must not cause a panic.
#[test]
fn t2_an_inherited_descriptor_that_is_not_a_socket_is_exit_code_1() {
    let (read, _write) = crate::support::daemon::pipe();
    let file = std::fs::File::open("/dev/null").expect("it is there");
    let (stream, _peer) = std::os::unix::net::UnixStream::pair().expect("sockets are to be had");
    let missing = "LISTEN_FDS=7";
    let rows: [(&str, OwnedFd, &str); 6] = [
        ("a pipe", read, ""),
        ("a file", file.into(), ""),
        ("a connection", stream.into(), ""),
        ("one that is not there", tcp().0.into(), missing),
        // No list of that length may be allocated.
        ("far too many", tcp().0.into(), "LISTEN_FDS=2147483647"),
        ("beyond the last", tcp().0.into(), "LISTEN_FDS_FIRST_FD=2147483647"),
    ];
    for (case, descriptor, variables) in rows {
        let output = activated(vec![descriptor], variables, &[]).output().expect("it is built");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{case}: {said}");
        assert!(!said.is_empty() && !said.contains("panicked"), "{case}: {said}");
    }
}
