//! A tap between two sockets: bytes, half-closes, one trace for each connection.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::support::folder::Folder;
use super::support::listening::{HTTP, Server, WS};
use super::support::programs::DUET_RPC;
use super::{cat_file, records};

/// A tap between sockets, killed on drop.
pub(super) struct Tap(pub(super) Child, pub(super) String);

impl Tap {
    fn start(folder: &Folder, listen: &str, connect: &str) -> Self {
        Self::start_by(Command::new(DUET_RPC), folder, listen, connect)
    }

    fn start_by(mut command: Command, folder: &Folder, listen: &str, connect: &str) -> Self {
        command.args(["tap", "--listen", listen, "--connect", connect, "--to"]);
        command.arg(folder.path("trace.jsonl"));
        Self::spawn(command)
    }

    /// Starts a tap, and reads the address that it prints.
    pub(super) fn spawn(mut command: Command) -> Self {
        let mut process = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let stderr = process.stderr.as_mut().expect("a pipe");
        let mut line = Vec::new();
        // Byte by byte, so that the rest stays in the pipe.
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            stderr.read_exact(&mut byte).expect("a line");
            line.extend(byte);
        }
        let line = String::from_utf8(line).expect("text");
        let address = line.trim().rsplit("://").next().expect("an address");
        let address = address.trim_end_matches('/').to_owned();
        Tap(process, address)
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the trace of a connection ends.
fn wait_for_end(folder: &Folder, name: &str) {
    let is_whole =
        || fs::read_to_string(folder.path(name)).is_ok_and(|it| it.contains(r#""kind":"end""#));
    while !is_whole() {
        thread::yield_now();
    }
}

/// A server that reads to the end, and then sends the bytes back.
fn echo(mut stream: impl Read + Write) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    stream.write_all(&bytes)
}

#[test]
fn w1_w4_bytes_and_half_closes_pass_between_tcp_sockets() {
    let folder = Folder::new();
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = server.local_addr().expect("an address");
    thread::spawn(move || server.incoming().flatten().for_each(|it| drop(echo(it))));
    let tap = Tap::start(&folder, "tcp://127.0.0.1:0", &format!("tcp://{address}"));
    for (number, size) in [(1, 0), (2, 10), (3, 1_000_000)] {
        let input: Vec<u8> = (0..size).map(|it: u32| it as u8).collect();
        let mut client = TcpStream::connect(&tap.1).expect("it listens");
        client.write_all(&input).expect("it reads");
        client.shutdown(Shutdown::Write).expect("it is connected");
        let mut echoed = Vec::new();
        client.read_to_end(&mut echoed).expect("it answers");
        assert!(echoed == input);
        let name = format!("trace-{number}.jsonl");
        wait_for_end(&folder, &name);
        for dir in ["c2s", "s2c"] {
            assert!(cat_file(&folder.path(&name), dir).stdout == input);
        }
    }
}

#[test]
fn w1_w8_unix_sockets_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let server = UnixListener::bind(folder.path("server")).expect("a socket");
    thread::spawn(move || server.incoming().flatten().for_each(|it| drop(echo(it))));
    let _tap = Tap::start(&folder, &folder.url("tap"), &folder.url("server"));
    let mode = fs::metadata(folder.path("tap")).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut client = UnixStream::connect(folder.path("tap")).expect("it listens");
    client.write_all(b"{}\n").expect("it reads");
    client.shutdown(Shutdown::Write).expect("it is connected");
    let mut echoed = Vec::new();
    client.read_to_end(&mut echoed).expect("it answers");
    assert_eq!(echoed, b"{}\n");
}

#[test]
fn w4_socket_file_of_a_killed_tap_is_replaced_and_of_a_running_one_is_not() {
    let folder = Folder::new();
    let (listen, connect) = (folder.url("tap"), folder.url("server"));
    drop(Tap::start(&folder, &listen, &connect));
    let running = Tap::start(&folder, &listen, &connect);
    assert!(UnixStream::connect(folder.path("tap")).is_ok(), "{}", running.1);
    let mut second = Tap::start(&folder, &listen, &connect);
    assert_eq!(second.0.wait().expect("it ends").code(), Some(1));
    assert!(UnixStream::connect(folder.path("tap")).is_ok());
}

/// Signals that ask for the end are an orderly end, as for the daemon and the bridge.
#[test]
fn w5_a_signal_ends_a_tap_between_sockets_with_exit_code_0() {
    let folder = Folder::new();
    for (signal, code) in [
        (Signal::TERM, Some(0)),
        (Signal::INT, Some(0)),
        (Signal::HUP, Some(0)),
        (Signal::USR1, None),
    ] {
        let mut tap = Tap::start(&folder, &folder.url("tap"), &folder.url("server"));
        assert!(folder.path("tap").exists());
        kill_process(Pid::from_child(&tap.0), signal).expect("our child");
        assert_eq!(tap.0.wait().expect("it ends").code(), code, "{signal:?}");
        assert!(!folder.path("tap").exists(), "{signal:?}: the socket is left");
    }
}

#[test]
fn w4_too_many_clients_do_not_end_the_tap() {
    let folder = Folder::new();
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = server.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in server.incoming().flatten() {
            thread::spawn(|| echo(stream));
        }
    });
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 24; exec \"$@\"", "sh", DUET_RPC]);
    let tap = Tap::start_by(command, &folder, "tcp://127.0.0.1:0", &format!("tcp://{address}"));
    let connect = || TcpStream::connect(&tap.1).expect("it listens");
    // More than it has descriptors for, and all of them gone again.
    drop((0..30).map(|_| connect()).collect::<Vec<_>>());
    let is_served = || {
        let mut client = connect();
        let mut echoed = Vec::new();
        let _ = client.write_all(b"{}\n").and_then(|()| client.shutdown(Shutdown::Write));
        let _ = client.read_to_end(&mut echoed);
        echoed == b"{}\n"
    };
    assert!((0..50).any(|_| is_served()), "it serves no client any more");
}

#[test]
fn w4_server_that_is_gone_closes_the_connection() {
    let folder = Folder::new();
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = server.local_addr().expect("an address");
    drop(server);
    let tap = Tap::start(&folder, "tcp://127.0.0.1:0", &format!("tcp://{address}"));
    let mut client = TcpStream::connect(&tap.1).expect("it listens");
    assert_eq!(client.read(&mut [0]).unwrap_or(0), 0);
}

/// A real daemon and a real client over WebSocket and HTTP: the trace has their messages, and every byte.
#[test]
fn r0_messages_over_websocket_and_http_are_recorded() {
    for (address, wire) in [(WS, "ws"), (HTTP, "http")] {
        let folder = Folder::new();
        let server = Server::rpc("agent", &[address], &[]);
        let url = &server.urls[0];
        let tap = Tap::start(&folder, address, &url.text);
        let mut call = Command::new(DUET_RPC);
        call.args(["call", "--connect", &format!("{}://{}", url.scheme, tap.1), "system.ping"]);
        let output = call.output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        wait_for_end(&folder, "trace-1.jsonl");
        let trace = folder.path("trace-1.jsonl");
        let records = records(trace.clone());
        let message = |dir: &str, kind: &str| {
            let is_it = |it: &&serde_json::Value| it["dir"] == dir && it["kind"] == kind;
            records.iter().find(is_it).unwrap_or_else(|| panic!("no {kind}: {records:?}"))
        };
        let (request, response) = (message("c2s", "request"), message("s2c", "response"));
        assert_eq!((&request["method"], &request["wire"]), (&"system.ping".into(), &wire.into()));
        assert_eq!((&response["of"], &response["wire"]), (&request["seq"], &wire.into()));
        assert!(!records.iter().any(|it| it["kind"] == "noise" || it["kind"] == "broken"));
        let end = records.last().expect("an end");
        for dir in ["c2s", "s2c"] {
            let output = cat_file(&trace, dir);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(end["bytes"][dir], output.stdout.len());
        }
    }
}

#[test]
fn w8_tap_listens_to_other_machines_only_if_it_is_allowed() {
    let folder = Folder::new();
    let to = folder.text("trace.jsonl");
    for listen in ["tcp://0.0.0.0:0", "ws://[::]:0", "http://0.0.0.0:0"] {
        let mut command = Command::new(DUET_RPC);
        command.args(["tap", "--to", &to, "--listen", listen, "--connect", "tcp://127.0.0.1:1"]);
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{listen}: {said}");
        assert!(said.contains("other machines could connect to"), "{said}");
        assert!(said.contains("--allow-remote"), "{said}");
    }
    let mut command = Command::new(DUET_RPC);
    command.args(["tap", "--to", &to, "--allow-remote", "--listen", "tcp://0.0.0.0:0"]);
    let mut process = command
        .args(["--connect", "tcp://127.0.0.1:1"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let stderr = process.stderr.take().expect("a pipe");
    BufReader::new(stderr).read_line(&mut line).expect("a line");
    let _tap = Tap(process, String::new());
    assert!(line.starts_with("listening on tcp://0.0.0.0:"), "{line}");
}
