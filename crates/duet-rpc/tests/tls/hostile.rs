//! Remotes that do not finish a handshake, or speak something else.

use std::time::Duration;

use duet_rpc::Hub;
use duet_rpc::transport::{Connector, Listener, TlsClient, TlsError, TlsErrorKind, TlsServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::certificates::{Authority, Folder};
use crate::log::Log;
use crate::support::{HANGS, Secured, check, connect, listen, profile, router, socket_address};

/// Sends these bytes, and reads until the server closes.
async fn send(server: &Secured, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.at()).await.expect("it listens");
    stream.write_all(bytes).await.expect("it takes them");
    let mut answer = Vec::new();
    let read = tokio::time::timeout(HANGS, stream.read_to_end(&mut answer)).await;
    let _ = read.expect("it hangs");
    answer
}

#[tokio::test]
async fn t5_a_plain_request_to_a_tls_port_is_answered_readably() {
    let log = Log::up_to(tracing::Level::WARN);
    let _guard = tracing::subscriber::set_default(log.clone());
    let server = Secured::serve();
    for request in [
        &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
        b"POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"G",
    ] {
        let answer = String::from_utf8(send(&server, request).await).expect("text");
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
        assert!(answer.contains("This port speaks TLS. Use"), "{answer}");
    }
    // All tests share the limit of these records.
    while !log.text().contains("the client speaks HTTP without TLS") {
        send(&server, b"GET / HTTP/1.1\r\n\r\n").await;
    }
    check(&server.connect().await).await;
}

#[tokio::test]
async fn t5_other_bytes_on_a_tls_port_are_closed() {
    let server = Secured::serve();
    let request = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\"}\n";
    assert_eq!(send(&server, request).await, b"");
    assert_eq!(send(&server, b"\0\0\0\x02{}").await, b"");
    // A record that begins well.
    send(&server, b"\x16\x03\x01\x00\x05hello").await;
    check(&server.connect().await).await;
}

#[tokio::test]
async fn t5_a_tls_client_at_a_plain_port_is_closed_and_told_apart() {
    let log = Log::up_to(tracing::Level::WARN);
    let _guard = tracing::subscriber::set_default(log.clone());
    let hub = Hub::builder().profile(profile()).router(router()).build();
    let listener = Listener::bind("tcp://127.0.0.1:0").expect("a port");
    let address = format!("tls://{}", socket_address(listener.address()));
    tokio::spawn(hub.clone().serve(listener));
    let anyone = TlsClient::new().danger_accept_any_certificate();
    let connector = Connector::new(address).expect("an address").tls(anyone);
    let connected = tokio::time::timeout(HANGS, connector.connect(&profile())).await;
    let error = connected.expect("it hangs").err().expect("it does not speak TLS");
    let kind = TlsError::from_error(&error).map(TlsError::kind);
    assert_eq!(kind, Some(TlsErrorKind::NotTls), "{error}");
    let record = "TLS handshake where plain frames are expected";
    assert!(log.text().contains(record), "{}", log.text());
}

#[tokio::test]
async fn t5_half_handshakes_time_out_and_others_are_served() {
    let (folder, authority) = (Folder::new(), Authority::new("Test CA"));
    let files = authority.server(&["127.0.0.1"]).write(&folder, "server");
    let tls = TlsServer::from_files(files.certificate, files.key).expect("a certificate");
    let mut short = profile();
    short.read_timeout = Some(Duration::from_millis(300));
    let hub = Hub::builder().profile(short).router(router()).build();
    let address = listen(&hub, "tls://127.0.0.1:0", tls);
    let mut halves = Vec::new();
    for count in 0..60 {
        let mut stream = TcpStream::connect(socket_address(&address)).await.expect("it listens");
        // Nothing, a part of the header of a record, or a part of a record.
        stream
            .write_all(&b"\x16\x03\x01\x00\xf0\x01\x00"[..count % 8 % 7])
            .await
            .expect("it takes it");
        halves.push(stream);
    }
    let trust = TlsClient::new().ca_pem(authority.pem()).expect("an authority");
    let client = connect(&address, trust).await.expect("it connects");
    check(&client).await;
    for mut half in halves {
        let mut answer = Vec::new();
        let read = tokio::time::timeout(HANGS, half.read_to_end(&mut answer)).await;
        let _ = read.expect("it hangs");
    }
    check(&client).await;
    assert_eq!(hub.connections(), 1);
}

/// A handshake counts as a connection, and a connection too many gets an alert, which its client can explain.
#[tokio::test]
async fn t5_a_connection_over_the_limit_is_refused_with_a_reason() {
    let (folder, authority) = (Folder::new(), Authority::new("Test CA"));
    let files = authority.server(&["127.0.0.1"]).write(&folder, "server");
    let tls = TlsServer::from_files(files.certificate, files.key).expect("a certificate");
    let hub = Hub::builder().profile(profile()).router(router()).max_connections(1).build();
    let address = listen(&hub, "tls://127.0.0.1:0", tls);
    let _half = TcpStream::connect(socket_address(&address)).await.expect("it listens");
    while hub.connections() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let trust = TlsClient::new().ca_pem(authority.pem()).expect("an authority");
    let error = connect(&address, trust).await.expect_err("one is there already");
    let kind = TlsError::from_error(&error).map(TlsError::kind);
    assert_eq!(kind, Some(TlsErrorKind::Busy), "{error}");
}

/// A server that stops does not wait for half a handshake.
#[tokio::test]
async fn t5_a_hub_stops_while_a_handshake_is_under_way() {
    let server = Secured::serve();
    let _half = TcpStream::connect(server.at()).await.expect("it listens");
    while server.hub.connections() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::timeout(HANGS, server.hub.stop()).await.expect("it hangs");
}
