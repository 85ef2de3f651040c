//! Handshakes of a client: rows of responses, and real sockets.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::super::status::Refused;
use super::{Ask, RequestHead, ask_for_upgrade};
use crate::Profile;
use crate::net::{AccessPolicy, Address, Connector, Listener, Socket};

const LIMIT: usize = 8 * 1024;
const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(60);
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ANSWER: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

async fn pair() -> (Socket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (here, there) = tokio::join!(listener.accept(), TcpStream::connect(address));
    (Socket::tcp(here.expect("a connection").0), there.expect("a connection"))
}

fn ask<'a>(token: Option<&str>, subprotocol: Option<&'a str>) -> Ask<'a> {
    let Ok(Address::WebSocket(place, target)) = "ws://localhost:1/rpc?a=b".parse() else {
        panic!("it is an address");
    };
    let head = RequestHead::new(&place, &target, token, &[("X-Key".into(), "1".into())]);
    Ask { head: head.expect("a head"), subprotocol, nonce: *b"the sample nonce" }
}

/// The result of a client that offers this subprotocol to a server that sends these bytes.
async fn hear(bytes: &str, subprotocol: Option<&'static str>, ends: bool) -> io::Result<Vec<u8>> {
    let (client, mut server) = pair().await;
    let patience = (!ends).then_some(SHORT);
    let asking = tokio::spawn(async move {
        let ask = ask(None, subprotocol);
        ask_for_upgrade(client, &ask, LIMIT, patience).await.map(|(_, rest)| rest)
    });
    // Closing with unread bytes would reset the connection.
    let mut request = [0; 20];
    server.read_exact(&mut request).await.expect("a request");
    // The client may have closed the connection already.
    let _ = server.write_all(bytes.as_bytes()).await;
    if ends {
        let _ = server.shutdown().await;
    }
    let outcome = asking.await.expect("no panic");
    drop(server);
    outcome
}

#[tokio::test]
async fn t2_a_client_asks_for_a_websocket_as_its_specification_says() {
    let (client, mut server) = pair().await;
    let asking = tokio::spawn(async move {
        let ask = ask(Some("s3cret"), Some("mcp"));
        ask_for_upgrade(client, &ask, LIMIT, Some(LONG)).await.map(|(_, rest)| rest)
    });
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        assert!(server.read_buf(&mut request).await.expect("it is open") > 0);
    }
    let request = String::from_utf8(request).expect("text").to_lowercase();
    let mut lines: Vec<_> = request.trim_end().split("\r\n").collect();
    assert_eq!(lines.remove(0), "get /rpc?a=b http/1.1");
    lines.sort_unstable();
    let key = format!("sec-websocket-key: {}", KEY.to_lowercase());
    let expected = [
        "authorization: bearer s3cret",
        "connection: upgrade",
        "host: localhost:1",
        &key,
        "sec-websocket-protocol: mcp",
        "sec-websocket-version: 13",
        "upgrade: websocket",
        "x-key: 1",
    ];
    assert_eq!(lines, expected);
    // In one piece, with frames after it.
    server.write_all(format!("{ANSWER}frames").as_bytes()).await.expect("it is open");
    let rest = asking.await.expect("no panic").expect("it is a WebSocket");
    assert_eq!(rest, b"frames");
}

#[tokio::test]
async fn t2_both_ends_agree_over_a_socket() {
    let profile = Profile::agent();
    for (token, is_let_in) in [("s3cret", true), ("wrong", false)] {
        let access = AccessPolicy::default().token("s3cret");
        let mut listener = Listener::bind("ws://127.0.0.1:0/rpc").expect("a port").access(access);
        let connector = Connector::new(listener.address()).expect("an address").token(token);
        let connector = connector.header("X-Key", "1").subprotocol("mcp");
        let serving = async {
            let incoming = listener.accept().await.expect("a connection");
            incoming.open(&profile).await
        };
        let (taken, asked) = tokio::join!(serving, connector.connect(&profile));
        assert_eq!((taken.is_ok(), asked.is_ok()), (is_let_in, is_let_in));
        if let Err(error) = asked {
            assert_eq!(Refused::from_error(&error).map(Refused::status), Some(401));
        }
    }
}

#[tokio::test]
async fn t2_only_the_right_answer_begins_a_websocket() {
    let with = |header: &str| ANSWER.replace("\r\n\r\n", &format!("\r\n{header}\r\n\r\n"));
    let early = format!("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n{ANSWER}");
    let rows = [
        (ANSWER.to_owned(), None),
        (ANSWER.to_owned(), Some("mcp")),
        (ANSWER.replace("websocket", "h2c, WebSocket"), None),
        (ANSWER.replace("Connection: ", "Connection: x, "), None),
        (with("Sec-WebSocket-Protocol: mcp"), Some("mcp")),
        (early, None),
    ];
    for (answer, subprotocol) in rows {
        hear(&answer, subprotocol, true).await.expect(&answer);
    }
    let wrong = [
        ANSWER.replace("s3pP", "S3pP"),
        ANSWER.replace("Upgrade: websocket", "Upgrade: h2c"),
        ANSWER.replace("Connection: Upgrade", "Connection: close"),
        ANSWER.replace("Sec-WebSocket-Accept", "X"),
        with("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        with("Sec-WebSocket-Extensions: permessage-deflate"),
        ANSWER.replace("HTTP/1.1", "HTTP/1.0"),
    ];
    for answer in wrong {
        let error = hear(&answer, None, true).await.expect_err(&answer);
        assert_eq!(error.to_string(), "the server does not speak WebSocket", "{answer}");
    }
    let wrong = [
        (with("Sec-WebSocket-Protocol: mcp"), None),
        (with("Sec-WebSocket-Protocol: chat"), Some("mcp")),
        (with("Sec-WebSocket-Protocol: mcp, chat"), Some("mcp")),
        (with("Sec-WebSocket-Protocol: mcp\r\nSec-WebSocket-Protocol: mcp"), Some("mcp")),
    ];
    for (answer, subprotocol) in wrong {
        let error = hear(&answer, subprotocol, true).await.expect_err(&answer);
        let why = "the server chose a subprotocol that was not offered";
        assert_eq!(error.to_string(), why, "{answer}");
    }
}

#[tokio::test]
async fn t2_a_refusal_names_its_status_and_whether_to_try_again() {
    let rows = [
        ("401 Whatever", "the server refused: 401 Unauthorized", false),
        ("503 Busy", "the server refused: 503 Service Unavailable", true),
        ("200 OK", "the server refused: 200 OK", false),
        ("302 Found", "the server refused: 302 Found", false),
        ("599 x", "the server refused: 599 Server Error", false),
    ];
    for (status, text, is_temporary) in rows {
        let error = hear(&format!("HTTP/1.1 {status}\r\n\r\n"), None, true).await.expect_err(text);
        assert_eq!(error.to_string(), text);
        let refused = Refused::from_error(&error).expect("it is the cause");
        assert_eq!(refused.is_temporary(), is_temporary, "{status}");
    }
}

#[tokio::test]
async fn f3_hostile_servers_are_found_out() {
    let rows = [
        ("SSH-2.0-OpenSSH_9.6\r\n\r\n", "the server does not speak HTTP"),
        ("HTTP/1.1 403 \u{1}red\r\n\r\n", "the server does not speak HTTP"),
        ("HTTP/1.1", "unexpected end of file"),
        ("", "unexpected end of file"),
    ];
    for (said, why) in rows {
        let error = hear(said, None, true).await.expect_err(said);
        assert_eq!(error.to_string(), why, "{said}");
    }
    let endless = format!("HTTP/1.1 101 x\r\n{}", "a: b\r\n".repeat(10_000));
    for said in [&"H".repeat(100_000), &endless] {
        let error = hear(said, None, false).await.expect_err("endless");
        assert_eq!(error.to_string(), "the server does not speak HTTP");
    }
    let error = hear("HTTP/1.1 101", None, false).await.expect_err("it is late");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    for name in ["", "a b", "a\r\nb", "a,b", "\u{e9}"] {
        let (client, _server) = pair().await;
        let error = ask_for_upgrade(client, &ask(None, Some(name)), LIMIT, Some(LONG)).await;
        assert_eq!(error.expect_err("no name").kind(), io::ErrorKind::InvalidInput);
    }
}
