//! A tap between two sockets: bytes, half-closes, one trace for each connection.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::thread;

use super::cat_file;
use super::support::folder::Folder;
use super::support::programs::DUET_RPC;

/// A tap between sockets, killed on drop.
struct Tap(Child, String);

impl Tap {
    fn start(folder: &Folder, listen: &str, connect: &str) -> Self {
        Self::start_by(Command::new(DUET_RPC), folder, listen, connect)
    }

    fn start_by(mut command: Command, folder: &Folder, listen: &str, connect: &str) -> Self {
        command.args(["tap", "--listen", listen, "--connect", connect, "--to"]);
        command.arg(folder.path("trace.jsonl")).stderr(Stdio::piped());
        let mut process = command.spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(process.stderr.as_mut().expect("a pipe"))
            .read_line(&mut line)
            .expect("a line");
        let address = line.trim().rsplit("://").next().expect("an address").to_owned();
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
