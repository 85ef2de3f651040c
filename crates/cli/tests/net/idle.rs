//! The cost of idle connections (P8).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use duet_rpc::proto::frame::Framing;
use rustix::net::sockopt::set_socket_linger;

use crate::capacity::{Turn, make_room};
use crate::client::{Way, framed};
use crate::http::{head, post};
use crate::support::daemon::{HANG, request};
use crate::support::listening::{HTTP, Server, TCP, Url, WS, wait_until};
use crate::support::say_skipped;
use crate::websocket::{LAST, TEXT, frame, handshake};

const WANTED: usize = 10_000;
const GROUP: usize = 100;
const MIB: usize = 1 << 20;

/// Time for the daemon to give back unused memory.
const GIVE_BACK_TIMEOUT: Duration = Duration::from_secs(10);

/// Open connections that send nothing.
struct IdleConnections {
    way: Way,
    url: Url,
    streams: Vec<TcpStream>,
}

impl IdleConnections {
    fn gather(way: Way, url: &Url, count: usize) -> Self {
        let mut connections =
            IdleConnections { way, url: url.clone(), streams: Vec::with_capacity(count) };
        let hello = match way {
            Way::WebSocket => head("GET", "/", &handshake(&url.authority)).into_bytes(),
            _ => Vec::new(),
        };
        // In groups, so that the queue of unaccepted connections does not overflow.
        while connections.streams.len() < count {
            let from = connections.streams.len();
            for _ in 0..GROUP.min(count - from) {
                let stream = TcpStream::connect(url.address()).expect("it listens");
                stream.set_read_timeout(Some(HANG)).expect("a time that can be");
                connections.streams.push(stream);
            }
            if way == Way::WebSocket {
                exchange(&mut connections.streams[from..], &hello, b"\r\n\r\n");
            } else {
                way.connect_to(url).check(0);
            }
        }
        connections
    }

    /// Makes one request on each connection, and reads the answers.
    fn ask(&mut self) {
        let text = request(1, "system.echo", r#"["some params that are not too short"]"#);
        let (bytes, end): (_, &[u8]) = match self.way {
            Way::WebSocket | Way::Binary => (frame(LAST | TEXT, text.as_bytes()), b"\"]}"),
            Way::Http => (post(&self.url, &[], text.as_bytes()), b"\"]}"),
            Way::Tcp(framing) | Way::Unix(framing) => (framed(framing, text.as_bytes()), b"\"]}\n"),
        };
        for group in self.streams.chunks_mut(GROUP) {
            exchange(group, &bytes, end);
        }
    }

    fn leave(self) {
        for stream in self.streams {
            // Reset, so that no port is held for a minute.
            let _ = set_socket_linger(&stream, Some(Duration::ZERO));
        }
    }
}

/// Sends bytes on each connection, and reads until each has received `end`.
fn exchange(streams: &mut [TcpStream], bytes: &[u8], end: &[u8]) {
    for stream in &mut *streams {
        stream.write_all(bytes).expect("it reads");
    }
    for stream in streams {
        let (mut came, mut chunk) = (Vec::new(), [0; 1024]);
        while !came.ends_with(end) {
            let count = stream.read(&mut chunk).expect("it answers");
            assert_ne!(count, 0, "it is closed: {}", String::from_utf8_lossy(&came));
            came.extend_from_slice(&chunk[..count]);
        }
    }
}

/// Growth of the daemon's memory, once it has given back what it does not need.
fn growth(server: &Server, before: usize, most: usize) -> usize {
    let begun = Instant::now();
    loop {
        let grown = server.resident().saturating_sub(before);
        if grown < most || begun.elapsed() > GIVE_BACK_TIMEOUT {
            return grown;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn check(way: Way, address: &str) {
    let _turn = Turn::take();
    let count = make_room(WANTED);
    if count < WANTED {
        let why = format!("{count} are all that this process may have");
        return say_skipped(&format!("{WANTED} connections"), &why);
    }
    let server = Server::rpc("agent", &[address], &["--log-level", "warn"]);
    let url = server.url(way.scheme());
    way.connect(&server).check(1);
    let before = server.resident();
    let mut connections = IdleConnections::gather(way, url, count);
    // hyper keeps a read buffer for each connection.
    let most = if url.scheme == "http" { 192 * MIB } else { 64 * MIB };
    // Futures are larger without optimisation.
    let most = if cfg!(debug_assertions) { most + most / 8 } else { most };
    let silent = growth(&server, before, most);
    connections.ask();
    let asked = growth(&server, before, most);
    let each = (silent / count, asked / count);
    eprintln!("{count} over {}: {silent} bytes, after a call {asked}, each {each:?}", url.scheme);
    assert!(silent < most, "{} idle connections cost {silent} bytes", url.scheme);
    assert!(asked < most, "{} idle connections cost {asked} bytes after a call", url.scheme);
    // Another client is served, now and after they have left.
    way.connect(&server).check(2);
    connections.leave();
    way.connect(&server).check(3);
    server.stop();
}

#[test]
fn p8_idle_connections_over_tcp_websocket_and_http_cost_little() {
    for (way, address) in [(Way::ALL[0], TCP), (Way::WebSocket, WS), (Way::Http, HTTP)] {
        check(way, address);
    }
}

/// A connection that was busy once is as cheap as one that never was.
#[test]
fn p8_memory_of_long_messages_is_given_back() {
    const COUNT: usize = 32;
    let server = Server::rpc("agent", &[TCP, WS, HTTP], &["--log-level", "warn"]);
    let ways = [Way::Tcp(Framing::Ndjson), Way::WebSocket, Way::Http];
    let mut clients: Vec<_> = ways
        .into_iter()
        .flat_map(|way| (0..COUNT).map(move |_| way))
        .map(|way| way.connect(&server))
        .collect();
    clients.iter_mut().for_each(|client| client.check(1));
    let before = server.resident();
    let params = format!(r#"["{}"]"#, "x".repeat(900_000));
    for client in &mut clients {
        assert!(client.ask(2, "system.echo", &params).len() > 900_000);
    }
    // Each request needed two buffers of that size. They belong to the thread now, not to the connection.
    wait_until("little is kept", || server.resident().saturating_sub(before) < 32 * MIB);
    clients.iter_mut().for_each(|client| client.check(3));
    server.stop();
}
