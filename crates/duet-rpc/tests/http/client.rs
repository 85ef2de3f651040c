//! The client, against a server of ours and against others.

use std::net::SocketAddr;
use std::sync::Arc;

use duet_rpc::transport::{Connector, HttpClient, Listener, Refused};
use duet_rpc::{ErrorKind, Failure, Hub, Peer, Profile, Router};
use serde_json::{Value, json};
use tokio::sync::{Barrier, mpsc};

use crate::by_hand::response;
use crate::support::{access, answer_with, listen, methods, place, serve_with, target};

pub(crate) async fn client_of(address: SocketAddr) -> Peer {
    let profile = Profile::agent();
    let transport = HttpClient::connect(&place(address), &target(), None, &profile).await;
    Peer::builder(transport.expect("a connection")).profile(profile).router(Router::new()).spawn()
}

#[tokio::test]
async fn t1_calls_and_notifications_go_both_ways_over_http() {
    let (heard, mut hears) = mpsc::unbounded_channel();
    let router = methods().method("note", move |(n,): (u32,)| {
        let _ = heard.send(n);
        async { Ok::<_, Failure>(()) }
    });
    let client = client_of(serve_with(Profile::agent(), access(), router).await).await;
    for n in 0..5 {
        assert_eq!(client.call::<i64>("add", (n, 1)).await.expect("a sum"), n + 1);
        client.notify("note", (n,)).await.expect("it is sent");
        assert_eq!(hears.recv().await, Some(n as u32));
    }
    let value = json!({"text": "x".repeat(500_000)});
    assert_eq!(client.call::<Value>("echo", &value).await.expect("large"), value);
    let error = client.call::<()>("nope", ()).await.expect_err("unknown");
    assert_eq!(error.kind(), ErrorKind::Remote);
    // The last message arrives too.
    client.notify("note", (99,)).await.expect("it is sent");
    client.close().await;
    assert_eq!(hears.recv().await, Some(99));
}

#[tokio::test]
async fn t1_twenty_calls_at_once_share_a_few_connections() {
    let barrier = Arc::new(Barrier::new(4));
    let router = Router::new().method("meet", move |(n,): (u32,)| {
        let barrier = Arc::clone(&barrier);
        async move {
            barrier.wait().await;
            Ok::<_, Failure>(n)
        }
    });
    let client = client_of(serve_with(Profile::agent(), access(), router).await).await;
    for _ in 0..3 {
        let calls: Vec<_> =
            (0..20).map(|n| tokio::spawn(client.call::<u32>("meet", (n,)))).collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.expect("no panic").expect("an answer"), n as u32);
        }
    }
}

#[tokio::test]
async fn t3_the_client_shows_its_token_and_says_why_it_was_refused() {
    let address = serve_with(Profile::agent(), access().token("s3cret"), methods()).await;
    let profile = Profile::agent();
    for (token, is_let_in) in [(Some("s3cret"), true), (Some("wrong"), false), (None, false)] {
        let transport = HttpClient::connect(&place(address), &target(), token, &profile).await;
        let transport = transport.expect("a connection");
        assert!(!format!("{transport:?}").contains("s3cret"));
        let client = Peer::builder(transport).profile(profile).router(Router::new()).spawn();
        let answer = client.call::<i64>("add", (1, 2)).await;
        assert_eq!(answer.is_ok(), is_let_in, "{token:?}");
        if !is_let_in {
            assert_ends_with(&client, "the server refused: 401 Unauthorized").await;
        }
    }
    for token in ["", "a b", "a\r\nX: y", "\u{e9}"] {
        let error = HttpClient::connect(&place(address), &target(), Some(token), &profile).await;
        assert_eq!(error.expect_err("no token").kind(), std::io::ErrorKind::InvalidInput);
    }
}

/// Checks that the connection ends, for this reason.
pub(crate) async fn assert_ends_with(client: &Peer, why: &str) {
    let end = client.closed().await;
    let shown = format!("{end:?} {end}");
    let first = end.failure().map(|error| error as &dyn std::error::Error);
    let causes: Vec<_> =
        std::iter::successors(first, |it| it.source()).map(ToString::to_string).collect();
    assert!(causes.iter().any(|it| it.contains(why)), "{why}: {causes:?} {shown}");
}

pub(crate) fn ok(id: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{id}}}"#)
}

#[tokio::test]
async fn t1_responses_of_other_servers_are_understood() {
    let responses: [fn(String) -> (String, bool); 6] = [
        |body| (response("200 OK", &body), false),
        |body| {
            let (one, two) = body.split_at(5);
            let (head, length) =
                ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", two.len());
            let last = "0\r\nA: b\r\n\r\n";
            (format!("{head}5\r\n{one}\r\n{length:x};a=b\r\n{two}\r\n{last}"), false)
        },
        |body| (format!("HTTP/1.1 200 OK\r\n\r\n{body}"), true),
        |body| (format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()), true),
        |body| {
            let early = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
            (format!("{}{}", early.repeat(100), response("200 OK", &body)), false)
        },
        // It closes without announcing it: the next request uses another connection.
        |body| (response("200 OK", &body), true),
    ];
    let address = answer_with(move |number| {
        let (response, closes) = responses[number % responses.len()](ok(number as u64 + 1));
        (response.into_bytes(), closes)
    })
    .await;
    let client = client_of(address).await;
    for number in 1..=3 * responses.len() as u64 {
        assert_eq!(client.call::<u64>("any", ()).await.expect("an answer"), number);
    }
}

#[tokio::test]
async fn t1_empty_and_202_responses_to_notifications_are_accepted() {
    let rows = [
        "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 202 Accepted\r\nContent-Length: 4\r\n\r\nfine",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\r\n",
    ];
    let (asked, mut is_asked) = mpsc::unbounded_channel();
    let address = answer_with(move |number| {
        let _ = asked.send(number);
        let done = response("200 OK", &ok(1));
        (rows.get(number).map_or(done, |row| (*row).to_owned()).into_bytes(), false)
    })
    .await;
    let client = client_of(address).await;
    for number in 0..rows.len() {
        client.notify("any", ()).await.expect("it is sent");
        assert_eq!(is_asked.recv().await, Some(number));
    }
    assert_eq!(client.call::<u64>("any", ()).await.expect("an answer"), 1);
}

#[tokio::test]
async fn t1_connect_fails_if_no_server_listens() {
    let (listener, address) = listen().await;
    drop(listener);
    let profile = Profile::agent();
    let error = HttpClient::connect(&place(address), &target(), None, &profile).await;
    assert_eq!(error.expect_err("nobody").kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn t2_both_ends_are_chosen_by_a_url() {
    let mut listener = Listener::bind("http://127.0.0.1:0/rpc").expect("a port");
    let profile = Profile::agent();
    let connector = Connector::new(listener.address()).expect("an address");
    // A connection alone is nothing that a peer could use.
    let (incoming, _client) = tokio::join!(listener.accept(), connector.connect(&profile));
    let opened = incoming.expect("a connection").open(&profile).await;
    let error = opened.err().expect("it is not for peers");
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported, "{error}");

    let hub = Hub::builder().profile(profile).router(methods()).build();
    tokio::spawn(hub.clone().serve(listener));
    let client = connector.connect(&profile).await.expect("a connection");
    let client = Peer::builder(client).profile(profile).router(Router::new()).spawn();
    assert_eq!(client.call::<i64>("add", (1, 2)).await.expect("a sum"), 3);
    hub.stop().await;
}

#[test]
fn p6_a_refusal_says_whether_to_try_again() {
    for (status, is_temporary) in
        [(503, true), (429, true), (401, false), (404, false), (413, false)]
    {
        let error = std::io::Error::from(Refused::new(status));
        assert_eq!(Refused::from_error(&error).map(Refused::is_temporary), Some(is_temporary));
    }
}
