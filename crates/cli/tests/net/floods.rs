//! More connections than there is room for (P9, T2).

use std::io::{Read, Write};

use duet_rpc::proto::frame::Framing;
use serde_json::{Value, json};

use crate::capacity::{Turn, make_room};
use crate::certificates::{self, Authority};
use crate::client::{Client, Framed, Way, framed};
use crate::http::{head, once, post};
use crate::stream::Stream;
use crate::support::daemon::{FRAMINGS, after, rpc};
use crate::support::folder::Folder;
use crate::support::listening::{HTTP, Server, TCP, WS, wait_until, with_addresses};
use crate::support::say_skipped;
use crate::websocket::{CLOSE, LAST, WebSocket, frame, handshake};

/// The number of connections that never finish their handshake.
const HALVES: usize = 10_000;

/// Tries one request, and returns true if it was served. A refused client may be cut off without a message.
fn is_served(way: Way, server: &Server) -> bool {
    let url = server.url(way.scheme());
    let ask = br#"{"jsonrpc":"2.0","id":1,"method":"version"}"#;
    let (bytes, sign) = match way {
        Way::Http => (post(url, &[("Connection", "close")], ask), "200 OK"),
        Way::Tcp(framing) | Way::Unix(framing) => (framed(framing, ask), "0.1.0"),
        Way::WebSocket | Way::Binary => {
            let start = head("GET", "/", &handshake(&url.authority));
            ([start.as_bytes(), &frame(LAST | CLOSE, &[])].concat(), "101 ")
        }
    };
    let mut stream = Stream::connect(url);
    let _ = stream.write_all(&bytes);
    stream.finish();
    String::from_utf8_lossy(&stream.read_out()).contains(sign)
}

/// Checks that one more connection is refused, in the form of its transport.
fn check_refused(way: Way, server: &Server) {
    let url = server.url(way.scheme());
    match way {
        Way::Http => {
            let response = once(url, &post(url, &[], b"{}"));
            assert_eq!(response.status, 503, "{response:?}");
        }
        Way::WebSocket | Way::Binary => {
            let refused = WebSocket::connect_with(url, &[]).map(drop);
            assert_eq!(refused.expect_err("there is no room").status, 503);
        }
        Way::Tcp(framing) | Way::Unix(framing) => {
            let mut client = Framed::connect(url, framing);
            let text = client.receive().expect("a refusal");
            let answer: Value = serde_json::from_str(&text).expect("JSON");
            let data = json!({"reason": "overloaded", "limit": 8});
            let error = json!({"code": -32000, "message": "Server busy", "data": data});
            assert_eq!(answer, json!({"jsonrpc": "2.0", "id": null, "error": error}));
            assert_eq!(client.receive(), None);
        }
    }
}

#[test]
fn p9_a_connection_above_the_limit_is_refused_and_the_others_are_served() {
    for (name, framing) in FRAMINGS.into_iter().take(3) {
        let server = Server::rpc_everywhere(&["--max-connections", "8", "--framing", name]);
        let ways = [Way::Tcp(framing), Way::Unix(framing), Way::WebSocket, Way::Http];
        let mut clients: Vec<_> =
            ways.into_iter().cycle().take(8).map(|way| way.connect(&server)).collect();
        for (client, id) in clients.iter_mut().zip(0..) {
            client.check(id);
        }
        for (round, way) in ways.into_iter().cycle().take(40).enumerate() {
            check_refused(way, &server);
            clients[round % 8].check(100 + round as u64);
        }
        // Each client that leaves makes room for any other.
        for way in ways.into_iter().rev() {
            drop(clients.remove(0));
            wait_until("there is room again", || is_served(way, &server));
            for client in &mut clients {
                client.check(500);
            }
        }
        server.stop();
    }
}

/// A thousand connections, with room for eight: each is either served or refused.
#[test]
fn p9_a_flood_of_connections_affects_no_other_client() {
    let server = Server::rpc_everywhere(&["--max-connections", "8"]);
    let mut inside: Vec<_> = Way::ALL.into_iter().map(|way| way.connect(&server)).collect();
    for client in &mut inside {
        client.check(1);
    }
    let (before, descriptors) = (server.resident(), server.descriptors());
    for round in 0..10 {
        let urls = server.urls.iter().cycle().take(400);
        let mut flood: Vec<_> = urls.map(Stream::connect).collect();
        flood.iter_mut().for_each(|stream| drop(stream.write_all(b"G")));
        for client in &mut inside {
            client.check(round);
        }
        drop(flood);
    }
    wait_until("they are all forgotten", || is_served(Way::Http, &server));
    wait_until("no descriptor is left", || server.descriptors() <= descriptors);
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 16 << 20, "it has grown by {grown} bytes");
    server.stop();
}

/// Each refused connection of a burst gets the reason, even if there are many and none sends anything.
#[test]
fn p9_every_silent_connection_of_a_burst_over_the_limit_gets_the_reason() {
    let server = Server::rpc_everywhere(&["--max-connections", "1"]);
    let mut inside = Way::ALL[0].connect(&server);
    inside.check(1);
    for way in Way::ALL {
        let url = server.url(way.scheme());
        let burst: Vec<_> = (0..300).map(|_| Stream::connect(url)).collect();
        for (number, mut stream) in burst.into_iter().enumerate() {
            let told = String::from_utf8(stream.read_out()).expect("text");
            assert!(is_refusal(&told), "{way:?}, connection {number}: {told:?}");
        }
        inside.check(2);
    }
    server.stop();
}

/// Returns true if this is a complete refusal of any transport.
fn is_refusal(told: &str) -> bool {
    let is_frame = told.contains(r#""message":"Server busy""#) && told.ends_with("}\n");
    let is_response = told.starts_with("HTTP/1.1 503 ") && told.contains("Too many connections");
    is_frame || is_response
}

/// A daemon with this limit of descriptors.
fn with_descriptors(limit: usize, addresses: &[&str]) -> Server {
    let started = with_addresses(rpc(&["--profile", "agent"]), addresses);
    Server::spawn(after(&format!("ulimit -n {limit}"), &started), addresses.len())
}

/// With few descriptors, each connection is either served or refused, and none hangs.
#[test]
fn p9_with_few_descriptors_each_connection_is_served_or_refused_and_none_hangs() {
    for (limit, count) in [(40, 60), (64, 100), (128, 200)] {
        let folder = Folder::new();
        let server = with_descriptors(limit, &[TCP, &folder.url("socket"), HTTP]);
        let ask = br#"{"jsonrpc":"2.0","id":1,"method":"version"}"#;
        for way in [Way::ALL[0], Way::ALL[1], Way::Http] {
            let url = server.url(way.scheme());
            let bytes = match way {
                Way::Http => post(url, &[], ask),
                _ => framed(Framing::Ndjson, ask),
            };
            let mut streams: Vec<_> = (0..count).map(|_| Stream::connect(url)).collect();
            let (mut served, mut refused) = (0, 0);
            for stream in &mut streams {
                // A refused connection cannot send any more.
                let _ = stream.write_all(&bytes);
                let mut told = [0; 4096];
                let length = stream.read(&mut told).expect("it hears something");
                let told = String::from_utf8_lossy(&told[..length]).into_owned();
                match told.contains("0.1.0") {
                    true => served += 1,
                    false if is_refusal(&told) => refused += 1,
                    false => panic!("{way:?} with {limit} descriptors: {told:?}"),
                }
            }
            assert!(served > 0 && refused > 0, "{way:?}, {limit}: {served} and {refused}");
            // A lack of descriptors must not make the daemon spin.
            let before = processor_time(&server);
            std::thread::sleep(std::time::Duration::from_millis(300));
            let ticks = processor_time(&server) - before;
            assert!(ticks <= 10, "{way:?} with {limit} descriptors: it spins, {ticks} ticks");
            drop(streams);
            wait_until("there is room again", || is_served(way, &server));
        }
        let end = server.end(rustix::process::Signal::TERM);
        assert_eq!(end.status.code(), Some(0), "{end:?}");
    }
}

/// Processor time, in hundredths of a second.
fn processor_time(server: &Server) -> u64 {
    let path = format!("/proc/{}/stat", server.daemon().process.id());
    let stat = std::fs::read_to_string(path).expect("it lives");
    // Fields 12 and 13 after the name, which may contain anything, are times.
    let (_, rest) = stat.rsplit_once(')').expect("a name");
    rest.split_whitespace().skip(11).take(2).map(|it| it.parse::<u64>().expect("a number")).sum()
}

/// Without free descriptors, the daemon serves the existing connections, and new ones once some are free
/// again.
#[test]
fn p9_without_descriptors_the_daemon_serves_existing_connections() {
    let server = with_descriptors(128, &[TCP, HTTP]);
    let way = Way::Tcp(Framing::Ndjson);
    let mut inside = way.connect(&server);
    inside.check(1);
    let outside: Vec<_> = (0..200).map(|_| Stream::connect(server.url("tcp"))).collect();
    for id in 0..100 {
        inside.check(id);
    }
    drop(outside);
    wait_until("there is room again", || is_served(way, &server));
    way.connect(&server).check(1);
    Way::Http.connect(&server).check(2);
    inside.check(3);
    let end = server.end(rustix::process::Signal::TERM);
    assert_eq!(end.status.code(), Some(0), "{end:?}");
    assert!(end.lines.len() < 100, "logged once, not for each try: {}", end.lines.len());
}

/// The start of a TLS handshake, and of a request. The rest never comes.
const CLIENT_HELLO: &[u8] =
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 some of the random bytes of a client";
const REQUEST: &[u8] =
    b"POST / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nContent-Length: 9\r\n\r\n{\"half\"";

/// Each of ten thousand connections that never finish their handshake or their request is closed after the read
/// timeout. Meanwhile other clients are served.
#[test]
fn f6_p8_t5_ten_thousand_half_handshakes_and_heads_are_closed_and_others_served() {
    let _turn = Turn::take();
    let count = make_room(HALVES);
    if count < HALVES {
        let why = format!("{count} are all that this process may have");
        return say_skipped(&format!("{HALVES} half handshakes"), &why);
    }
    let (folder, authority) = (certificates::Folder::new(), Authority::new("Test CA"));
    let pair = authority.server(&["127.0.0.1"]).write(&folder, "server");
    let paths = [&pair.certificate, &pair.key].map(|path| path.to_str().expect("a plain path"));
    let addresses =
        ["tls://127.0.0.1:0", "wss://127.0.0.1:0/", "https://127.0.0.1:0/", WS, HTTP, TCP];
    let options = [
        "--read-timeout",
        "5",
        "--log-level",
        "error",
        "--tls-cert",
        paths[0],
        "--tls-key",
        paths[1],
    ];
    let server = Server::rpc("agent", &addresses, &options);
    let ways = [Way::Tcp(Framing::Ndjson), Way::WebSocket, Way::Http];
    let mut inside = ways.map(|way| way.connect(&server));
    inside.iter_mut().for_each(|client| client.check(1));
    let (before, descriptors) = (server.resident(), server.descriptors());

    let mut halves = Vec::with_capacity(count);
    for (number, url) in server.urls.iter().take(5).cycle().take(count).enumerate() {
        let whole =
            if url.scheme.ends_with('s') && url.scheme != "ws" { CLIENT_HELLO } else { REQUEST };
        let mut stream = Stream::connect(url);
        let part = &whole[..1 + number % whole.len()];
        stream.write_all(part).expect("it reads");
        halves.push(stream);
        // Now and then, so that the queue of unaccepted connections does not overflow.
        if number % 100 == 0 {
            inside.iter_mut().for_each(|client| client.check(2));
        }
    }
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 256 << 20, "{count} half handshakes cost {grown} bytes");
    ways.iter().for_each(|way| way.connect(&server).check(3));
    for half in &mut halves {
        let told = String::from_utf8_lossy(&half.read_out()).into_owned();
        assert!(told.is_empty() || told.starts_with("HTTP/1.1 4"), "{told}");
    }
    wait_until("no descriptor is left", || server.descriptors() <= descriptors);
    inside.iter_mut().for_each(|client| client.check(4));
    server.stop();
}
