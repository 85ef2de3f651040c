//! Handshakes over real sockets.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::upgrade;
use crate::net::{AccessPolicy, Socket};

const LIMIT: usize = 8 * 1024;
const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(60);

async fn pair() -> (Socket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (here, there) = tokio::join!(listener.accept(), TcpStream::connect(address));
    (Socket::tcp(here.expect("a connection").0), there.expect("a connection"))
}

/// What a client hears that says this and then closes its end, and what the server makes of it.
async fn say(bytes: &str, patience: Duration) -> (String, io::Result<Vec<u8>>) {
    let (server, mut client) = pair().await;
    let access = AccessPolicy::default().token("s3cret");
    let serving = tokio::spawn(async move {
        let outcome = upgrade(server, &access, "/rpc", LIMIT, patience).await;
        outcome.map(|upgraded| upgraded.rest)
    });
    client.write_all(bytes.as_bytes()).await.expect("it is sent");
    if patience == LONG {
        client.shutdown().await.expect("it is open");
    }
    let mut heard = String::new();
    client.read_to_string(&mut heard).await.expect("it is read");
    (heard, serving.await.expect("no panic"))
}

const GOOD: &str = "GET /rpc?x HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Version: 13\r\nAuthorization: Bearer s3cret\r\n\r\n";

#[tokio::test]
async fn t2_a_connection_becomes_a_websocket_and_nothing_behind_the_head_is_lost() {
    let (heard, outcome) = say(&format!("{GOOD}frames"), LONG).await;
    assert!(heard.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{heard}");
    assert!(heard.ends_with("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"));
    assert_eq!(outcome.expect("it is taken"), b"frames");
}

#[tokio::test]
async fn t3_a_refused_websocket_gets_the_reason() {
    let long = format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(LIMIT));
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
        assert!(heard.contains("\r\nConnection: close\r\n"), "{heard}");
        assert!(!heard.contains("s3cret"));
        let error = outcome.expect_err("it is refused").to_string();
        assert!(error.starts_with(&format!("a client was refused: {status} ")), "{error}");
    }
    let (heard, outcome) = say("GET / HTT", SHORT).await;
    assert!(heard.starts_with("HTTP/1.1 408 ") && outcome.is_err(), "{heard}");
    let (heard, outcome) = say("GET / HTT", LONG).await;
    assert!(heard.is_empty(), "{heard}");
    assert_eq!(outcome.expect_err("it has gone").kind(), io::ErrorKind::UnexpectedEof);
}
