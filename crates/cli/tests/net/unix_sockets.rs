//! Unix sockets as files: owner, lifetime, and files that must not be touched (T3).

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use duet_rpc::proto::frame::Framing;
use rustix::process::{Pid, Signal, kill_process};

use crate::client::Way;
use crate::support::concurrently;
use crate::support::daemon::{after, rpc};
use crate::support::folder::Folder;
use crate::support::listening::{Server, TCP, wait_until, with_addresses};
use crate::support::once::refused;

const WAY: Way = Way::Unix(Framing::Ndjson);

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket())
}

/// Checks that it cannot listen there. Returns its stderr.
fn check_refused(url: &str, case: &str) -> String {
    let (code, said) = refused(with_addresses(rpc(&[]), &[url]));
    assert_eq!(code, Some(1), "{case}: {said}");
    assert!(said.contains(url), "{case}: {said}");
    said
}

#[test]
fn t3_a_socket_is_accessible_only_to_its_owner() {
    // With any umask.
    for mask in ["000", "022", "077", "777"] {
        let folder = Folder::new();
        let started = rpc(&["--profile", "agent", "--listen", &folder.url("socket")]);
        let server = Server::spawn(after(&format!("umask {mask}"), &started), 1);
        let data = fs::symlink_metadata(folder.path("socket")).expect("it is there");
        assert!(data.file_type().is_socket());
        assert_eq!(data.permissions().mode() & 0o7777, 0o600, "umask {mask}");
        WAY.connect(&server).check(1);
        server.stop();
    }
}

#[test]
fn t3_only_allowed_users_may_connect_and_others_get_a_reason() {
    let folder = Folder::new();
    let own = rustix::process::geteuid().as_raw();
    let (own, other) = (own.to_string(), (own + 1).to_string());
    let rows: [(&[&str], u32, bool); 4] = [
        (&["--allow-uid", &own], 0o600, true),
        (&["--allow-uid", &own, "--allow-uid", &other], 0o666, true),
        (&["--allow-uid", &other], 0o666, false),
        // Every system has this user.
        (&["--allow-uid", "nobody"], 0o666, false),
    ];
    for (options, mode, is_allowed) in rows {
        let server = Server::rpc("agent", &[&folder.url("socket")], options);
        let data = fs::symlink_metadata(folder.path("socket")).expect("it is there");
        assert_eq!(data.permissions().mode() & 0o7777, mode, "{options:?}");
        let mut client = WAY.connect(&server);
        if is_allowed {
            client.check(1);
        } else {
            let error = r#"{"code":-32600,"message":"User not allowed","data":{"reason":"user-not-allowed"}}"#;
            let reason = format!(r#"{{"jsonrpc":"2.0","id":null,"error":{error}}}"#);
            assert_eq!(client.receive().as_deref(), Some(&*reason), "{options:?}");
            assert_eq!(client.receive(), None, "{options:?}");
        }
        let said = server.end(Signal::TERM).lines.concat();
        let refused = format!("connection refused: user {own} is not allowed");
        assert_eq!(said.contains(&refused), !is_allowed, "{options:?}: {said}");
        assert!(!said.contains("every user"), "{options:?}: {said}");
    }
    for wrong in ["", "no such user", "-1", "4294967296"] {
        let user = format!("--allow-uid={wrong}");
        let (code, said) = refused(with_addresses(rpc(&[&user]), &[&folder.url("socket")]));
        assert!(code == Some(2) && said.contains("no user has this name"), "{wrong}: {said}");
    }
}

#[test]
fn t3_a_socket_is_removed_at_the_end_of_the_daemon() {
    concurrently([Signal::TERM, Signal::INT, Signal::HUP], |signal| {
        let folder = Folder::new();
        let addresses = [folder.url("one"), TCP.to_owned(), folder.url("two")];
        let server = Server::testbed("agent", &addresses.each_ref().map(String::as_str), &[]);
        let mut client = WAY.connect_to(&server.urls[2]);
        client.check(1);
        // Even if a handler blocks its thread beyond the time limit.
        client.send(br#"{"jsonrpc":"2.0","id":2,"method":"test.block","params":{"ms":20000}}"#);
        server.daemon().wait_for("test.block begins");
        assert!(is_socket(&folder.path("one")) && is_socket(&folder.path("two")));
        assert_eq!(server.end(signal).status.code(), Some(0), "{signal:?}");
        for name in ["one", "two"] {
            assert!(fs::symlink_metadata(folder.path(name)).is_err(), "{signal:?}: it is left");
        }
    });
}

#[test]
fn t3_a_stale_socket_is_replaced() {
    let folder = Folder::new();
    let is_replaced = || {
        let server = Server::rpc("agent", &[&folder.url("socket")], &[]);
        WAY.connect(&server).check(1);
        let data = fs::symlink_metadata(folder.path("socket")).expect("it is there");
        assert_eq!(data.permissions().mode() & 0o7777, 0o600);
        server.stop();
    };
    // A socket of a killed daemon.
    Server::rpc("agent", &[&folder.url("socket")], &[]).end(Signal::KILL);
    assert!(is_socket(&folder.path("socket")), "nobody could remove it");
    is_replaced();
    // A socket of another program, with another mode.
    drop(UnixListener::bind(folder.path("socket")).expect("it can be made"));
    is_replaced();
}

#[test]
fn t3_a_socket_in_use_is_left_alone() {
    let folder = Folder::new();
    let server = Server::rpc("agent", &[&folder.url("socket")], &[]);
    let before = fs::symlink_metadata(folder.path("socket")).expect("it is there").ino();
    check_refused(&folder.url("socket"), "another daemon");
    let after = fs::symlink_metadata(folder.path("socket")).expect("it is still there").ino();
    assert_eq!(before, after);
    WAY.connect(&server).check(1);
    server.stop();
    // Even if it is too busy to accept the connection.
    let listener = UnixListener::bind(folder.path("busy")).expect("it can be made");
    rustix::net::listen(&listener, 0).expect("it is a socket");
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let kind = rustix::net::SocketType::STREAM;
        let socket = rustix::net::socket(rustix::net::AddressFamily::UNIX, kind, None);
        let socket = socket.expect("a socket");
        rustix::io::ioctl_fioclex(&socket).expect("a socket");
        rustix::io::ioctl_fionbio(&socket, true).expect("a socket");
        let address = rustix::net::SocketAddrUnix::new(folder.path("busy")).expect("a short path");
        let _ = rustix::net::connect(&socket, &address);
        waiting.push(socket);
    }
    check_refused(&folder.url("busy"), "a busy one");
    assert!(is_socket(&folder.path("busy")), "it is left alone");
}

#[test]
fn t3_a_file_that_is_not_a_socket_is_left_alone() {
    let folder = Folder::new();
    folder.write("file", "precious");
    let said = check_refused(&folder.url("file"), "a file");
    assert!(said.contains("not a socket; choose another path, or move the file away"), "{said}");
    assert_eq!(fs::read_to_string(folder.path("file")).expect("it is there"), "precious");
    fs::create_dir(folder.path("folder")).expect("it can be made");
    check_refused(&folder.url("folder"), "a folder");
    assert!(folder.path("folder").is_dir());
    std::os::unix::fs::symlink(folder.path("file"), folder.path("link")).expect("it can be made");
    check_refused(&folder.url("link"), "a link to a file");
    assert_eq!(fs::read_to_string(folder.path("link")).expect("it is there"), "precious");
    check_refused(&folder.url("no/such/folder"), "a folder that is not there");
    check_refused(&folder.url(&"long".repeat(40)), "a path that is too long");
}

/// A socket that replaced the daemon's own is not the daemon's to remove.
#[test]
fn t3_at_the_end_the_daemon_removes_only_its_own_socket() {
    let folder = Folder::new();
    let server = Server::rpc("agent", &[&folder.url("socket")], &[]);
    fs::remove_file(folder.path("socket")).expect("it is there");
    let other = UnixListener::bind(folder.path("socket")).expect("the place is free");
    server.stop();
    assert!(is_socket(&folder.path("socket")), "it belongs to somebody else");
    drop(other);
    // A missing socket is ignored.
    let server = Server::rpc("agent", &[&folder.url("gone")], &[]);
    fs::remove_file(folder.path("gone")).expect("it is there");
    server.stop();
}

#[test]
fn t2_a_socket_path_may_contain_any_character() {
    let folder = Folder::new();
    let url = folder.url("a%20b%25%C3%BC");
    let server = Server::rpc("agent", &[&url], &[]);
    assert_eq!(server.urls[0].text, url);
    assert!(is_socket(&folder.path("a b%ü")));
    server.stop();
    assert!(!is_socket(&folder.path("a b%ü")));
}

/// A signal may come at any moment of the start: before the socket exists, or directly afterwards.
#[test]
fn l4_t3_a_daemon_stopped_during_its_start_leaves_nothing() {
    let folder = Folder::new();
    let path = folder.path("socket");
    for round in 0..20 {
        let mut command = with_addresses(rpc(&[]), &[&folder.url("socket")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut daemon = command.spawn().expect("it is built");
        match round % 2 {
            0 => wait_until("it has bound", || is_socket(&path)),
            // At some random point before that.
            _ => thread::sleep(Duration::from_millis(round)),
        }
        kill_process(Pid::from_child(&daemon), Signal::TERM).expect("it lives");
        let status = daemon.wait().expect("it is our child");
        assert!(!path.exists(), "{status}");
        assert!(round % 2 == 1 || status.code() == Some(0), "{status}");
    }
}
