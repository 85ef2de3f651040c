//! Hostile or broken clients: after each of them the daemon serves the others (F3, F6, T2).

use std::io::Write;

use duet_rpc::proto::frame::Framing;
use serde_json::{Value, json};

use crate::client::{Client, Framed, Way, framed};
use crate::http::{Response, head, once, post};
use crate::stream::Stream;
use crate::support::daemon::{FRAMINGS, request};
use crate::support::folder::Folder;
use crate::support::listening::{Server, TCP, wait_until};
use crate::support::pairs;
use crate::websocket::{BINARY, LAST, TEXT, WebSocket, handshake};

const MIB: usize = 1 << 20;

/// Checks that clients on all transports are served.
fn check_others(server: &Server) {
    for way in Way::ALL {
        way.connect(server).check(7);
    }
}

#[test]
fn f6_an_incomplete_http_head_times_out() {
    let server = Server::testbed_everywhere(&["--read-timeout", "0.2"]);
    for scheme in ["http", "ws"] {
        let url = server.url(scheme);
        for start in ["P", "POST / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "] {
            let response = once(url, start.as_bytes());
            assert_eq!(response.status, 408, "{scheme} {start:?}");
        }
    }
    let url = server.url("http");
    let half = post(url, &[], br#"{"jsonrpc":"2.0","id":1,"method":"system.ping"}"#);
    assert_eq!(once(url, &half[..half.len() - 1]).status, 408, "a body that never ends");
    // Sending a byte now and then does not help: the time limit is for the whole head.
    let mut stream = Stream::connect(url);
    let mut reader = std::io::BufReader::new(stream.try_clone());
    let (done, is_done) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        let pace = std::time::Duration::from_millis(20);
        let bytes = format!("POST / HTTP/1.1\r\nX: {}", "y".repeat(5_000));
        for byte in bytes.bytes() {
            let is_refused = stream.write_all(&[byte]).is_err();
            if is_refused || is_done.recv_timeout(pace).is_ok() {
                return;
            }
        }
        panic!("it has waited for the whole head");
    });
    assert_eq!(Response::read(&mut reader).map(|response| response.status), Some(408));
    let _ = done.send(());
    writer.join().expect("it is refused before it has said all");
    check_others(&server);
    server.stop();
}

#[test]
fn f6_an_incomplete_frame_is_dropped_and_the_connection_lives() {
    for (name, framing) in FRAMINGS.into_iter().take(3) {
        let server = Server::rpc("agent", &[TCP], &["--read-timeout", "0.2", "--framing", name]);
        let mut client = Framed::connect(server.url("tcp"), framing);
        client.check(1);
        let whole = framed(framing, request(2, "system.ping", "[]").as_bytes());
        client.send_raw(&whole[..whole.len() / 2]);
        server.daemon().wait_for_line(|line| line.contains("WARN"));
        // In `ndjson`, only the end of the line shows where the next message begins.
        client.send_raw(if framing == Framing::Ndjson { b"\n" } else { b"" });
        client.check(3);
        server.stop();
    }
}

#[test]
fn f3_a_message_of_2_gb_is_refused_before_it_arrives() {
    let oversize = json!({"reason": "oversize"});
    let server = Server::testbed_everywhere(&[]);
    check_others(&server);
    let before = server.resident();
    let mut held: Vec<Box<dyn std::any::Any>> = Vec::new();
    for _ in 0..16 {
        let mut socket = WebSocket::connect(server.url("ws"));
        let length = 2_000_000_000_u64.to_be_bytes();
        socket.send_raw(&[&[LAST | BINARY, 0xff], &length[..], &[1, 2, 3, 4]].concat());
        assert_eq!(socket.read_out(), Some(1009));
        // The same holds for fragments.
        let mut pieces = WebSocket::connect(server.url("ws"));
        pieces.send_frame(TEXT, &vec![b' '; MIB - 10]);
        pieces.send_raw(&[0x00, 0x80 | 20, 1, 2, 3, 4]);
        assert_eq!(pieces.read_out(), Some(1009));
        let url = server.url("http");
        for length in ["2000000000", "9999999999999999999"] {
            let mut stream = Stream::connect(url);
            let headers = [("Host", &*url.authority), ("Content-Length", length)];
            let text = head("POST", "/", &headers);
            stream.write_all(text.as_bytes()).expect("it reads");
            let response = Response::read(&mut std::io::BufReader::new(stream.try_clone()));
            let response = response.expect("it answers");
            assert_eq!(response.status, 413, "{response:?}");
            let body: Value = serde_json::from_str(&response.body).expect("JSON");
            assert_eq!(body["error"]["code"], -32600);
            assert_eq!(body["error"]["data"], oversize);
            held.push(Box::new(stream));
        }
        held.push(Box::new((socket, pieces)));
    }
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 24 * MIB, "it has grown by {grown} bytes");
    check_others(&server);
    server.stop();
}

#[test]
fn f3_a_frame_of_2_gb_is_refused_before_it_arrives_and_the_next_is_served() {
    // A line announces no length: it is refused once it exceeds the limit.
    let line = [&[b' '; 10], &*vec![b'['; MIB + 1]].concat();
    let rows: [(&str, Framing, &[u8]); 4] = [
        ("lsp", Framing::Lsp, b"Content-Length: 2000000000\r\n\r\n"),
        ("length", Framing::Length, &[0x00, 0xff, 0xff, 0xff]),
        ("length", Framing::Length, &2_000_000_000_u32.to_be_bytes()),
        ("ndjson", Framing::Ndjson, &line),
    ];
    for (name, framing, start) in rows {
        let folder = Folder::new();
        let addresses = [TCP, &folder.url("socket")];
        let server = Server::rpc("agent", &addresses, &["--framing", name]);
        let before = server.resident();
        let mut clients = Vec::new();
        // An endless line is kept up to the message limit, so there are fewer of those.
        let count = if framing == Framing::Ndjson { 8 } else { 50 };
        for url in server.urls.iter().cycle().take(count) {
            let mut client = Framed::connect(url, framing);
            client.check(1);
            client.send_raw(start);
            let answer: Value =
                serde_json::from_str(&client.receive().expect("it answers")).expect("JSON");
            assert_eq!(answer["error"]["code"], -32600, "{name}: {answer}");
            assert_eq!(answer["error"]["data"], json!({"reason": "oversize"}), "{name}");
            client.send_raw(if framing == Framing::Ndjson { b"\n" } else { b"" });
            client.check(2);
            clients.push(client);
        }
        let grown = server.resident().saturating_sub(before);
        assert!(grown < 24 * MIB, "{name}: it has grown by {grown} bytes");
        server.stop();
    }
}

/// Prefixes of every kind of client input, in bytes.
fn beginnings(server: &Server, way: Way) -> Vec<Vec<u8>> {
    let url = server.url(way.scheme());
    let ping = request(1, "system.ping", "[]");
    let sleep = request(2, "test.sleep", r#"{"ms":3600000}"#);
    let big = request(3, "test.big", r#"{"bytes":3000000}"#);
    let whole: Vec<Vec<u8>> = [ping, sleep, big]
        .iter()
        .map(|text| match way {
            Way::Http => post(url, &[], text.as_bytes()),
            Way::WebSocket | Way::Binary => {
                let text = crate::websocket::frame(LAST | TEXT, text.as_bytes());
                let start = head("GET", "/", &handshake(&url.authority));
                [start.as_bytes(), &text].concat()
            }
            Way::Tcp(framing) | Way::Unix(framing) => framed(framing, text.as_bytes()),
        })
        .collect();
    let mut all = vec![Vec::new()];
    for bytes in &whole {
        all.extend([1, 3, bytes.len() / 2, bytes.len() - 1].map(|count| bytes[..count].to_vec()));
        all.push(bytes.clone());
    }
    // With more after it that is not read yet.
    all.push(whole.concat());
    all
}

#[test]
fn t2_connections_that_break_off_anywhere_affect_no_other() {
    let server = Server::testbed_everywhere(&[]);
    for way in Way::ALL {
        let mut other = way.connect(&server);
        other.check(1);
        for (number, bytes) in beginnings(&server, way).iter().enumerate() {
            // Reset immediately; close after everything was sent; half close and reset.
            for end in 0..3 {
                let mut stream = Stream::connect(server.url(way.scheme()));
                stream.write_all(bytes).expect("it reads");
                match end {
                    0 => stream.reset(),
                    1 => drop(stream),
                    _ => {
                        stream.finish();
                        stream.reset();
                    }
                }
            }
            other.check(number as u64);
        }
        check_others(&server);
    }
    let lines = server.stop();
    // A client that leaves is not a fault of the daemon (G5).
    let is_fault = |line: &&String| line.contains("ERROR");
    assert_eq!(lines.iter().find(is_fault), None);
}

#[test]
fn t2_garbage_on_every_port_affects_no_other_client() {
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03CANARY\x00\x20";
    let noise: Vec<u8> =
        (0..100_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let garbage: [&[u8]; 7] = [
        b"\0",
        hello,
        &noise,
        b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"Content-Length: 5\r\n\r\nhello",
        &[b'\n'; 5_000],
        &[b'{'; 50_000],
    ];
    for framing in ["lsp", "ndjson", "length", "auto"] {
        let server = Server::testbed_everywhere(&["--framing", framing]);
        for (url, bytes) in pairs(&server.urls, garbage) {
            let mut stream = Stream::connect(url);
            // The connection may be refused before everything is sent.
            let _ = stream.write_all(bytes);
            stream.finish();
            let said = stream.read_out();
            let said = String::from_utf8_lossy(&said);
            assert!(!said.contains("CANARY"), "{framing} {url:?}: {said}");
        }
        let framing_of_clients = match framing {
            "lsp" | "auto" => Framing::Lsp,
            "ndjson" => Framing::Ndjson,
            _ => Framing::Length,
        };
        let ways = [Way::Tcp(framing_of_clients), Way::Unix(framing_of_clients)];
        for way in ways.into_iter().chain([Way::WebSocket, Way::Http]) {
            way.connect(&server).check(1);
        }
        let lines = server.stop();
        assert!(!lines.concat().contains("CANARY"), "{framing}: it is logged");
    }
}

/// The daemon makes no further answers for a client that does not read (L8, P9).
#[test]
fn p9_a_client_that_never_reads_costs_bounded_memory() {
    let server = Server::testbed_everywhere(&[]);
    check_others(&server);
    let before = server.resident();
    let mut held = Vec::new();
    for way in Way::ALL {
        let mut stream = Stream::connect(server.url(way.scheme()));
        match &stream {
            Stream::Tcp(stream) => stream.set_nonblocking(true).expect("it is a socket"),
            Stream::Unix(stream) => stream.set_nonblocking(true).expect("it is a socket"),
        }
        let bytes = &beginnings(&server, way)[15];
        assert!(String::from_utf8_lossy(bytes).contains("HTTP") || way.scheme() != "http");
        let mut written = 0;
        // Requests for 3 MB each, until the daemon reads no more of them; 100 are 300 MB.
        for _ in 0..100 {
            match stream.write(bytes) {
                Ok(count) if count == bytes.len() => written += 1,
                _ => break,
            }
        }
        assert!(written > 0, "{way:?}");
        held.push(stream);
        check_others(&server);
    }
    let mut most = 0;
    for id in 0..200 {
        Way::Tcp(Framing::Ndjson).connect(&server).check(id);
        most = most.max(server.resident().saturating_sub(before));
    }
    assert!(most < 150 * MIB, "it has grown by {most} bytes");
    drop(held);
    wait_until("their memory is released", || server.resident().saturating_sub(before) < 100 * MIB);
    server.stop();
}

/// A browser sends a page's data to any port, after an HTTP head; a proxy sends it on to a Unix socket. The head is a
/// fault in every framing, and without protection the frame after it would be served.
#[test]
fn t3_a_web_page_cannot_call_over_tcp_or_unix_sockets() {
    let call = r#"{"jsonrpc":"2.0","method":"test.sleep","params":{"ms":0}}"#;
    for framing in ["lsp", "ndjson", "length", "auto"] {
        let server = Server::testbed_everywhere(&["--framing", framing]);
        let body = match framing {
            "lsp" => framed(Framing::Lsp, call.as_bytes()),
            "length" => framed(Framing::Length, call.as_bytes()),
            _ => format!("\n{call}\n").into_bytes(),
        };
        // The last method can only come from a page whose own host name resolves to this address, which needs
        // no preflight.
        let methods = ["POST", "GET", "OPTIONS", "PUT", "MADE-UP"];
        for (scheme, method) in pairs(&["tcp", "unix"], methods) {
            let head = format!(
                "{method} / HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://evil.example\r\n\
                 Content-Length: {}\r\n\r\n",
                body.len()
            );
            let mut client = Stream::connect(server.url(scheme));
            // The connection may be closed before everything is sent.
            let _ = client.write_all(&[head.as_bytes(), &body].concat());
            let heard = client.read_out();
            assert!(heard.is_empty(), "{scheme}, {method}, {framing}: {heard:?}");
        }
        let said = server.stop();
        assert!(!said.iter().any(|line| line == "test.sleep begins"), "{framing}: {said:?}");
        let refusals = said.iter().filter(|line| line.contains("HTTP request where frames"));
        assert_eq!(refusals.count(), 10, "{framing}: {said:?}");
    }
}
