//! WebSocket frames: the rules, and the reaction to broken ones (T2).

use crate::client::Client;
use crate::http::{head, once};
use crate::support::daemon::request;
use crate::support::listening::{Server, WS};
use crate::websocket::{
    BINARY, CLOSE, CONTINUATION, Frame, KEY, LAST, PING, PONG, TEXT, WebSocket, frame, handshake,
};

const ASK: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"system.ping"}"#;
const PONGED: &str = r#"{"jsonrpc":"2.0","id":1,"result":"pong"}"#;

fn server() -> Server {
    Server::testbed("agent", &[WS], &["--max-message-bytes", "100000"])
}

#[test]
fn t2_f4_a_broken_rule_closes_with_1002_and_bad_utf8_with_1007() {
    let unmasked = [&[LAST | TEXT, ASK.len() as u8], ASK].concat();
    let request =
        b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"system.echo\",\"params\":[\"\xc3(\"]}";
    let rows: [(u16, &str, Vec<u8>); 20] = [
        (1002, "no mask", unmasked),
        (1002, "an unknown bit", frame(LAST | 0x40 | TEXT, ASK)),
        (1002, "another unknown bit", frame(LAST | 0x20 | BINARY, ASK)),
        (1002, "the third unknown bit", frame(LAST | 0x10 | PING, b"")),
        (1002, "an unknown operation", frame(LAST | 3, ASK)),
        (1002, "an unknown control operation", frame(LAST | 0xb, b"")),
        (1002, "a ping in pieces", frame(PING, b"")),
        (1002, "a ping of 126 bytes", frame(LAST | PING, &[b'x'; 126])),
        (1002, "a ping of 2 GB", vec![LAST | PING, 0xff, 0, 0, 0, 0, 0x77, 0, 0, 0]),
        (1002, "a continuation without a start", frame(LAST | CONTINUATION, ASK)),
        (1002, "a message within a message", [frame(TEXT, b"{"), frame(LAST | TEXT, ASK)].concat()),
        (1002, "a close frame of one byte", frame(LAST | CLOSE, &[3])),
        (1002, "a code that may not be sent", frame(LAST | CLOSE, &1005_u16.to_be_bytes())),
        (1002, "a length with its highest bit", vec![LAST | TEXT, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0]),
        (1007, "one frame", frame(LAST | TEXT, b"\"\xff\xfe\"")),
        (1007, "in a request", frame(LAST | TEXT, request)),
        (1007, "a surrogate", frame(LAST | TEXT, b"\"\xed\xa0\x80\"")),
        (1007, "a cut character", frame(LAST | TEXT, b"\"\xf0\x9f\x98")),
        (1007, "two frames", [frame(TEXT, b"\"\xc3"), frame(LAST | CONTINUATION, b"(\"")].concat()),
        // The rest does not come: the first wrong byte is enough.
        (1007, "a part of a frame", frame(LAST | TEXT, request)[..request.len() + 4].to_vec()),
    ];
    let server = server();
    let mut other = WebSocket::connect(server.url("ws"));
    for (number, (expected, case, bytes)) in rows.iter().enumerate() {
        let mut client = WebSocket::connect(server.url("ws"));
        client.check(1);
        client.send_raw(&[&frame(LAST | TEXT, ASK), &bytes[..]].concat());
        assert_eq!(client.receive().as_deref(), Some(PONGED), "{case}");
        assert_eq!(client.receive(), None, "{case}");
        // A length that no message can have may also count as too big.
        let is_fine = client.closed == Some(*expected)
            || (case.contains("highest") && client.closed == Some(1009));
        assert!(is_fine, "{case}: {:?}", client.closed);
        other.check(number as u64);
    }
    // In a binary message it is only a parse error.
    other.send_frame(LAST | BINARY, request);
    assert!(other.receive().is_some_and(|answer| answer.contains("-32700")));
    other.check(99);
    server.stop();
}

#[test]
fn t2_a_ping_is_answered_even_between_the_fragments_of_a_message() {
    let server = server();
    let mut client = WebSocket::connect(server.url("ws"));
    for payload in [&b""[..], b"are you there", &[0xff; 125]] {
        client.send_frame(LAST | PING, payload);
        let pong = Frame { first: LAST | PONG, payload: payload.to_vec() };
        assert_eq!(client.frame(), Some(pong));
    }
    // Several at once are all answered, in their order.
    let pings: Vec<u8> = (0..100).flat_map(|number| frame(LAST | PING, &[number])).collect();
    client.send_raw(&pings);
    for number in 0..100_u8 {
        assert_eq!(client.frame(), Some(Frame { first: LAST | PONG, payload: vec![number] }));
    }
    // An unexpected pong is ignored.
    client.send_frame(LAST | PONG, b"I am");
    client.send_frame(TEXT, &ASK[..5]);
    client.send_frame(LAST | PING, b"1");
    assert_eq!(client.frame(), Some(Frame { first: LAST | PONG, payload: b"1".to_vec() }));
    client.send_frame(CONTINUATION, b"");
    client.send_frame(CONTINUATION, &ASK[5..9]);
    client.send_frame(LAST | PING, b"2");
    assert_eq!(client.frame(), Some(Frame { first: LAST | PONG, payload: b"2".to_vec() }));
    client.send_frame(LAST | CONTINUATION, &ASK[9..]);
    assert_eq!(client.receive().as_deref(), Some(PONGED));
    // A running request does not delay a pong.
    client.send(request(9, "test.sleep", r#"{"ms":3600000}"#).as_bytes());
    client.send_frame(LAST | PING, b"3");
    assert_eq!(client.frame(), Some(Frame { first: LAST | PONG, payload: b"3".to_vec() }));
    client.send(br#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":9}}"#);
    assert!(client.receive().is_some_and(|answer| answer.contains("-32800")));
    server.stop();
}

#[test]
fn t2_fragments_of_any_size_make_a_message_in_text_and_binary() {
    let server = server();
    let mut client = WebSocket::connect(server.url("ws"));
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"system.echo","params":["é漢😀"]}"#;
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":["é漢😀"]}"#;
    for operation in [TEXT, BINARY] {
        for size in [1, 2, 7, 1000] {
            let pieces: Vec<_> = text.as_bytes().chunks(size).collect();
            for (number, piece) in pieces.iter().enumerate() {
                let operation = if number == 0 { operation } else { CONTINUATION };
                let last = if number + 1 == pieces.len() { LAST } else { 0 };
                client.send_frame(last | operation, piece);
            }
            assert_eq!(client.receive().as_deref(), Some(answer), "{operation} {size}");
        }
    }
    // Byte by byte over the wire, and many in one write.
    for byte in frame(LAST | TEXT, ASK) {
        client.send_raw(&[byte]);
    }
    assert_eq!(client.receive().as_deref(), Some(PONGED));
    client.send_raw(&frame(LAST | TEXT, ASK).repeat(200));
    for _ in 0..200 {
        assert_eq!(client.receive().as_deref(), Some(PONGED));
    }
    // The size limit applies to all fragments together.
    for _ in 0..2 {
        client.send_frame(TEXT, &[b' '; 60_000]);
        client.send_frame(LAST | CONTINUATION, ASK);
        assert_eq!(client.receive().as_deref(), Some(PONGED));
    }
    client.send_frame(TEXT, &[b' '; 60_000]);
    client.send_frame(CONTINUATION, &[b' '; 60_000]);
    assert_eq!(client.read_out(), Some(1009));
    server.stop();
}

#[test]
fn t2_an_oversize_message_closes_with_1009_after_running_requests_are_answered() {
    let server = server();
    let mut client = WebSocket::connect(server.url("ws"));
    client.send(request(1, "test.sleep", r#"{"ms":100}"#).as_bytes());
    server.daemon().wait_for("test.sleep begins");
    client.send_frame(LAST | TEXT, &[b' '; 100_001]);
    assert_eq!(client.receive().as_deref(), Some(r#"{"jsonrpc":"2.0","id":1,"result":100}"#));
    assert_eq!(client.read_out(), Some(1009));
    server.stop();
}

#[test]
fn t2_a_close_frame_is_answered_with_a_close_frame() {
    let server = server();
    let rows: [(&[u8], &[u16]); 4] = [
        (&1000_u16.to_be_bytes(), &[1000]),
        (&[3, 233, b'b', b'y', b'e'], &[1001, 1000]),
        (&4999_u16.to_be_bytes(), &[4999, 1000]),
        // Without a code, the answer has none, or the usual one.
        (&[], &[1000]),
    ];
    for (payload, codes) in rows {
        let mut client = WebSocket::connect(server.url("ws"));
        client.check(1);
        client.send_frame(LAST | CLOSE, payload);
        let Some(Frame { first, payload: said }) = client.frame() else { panic!("no close frame") };
        assert_eq!(first, LAST | CLOSE);
        let code = said.first_chunk().copied().map(u16::from_be_bytes);
        let is_fine = code.map_or(payload.is_empty(), |code| codes.contains(&code));
        assert!(is_fine, "{payload:?} {code:?}");
        assert_eq!(client.frame(), None, "it is closed");
    }
    server.stop();
}

#[test]
fn t2_a_bad_handshake_is_refused_with_a_status() {
    let server = server();
    let url = server.url("ws");
    let own = handshake(&url.authority);
    let without = |name: &str| -> Vec<_> {
        own.iter().copied().filter(|(known, _)| *known != name).collect()
    };
    let with = |name: &'static str, value: &'static str| -> Vec<_> {
        let mut headers = without(name);
        headers.push((name, value));
        headers
    };
    let rows = [
        ("GET", "no key", without("Sec-WebSocket-Key")),
        ("GET", "no version", without("Sec-WebSocket-Version")),
        ("GET", "no upgrade", without("Upgrade")),
        ("GET", "no connection", without("Connection")),
        ("GET", "a short key", with("Sec-WebSocket-Key", "c2hvcnQ=")),
        ("GET", "not base64", with("Sec-WebSocket-Key", "!!!!!!!!!!!!!!!!!!!!!!==")),
        ("GET", "an old version", with("Sec-WebSocket-Version", "8")),
        ("GET", "another protocol", with("Upgrade", "h2c")),
        ("POST", "another method", own.to_vec()),
    ];
    for (method, case, headers) in rows {
        let response = once(url, head(method, "/", &headers).as_bytes());
        assert!([400, 405, 426].contains(&response.status), "{case}: {response:?}");
        if case == "an old version" {
            assert_eq!(response.header("sec-websocket-version"), Some("13"), "{response:?}");
        }
        WebSocket::connect(url).check(1);
    }
    // Names ignore case, lists may be long, and offers need not be accepted.
    let headers = [
        ("host", &*url.authority),
        ("upgrade", "WebSocket"),
        ("connection", "keep-alive, UPGRADE"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", KEY),
        ("sec-websocket-protocol", "mcp, other"),
        ("sec-websocket-extensions", "permessage-deflate; client_max_window_bits"),
    ];
    let text = head("GET", "/", &headers);
    let client = WebSocket::open(url, text.as_bytes());
    client.unwrap_or_else(|response| panic!("{response:?}")).check(1);
    // The first message may follow the handshake directly.
    let text = head("GET", "/", &handshake(&url.authority));
    let eager = [text.as_bytes(), &frame(LAST | TEXT, ASK)].concat();
    let mut client = WebSocket::open(url, &eager).unwrap_or_else(|response| panic!("{response:?}"));
    assert_eq!(client.receive().as_deref(), Some(PONGED));
    server.stop();
}
