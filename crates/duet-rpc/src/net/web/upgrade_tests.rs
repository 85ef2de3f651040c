//! Handshakes over real sockets.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::{Ask, ask_for_upgrade};
use crate::net::Socket;

const LIMIT: usize = 8 * 1024;
const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(60);

async fn pair() -> (Socket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (here, there) = tokio::join!(listener.accept(), TcpStream::connect(address));
    (Socket::tcp(here.expect("a connection").0), there.expect("a connection"))
}

fn ask(token: Option<&str>) -> Ask<'_> {
    Ask { host: "localhost:1", target: "/rpc?a=b", token, nonce: *b"0123456789abcdef" }
}

/// What a client makes of a server that says this.
async fn hear(bytes: &str, ends: bool) -> io::Result<Vec<u8>> {
    let (client, mut server) = pair().await;
    let asking = tokio::spawn(async move {
        let outcome = ask_for_upgrade(client, &ask(None), LIMIT, (!ends).then_some(SHORT)).await;
        outcome.map(|(_, rest)| rest)
    });
    // A client that has heard enough may be gone.
    let _ = server.write_all(bytes.as_bytes()).await;
    if ends {
        let _ = server.shutdown().await;
    }
    let outcome = asking.await.expect("no panic");
    drop(server);
    outcome
}

#[tokio::test]
async fn f3_hostile_servers_are_found_out() {
    let rows = [
        ("HTTP/1.1 503 Busy\r\n\r\n", "the server refused: 503 Service Unavailable"),
        ("HTTP/1.1 200 OK\r\n\r\n", "the server refused: 200 OK"),
        ("HTTP/1.1 101 Ok\r\n\r\n", "the server does not speak WebSocket"),
        ("SSH-2.0-OpenSSH_9.6\r\n\r\n", "the server does not speak HTTP"),
        ("HTTP/1.1", "unexpected end of file"),
    ];
    for (said, why) in rows {
        let error = hear(said, true).await.expect_err(said);
        assert_eq!(error.to_string(), why, "{said}");
    }
    let error = hear(&"H".repeat(100_000), false).await.expect_err("endless");
    assert_eq!(error.to_string(), "the server does not speak HTTP");
    let error = hear("HTTP/1.1 101", false).await.expect_err("it is late");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    let (client, _server) = pair().await;
    let error = ask_for_upgrade(client, &ask(Some("a\r\nb")), LIMIT, Some(LONG)).await;
    assert_eq!(error.expect_err("no token").kind(), io::ErrorKind::InvalidInput);
}
