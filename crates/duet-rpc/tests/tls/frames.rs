//! Frames over `tls://`, in both directions.

use duet_rpc::transport::{Connector, Listener, Socket, TlsServer};
use duet_rpc::{Client, Peer, Profile};
use serde_json::Value;

use crate::support::{HANGS, Secured, check, profile, router};

#[tokio::test]
async fn t5_both_sides_call_over_tls() {
    let server = Secured::serve();
    let client = server.connect().await;
    check(&client).await;
    let answer: Value = client.call("back", ["a"]).await.expect("an answer");
    assert_eq!(answer, serde_json::json!(["a"]));
    let who: String = client.call("who", ()).await.expect("an answer");
    assert_eq!(who, "nobody");
    let end = client.close().await;
    assert!(end.failure().is_none(), "{end}");
    tokio::time::timeout(HANGS, server.hub.stop()).await.expect("it hangs");
}

/// More than all buffers on the way hold, so that both sides wait for each other.
#[tokio::test]
async fn t5_large_messages_cross_in_both_directions() {
    let server = Secured::serve();
    let client = server.connect().await;
    let large = "x".repeat(3 << 20);
    let calls = (0..4).map(|number| {
        let (client, large) = (client.clone(), large.clone());
        let method = if number % 2 == 0 { "echo" } else { "back" };
        tokio::spawn(async move { client.call::<[String; 1]>(method, [large]).await })
    });
    for call in calls.collect::<Vec<_>>() {
        let call = tokio::time::timeout(HANGS, call).await.expect("it hangs").expect("no panic");
        assert!(call.expect("an answer")[0] == large);
    }
}

#[tokio::test]
async fn t5_one_client_after_another_and_many_at_once() {
    let server = Secured::serve();
    for _ in 0..3 {
        let client = server.connect().await;
        check(&client).await;
        client.close().await;
    }
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(server.connect().await);
    }
    for client in &clients {
        check(client).await;
    }
    assert_eq!(server.hub.connections(), 20);
}

/// A remote that disappears without a word of TLS is an end, not a fault.
#[tokio::test]
async fn t5_a_remote_that_is_gone_is_noticed() {
    let server = Secured::serve();
    let client = server.connect().await;
    check(&client).await;
    drop(client);
    tokio::time::timeout(HANGS, async {
        while server.hub.connections() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("it hangs");
}

#[tokio::test]
async fn t5_a_secure_address_needs_settings_and_a_plain_one_has_none() {
    for url in ["tls://127.0.0.1:0", "wss://127.0.0.1:0/", "https://127.0.0.1:0/"] {
        for bound in [Listener::bind(url), Listener::bind_anywhere(url)] {
            let error = bound.expect_err("no certificate").to_string();
            assert!(error.contains("needs a certificate and a key"), "{error}");
        }
    }
    let server = Secured::serve();
    let files = server.authority.server(&["localhost"]).write(&server.folder, "other");
    let tls = TlsServer::from_files(files.certificate, files.key).expect("a certificate");
    let error = Listener::tls(tls).bind("tcp://127.0.0.1:0").expect_err("no TLS").to_string();
    assert!(error.contains("begin it with tls://"), "{error}");
}

#[tokio::test]
async fn t5_an_inherited_socket_serves_tls() {
    let server = Secured::serve();
    let files = server.authority.server(&["localhost"]).write(&server.folder, "other");
    let tls = TlsServer::from_files(files.certificate, files.key).expect("a certificate");
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let listener = Listener::tls(tls).take_tcp(socket, "tls://localhost:0").expect("a listener");
    let address = listener.address().clone();
    tokio::spawn(server.hub.clone().serve(listener));
    let named = server.trusting().server_name("localhost").expect("a name");
    check(&crate::support::connect(&address, named).await.expect("it connects")).await;
}

/// A stream of another kind is a socket too.
#[tokio::test]
async fn t1_a_socket_can_be_any_stream() {
    let (ours, theirs) = tokio::io::duplex(1000);
    let peer = |stream| {
        let socket = Socket::from_stream(stream);
        Peer::builder(socket).profile(profile()).router(router()).spawn()
    };
    let (one, other) = (peer(ours), peer(theirs));
    check(&one).await;
    let large = "x".repeat(100_000);
    let answer: [String; 1] = other.call("back", [&large]).await.expect("an answer");
    assert!(answer[0] == large);
    one.close().await;
    tokio::time::timeout(HANGS, other.closed()).await.expect("it hangs");
}

#[tokio::test]
async fn t5_a_client_reconnects_with_the_same_settings() {
    let server = Secured::serve();
    let connector = Connector::new(&server.address).expect("an address").tls(server.trusting());
    let client = Client::builder(connector).profile(Profile::agent()).connect().await;
    let client = client.expect("it connects");
    for _ in 0..2 {
        let begun = std::time::Instant::now();
        let answer: [i64; 1] = loop {
            match client.call("echo", [1]).await {
                Ok(answer) => break answer,
                Err(error) => assert!(begun.elapsed() < HANGS, "{error}"),
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        };
        assert_eq!(answer, [1]);
        for peer in server.hub.peers() {
            peer.close().await;
        }
    }
}
