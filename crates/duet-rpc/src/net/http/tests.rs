//! Heads of requests, and handshakes over real sockets.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use duet_rpc_proto::Profile;
use http::request::Parts;
use http::{HeaderName, Request, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::client::{Dialing, HttpClient};
use super::handshake::accept;
use super::rules::{Asked, Protocols, Rules};
use super::serve::handshake;
use crate::net::web::{Refused, RequestHead};
use crate::net::{AccessPolicy, Place, Security, Socket, Target};
use crate::remote::Remote;
use crate::{ErrorKind, Peer};

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// The parts of a head.
fn parts(head: &str) -> Parts {
    let mut lines = head.trim_end_matches("\r\n").split("\r\n");
    let words: Vec<_> = lines.next().expect("a first line").split(' ').collect();
    let version = if words[2] == "HTTP/1.0" { Version::HTTP_10 } else { Version::HTTP_11 };
    let mut request = Request::builder().method(words[0]).uri(words[1]).version(version);
    for line in lines {
        let (name, value) = line.split_once(": ").expect("a header");
        request = request.header(HeaderName::try_from(name).expect("a name"), value);
    }
    request.body(()).expect("a request").into_parts().0
}

fn rules(protocols: Protocols) -> Rules {
    let access = Arc::new(AccessPolicy::default().token("s3cret"));
    Rules::new(access, Some("/rpc".into()), protocols, &Profile::agent())
}

#[test]
fn t2_a_websocket_begins_as_its_specification_says() {
    let headers = format!(
        "Upgrade: h2c, WebSocket\r\nConnection: keep-alive, upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Protocol: chat\r\nSec-WebSocket-Protocol: b\r\n\
         Sec-WebSocket-Extensions: permessage-deflate\r\n"
    );
    let upgrade = |line: &str, headers: &str| accept(&parts(&format!("{line}\r\n{headers}\r\n")));
    let answer = upgrade("GET / HTTP/1.1", &headers).expect("taken");
    assert_eq!(answer, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");

    let rows = [
        ("POST / HTTP/1.1", headers.clone(), 405),
        ("GET / HTTP/1.0", headers.clone(), 426),
        ("GET / HTTP/1.1", String::new(), 426),
        ("GET / HTTP/1.1", headers.replace("WebSocket\r\n", "x\r\n"), 426),
        ("GET / HTTP/1.1", headers.replace("upgrade", "x"), 426),
        ("GET / HTTP/1.1", headers.replace(": 13", ": 8"), 426),
        ("GET / HTTP/1.1", headers.replace("Sec-WebSocket-Version", "X"), 426),
        ("GET / HTTP/1.1", headers.replace("Sec-WebSocket-Key", "X"), 400),
        ("GET / HTTP/1.1", headers.replace(KEY, "short"), 400),
        ("GET / HTTP/1.1", headers.replace(KEY, "AAAA"), 400),
        ("GET / HTTP/1.1", headers.replace(KEY, &KEY.replace('=', "")), 400),
        ("GET / HTTP/1.1", format!("{headers}Sec-WebSocket-Key: {KEY}\r\n"), 400),
        ("GET / HTTP/1.1", format!("{headers}Content-Length: 1\r\n"), 400),
        ("GET / HTTP/1.1", format!("{headers}Transfer-Encoding: chunked\r\n"), 400),
    ];
    for (line, headers, status) in rows {
        let refusal = upgrade(line, &headers).expect_err("refused");
        assert_eq!(refusal.status.as_u16(), status, "{line} {headers}");
        assert_eq!(refusal.headers.contains(&("connection", "Upgrade")), status == 426);
        assert_eq!(refusal.headers.contains(&("upgrade", "websocket")), status == 426);
    }
    let wrong = upgrade("GET / HTTP/1.1", &headers.replace(": 13", ": 8")).expect_err("refused");
    assert!(wrong.headers.contains(&("sec-websocket-version", "13")));
}

#[test]
fn t2_heads_that_others_may_read_differently_are_refused() {
    let rules = rules(Protocols::Http);
    for (headers, status) in [
        ("Content-Length: 2", 0),
        ("Transfer-Encoding: Chunked", 0),
        ("Content-Length: 2\r\nContent-Length: 2", 400),
        ("Content-Length: +2", 400),
        ("Content-Length: ", 400),
        ("Content-Length: 2\r\nTransfer-Encoding: chunked", 400),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400),
        ("Transfer-Encoding: chunked, chunked", 501),
        ("Transfer-Encoding: gzip, chunked", 501),
        ("Transfer-Encoding: identity", 501),
        ("Expect: 100-continue\r\nExpect: 100-continue", 400),
        ("Mcp-Session-Id: one", 0),
        ("Mcp-Session-Id: one\r\nMcp-Session-Id: two", 400),
    ] {
        let head = format!("POST /rpc HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        let refused = rules.check_head(&parts(&head)).err();
        assert_eq!(refused.map_or(0, |refusal| refusal.status.as_u16()), status, "{headers}");
    }
    let old = parts("POST /rpc HTTP/1.0\r\nTransfer-Encoding: chunked\r\n");
    assert_eq!(rules.check_head(&old).expect_err("too old").status.as_u16(), 400);
    let long = format!("POST /rpc HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n", "x".repeat(9000));
    assert_eq!(rules.check_head(&parts(&long)).expect_err("too long").status.as_u16(), 431);
}

#[test]
fn t1_one_path_serves_both_protocols() {
    let token = "Host: localhost\r\nAuthorization: Bearer s3cret\r\n";
    let upgrade = format!(
        "GET /rpc HTTP/1.1\r\n{token}Upgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n"
    );
    let post = format!("POST /rpc HTTP/1.1\r\n{token}Content-Length: 2\r\n");
    let get = format!("GET /rpc HTTP/1.1\r\n{token}");
    for (protocols, head, expected) in [
        (Protocols::Both, &upgrade, "websocket"),
        (Protocols::Both, &post, "answer"),
        (Protocols::Both, &get, "405"),
        (Protocols::Http, &upgrade, "405"),
        (Protocols::Http, &post, "answer"),
        (Protocols::WebSocket, &upgrade, "websocket"),
        (Protocols::WebSocket, &post, "405"),
        (Protocols::WebSocket, &get, "426"),
    ] {
        let (rules, parts) = (rules(protocols), parts(head));
        let headers = rules.check_head(&parts).expect("a good head");
        let asked = match rules.judge(&parts, &headers) {
            Ok((_, Asked::Answer)) => "answer".to_owned(),
            Ok((_, Asked::Preflight)) => "preflight".to_owned(),
            Ok((_, Asked::WebSocket(_))) => "websocket".to_owned(),
            Err(refusal) => refusal.status.as_str().to_owned(),
        };
        assert_eq!(asked, expected, "{protocols:?} {head}");
    }
}

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(60);

/// Sends these bytes to a server. Returns the response, and the result of the server. With long patience, the client
/// closes its end after a short text.
async fn say(bytes: &str, patience: Duration) -> (String, io::Result<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (server, client) = tokio::join!(listener.accept(), TcpStream::connect(address));
    let (server, mut client) = (server.expect("a connection").0, client.expect("a connection"));
    let profile = Profile::agent().with(|it| it.read_timeout = Some(patience));
    let serving = tokio::spawn(async move {
        let rules = rules(Protocols::WebSocket);
        handshake(Socket::tcp(server), rules, Remote::new(), &profile).await.map(drop)
    });
    client.write_all(bytes.as_bytes()).await.expect("it is sent");
    let mut heard = String::new();
    if bytes.len() < 10 && patience == LONG {
        client.shutdown().await.expect("it is open");
    }
    client.read_to_string(&mut heard).await.expect("it is read");
    (heard, serving.await.expect("no panic"))
}

const GOOD: &str = "GET /rpc?x HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Version: 13\r\nAuthorization: Bearer s3cret\r\n\r\n";

#[tokio::test]
async fn t3_a_refused_websocket_gets_the_reason() {
    let (heard, outcome) = say(GOOD, LONG).await;
    assert!(heard.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{heard}");
    assert!(
        heard.contains("\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
        "{heard}"
    );
    outcome.expect("it is taken");
    let long = format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(8 * 1024));
    let rows = [
        (GOOD.replace("localhost", "evil.example"), 403),
        (GOOD.replace("Upgrade:", "Origin: http://evil.example\r\nUpgrade:"), 403),
        (GOOD.replace("s3cret", "wrong"), 401),
        (GOOD.replace("/rpc", "/"), 404),
        (GOOD.replace("GET", "POST"), 405),
        (GOOD.replace("Upgrade: websocket\r\n", ""), 426),
        (GOOD.replace("Host: localhost\r\n", ""), 400),
        ("\u{16}\u{3}\u{1}".to_owned(), 400),
        (long, 431),
    ];
    for (request, status) in rows {
        let (heard, outcome) = say(&request, LONG).await;
        assert!(heard.starts_with(&format!("HTTP/1.1 {status} ")), "{request:.60}: {heard}");
        let lower = heard.to_ascii_lowercase();
        let connection = lower.lines().find(|line| line.starts_with("connection: "));
        assert!(connection.is_some_and(|line| line.ends_with("close")), "{heard}");
        assert!(!heard.contains("s3cret") && heard.ends_with(".\n"), "{heard}");
        let error = outcome.expect_err("it is refused").to_string();
        assert!(error.starts_with(&format!("a client was refused: {status} ")), "{error}");
    }
    let (heard, outcome) = say("GET / HTT", SHORT).await;
    assert!(heard.starts_with("HTTP/1.1 408 ") && outcome.is_err(), "{heard}");
    let (heard, outcome) = say("GET / HTT", LONG).await;
    assert!(heard.is_empty(), "{heard}");
    assert_eq!(outcome.expect_err("it has gone").kind(), io::ErrorKind::UnexpectedEof);
}

/// A full server answers before it has read anything.
#[tokio::test]
async fn p8_a_response_that_came_before_the_request_is_read() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let refusal = b"HTTP/1.1 503 x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(refusal).await.expect("it takes it");
            open.push(stream);
        }
    });
    let dial = Box::new(move || -> Dialing {
        Box::pin(async move {
            let stream = TcpStream::connect(at).await?;
            stream.readable().await?;
            Ok(Socket::tcp(stream))
        })
    });
    let place = Place { host: at.ip().to_string(), port: at.port(), security: Security::Plain };
    let head = RequestHead::new(&place, &Target::default(), None, &[]).expect("a head");
    let profile = Profile::agent();
    let client = HttpClient::open(dial, head, &profile).await.expect("it connects");
    let client = Peer::builder(client).profile(profile).spawn();
    for _ in 0..3 {
        let error = client.call::<()>("x", ()).await.expect_err("it is full");
        assert_eq!(error.kind(), ErrorKind::Exchange, "{error:?}");
        let cause = std::error::Error::source(&error).expect("a cause");
        assert_eq!(cause.to_string(), Refused::new(503).to_string());
    }
}
