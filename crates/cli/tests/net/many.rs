//! Many busy connections: each is served, and none at the cost of another (P8, L2).

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use duet_rpc::proto::frame::Framing;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::Value;

use crate::capacity::{Turn, make_room};
use crate::client::{Client, Way};
use crate::stream::Stream;
use crate::support::daemon::{HANG, PROFILES, request};
use crate::support::listening::{Server, TCP};
use crate::websocket::WebSocket;

const ROUNDS: u64 = 50;

/// A connection with a request in flight.
struct Worker {
    stream: Stream,
    /// Number of answered requests.
    round: u64,
    came: Vec<u8>,
}

impl Worker {
    fn ask(&mut self, number: usize) {
        // All use the same ids, so that a misdirected answer shows in its result.
        let params = format!("[{number},{}]", self.round);
        let text = request(self.round, "system.echo", &params) + "\n";
        self.stream.write_all(text.as_bytes()).expect("it reads");
    }

    /// Reads, and returns true if the answer is complete.
    fn take(&mut self, number: usize) -> bool {
        let mut chunk = [0; 1024];
        let count = self.stream.read(&mut chunk).expect("something has come");
        assert_ne!(count, 0, "the connection {number} was closed");
        self.came.extend_from_slice(&chunk[..count]);
        if !self.came.ends_with(b"\n") {
            return false;
        }
        let round = self.round;
        let expected = format!(r#"{{"jsonrpc":"2.0","id":{round},"result":[{number},{round}]}}"#);
        assert_eq!(String::from_utf8_lossy(&self.came).trim_end(), expected);
        self.came.clear();
        self.round += 1;
        true
    }
}

/// A thousand clients, each with a new request as soon as the last is answered. Each round reads from all of
/// them, so a client that the daemon neglects falls behind.
#[test]
fn p8_a_thousand_busy_connections_are_served_evenly() {
    let _turn = Turn::take();
    let count = make_room(1000);
    let server = Server::rpc("agent", &[TCP], &[]);
    let mut workers: Vec<_> = (0..count)
        .map(|_| Worker { stream: Stream::connect(server.url("tcp")), round: 0, came: Vec::new() })
        .collect();
    for (number, worker) in workers.iter_mut().enumerate() {
        worker.ask(number);
    }
    let (begun, mut widest) = (Instant::now(), 0);
    let mut left = workers.len();
    while left > 0 {
        assert!(begun.elapsed() < HANG * 4, "{left} of {count} are not done");
        let ready: Vec<bool> = {
            let fds = workers.iter().map(|worker| match &worker.stream {
                Stream::Tcp(stream) => stream.as_fd(),
                Stream::Unix(stream) => stream.as_fd(),
            });
            let mut fds: Vec<_> =
                fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            poll(&mut fds, None).expect("it can wait");
            fds.iter().map(|fd| !fd.revents().is_empty()).collect()
        };
        for (number, worker) in workers.iter_mut().enumerate() {
            if ready[number] && worker.take(number) {
                if worker.round == ROUNDS { left -= 1 } else { worker.ask(number) }
            }
        }
        let rounds = || workers.iter().map(|worker| worker.round);
        widest = widest.max(rounds().max().unwrap_or(0) - rounds().min().unwrap_or(0));
    }
    eprintln!(
        "{count} connections, {ROUNDS} requests each, in {:?}; the first was at most {widest} ahead",
        begun.elapsed()
    );
    server.stop();
}

/// Sets the flag on drop, even if a test fails.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A client that sends requests without pause does not keep the others from being served.
#[test]
fn p8_a_greedy_connection_does_not_starve_the_others() {
    let server = Server::rpc_everywhere(&[]);
    let mut greedy = Stream::connect(server.url("tcp"));
    let mut answers = greedy.try_clone();
    let reader = thread::spawn(move || answers.read_out().len());
    let over = Over(Arc::default());
    let is_over = Arc::clone(&over.0);
    let writer = thread::spawn(move || {
        let many = (request(1, "system.echo", "[1]") + "\n").repeat(2000);
        while !is_over.load(Ordering::Relaxed) {
            greedy.write_all(many.as_bytes()).expect("it reads");
        }
        greedy.finish();
    });
    for way in Way::ALL {
        let mut client = way.connect(&server);
        for id in 0..20 {
            client.check(id);
        }
    }
    drop(over);
    writer.join().expect("it only writes");
    assert!(reader.join().expect("it only reads") > 0);
    server.stop();
}

#[test]
fn p8_connections_share_nothing_but_the_methods() {
    let server = Server::testbed_everywhere(&["--share-log"]);
    let ways = [Way::ALL[0], Way::ALL[1], Way::WebSocket, Way::ALL[0], Way::WebSocket];
    let mut clients = ways.map(|way| way.connect(&server));
    // The same ids are in flight on all of them, and a cancellation affects only its own connection.
    for client in &mut clients {
        client.send(request(1, "test.sleep", r#"{"ms":3600000}"#).as_bytes());
        server.daemon().wait_for("test.sleep begins");
    }
    let cancelled =
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"Request cancelled"}}"#;
    for (number, client) in clients.iter_mut().enumerate().skip(1) {
        client.send(br#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#);
        assert_eq!(client.receive().as_deref(), Some(cancelled), "{number}");
    }
    // The daemon's calls have their own ids per connection, and take their answers only from there.
    let mut calls = BTreeMap::new();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(request(2, "system.callback", r#"{"method":"who"}"#).as_bytes());
        let call: Value = serde_json::from_str(&client.receive().expect("a call")).expect("JSON");
        assert_eq!(call["method"], "who", "{call}");
        calls.insert(number, call["id"].to_string());
    }
    for (number, client) in clients.iter_mut().enumerate().rev() {
        let id = &calls[&number];
        client.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"{number}"}}"#).as_bytes());
        let answer = format!(r#"{{"jsonrpc":"2.0","id":2,"result":"{number}"}}"#);
        assert_eq!(client.receive(), Some(answer));
    }
    // Only subscribers get events.
    let [first, second, third, ..] = &mut clients;
    let topics = r#"{"topics":["log","stats"]}"#;
    let subscribed = r#"{"jsonrpc":"2.0","id":3,"result":{"topics":["log","stats"]}}"#;
    assert_eq!(third.ask(3, "events.subscribe", topics), subscribed);
    second.send(br#"{"jsonrpc":"2.0","method":"no.such.method"}"#);
    let mut seen = Vec::new();
    while !(seen.contains(&"log".to_owned()) && seen.contains(&"stats".to_owned())) {
        let event: Value = serde_json::from_str(&third.receive().expect("events")).expect("JSON");
        assert_eq!(event["method"], "event", "{event}");
        seen.push(event["params"]["topic"].as_str().expect("a text").to_owned());
    }
    // The next message of the others is their own answer.
    first.check(4);
    second.check(4);
    first.send(br#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#);
    assert_eq!(first.receive().as_deref(), Some(cancelled));
    // A subscription ends with its connection.
    let mut again = WebSocket::connect(server.url("ws"));
    let nothing = r#"{"jsonrpc":"2.0","id":5,"result":{"topics":[]}}"#;
    assert_eq!(again.ask(5, "events.unsubscribe", r#"{"topics":[]}"#), nothing);
    server.stop();
}

/// The limit of requests in flight is per connection, and so is sequential order.
#[test]
fn l2_p8_a_waiting_connection_does_not_delay_another() {
    for profile in PROFILES {
        let options = ["--framing", "ndjson", "--max-in-flight", "1"];
        let server = Server::testbed(profile, &[TCP], &options);
        let way = Way::Tcp(Framing::Ndjson);
        let mut clients: Vec<_> = (0..50).map(|_| way.connect(&server)).collect();
        for client in &mut clients {
            client.send(request(1, "test.sleep", r#"{"ms":3600000}"#).as_bytes());
            server.daemon().wait_for("test.sleep begins");
        }
        let version = r#"{"jsonrpc":"2.0","id":2,"result":{"version":"0.1.0"}}"#;
        assert_eq!(way.connect(&server).ask(2, "version", "[]"), version, "{profile}");
        for client in &mut clients {
            client.send(br#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#);
            assert!(client.receive().is_some_and(|answer| answer.contains("-32800")), "{profile}");
        }
        server.stop();
    }
}

#[test]
fn g3_records_name_their_connection_if_there_are_several() {
    let server = Server::rpc("agent", &[TCP], &[]);
    let way = Way::Tcp(Framing::Ndjson);
    let mut clients = [way.connect(&server), way.connect(&server)];
    for (client, id) in clients.iter_mut().zip([11, 22]) {
        client.ask(id, "unknown", "[]");
    }
    drop(clients);
    let lines = server.stop();
    let connection = |id: u64| {
        let about = lines.iter().find(|line| line.ends_with(&format!("method=unknown id={id}")));
        let about = about.unwrap_or_else(|| panic!("{id} is logged: {lines:?}"));
        let (_, behind) = about.split_once(" connection=").expect("it names its connection");
        behind.split(' ').next().map(ToOwned::to_owned)
    };
    assert_ne!(connection(11), connection(22));
    let others = lines.iter().filter(|line| !line.contains("method="));
    assert!(!others.into_iter().any(|line| line.contains("connection=")), "{lines:?}");
}
