//! Clients that are slow, greedy, or gone.

use std::sync::Arc;
use std::time::Duration;

use duet_rpc::{Failure, Profile};
use tokio::sync::{Notify, mpsc};

use crate::support::{
    Client, PATIENCE, access, answer, call, methods, post, request, result, serve, serve_with,
};

fn impatient() -> Profile {
    Profile::agent().with(|it| it.read_timeout = Some(Duration::from_millis(50)))
}

#[tokio::test]
async fn t2_slow_requests_are_refused_and_idle_connections_are_not() {
    let address = serve_with(impatient(), access(), methods()).await;
    let mut idle = Client::to(address).await;
    assert_eq!(idle.ask(post(&call(1))).await.body, answer(1));
    let rows = [
        "\r\n",
        "POST /rpc",
        "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n123",
        "POST /rpc HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1",
    ];
    for begun in rows {
        let mut client = Client::to(address).await;
        let response = client.ask(begun).await;
        assert!(response.status == 408 && response.closes(), "{begun:?}: {response:?}");
        client.expect_end().await;
    }
    // The rest of the body of a refused request.
    let mut client = Client::to(address).await;
    let request = "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n123";
    assert_eq!(client.ask(request).await.status, 404);
    client.expect_end().await;
    // A request that got leave to send its body, and does not.
    let mut client = Client::to(address).await;
    let head = "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n";
    assert_eq!(client.ask(format!("{head}Expect: 100-continue\r\n\r\n")).await.status, 100);
    assert_eq!(client.response().await.status, 408);
    client.expect_end().await;

    // All of this took longer than a request may.
    assert_eq!(idle.ask(post(&call(2))).await.body, answer(2));
}

#[tokio::test]
async fn t2_a_slow_handler_makes_no_request_late() {
    let go = Arc::new(Notify::new());
    let (begun, mut has_begun) = mpsc::unbounded_channel();
    let goes = Arc::clone(&go);
    let router = methods().method("wait", move || {
        let _ = begun.send(());
        let goes = Arc::clone(&goes);
        async move {
            goes.notified().await;
            Ok::<_, Failure>(())
        }
    });
    let address = serve_with(impatient(), access(), router).await;
    let mut client = Client::to(address).await;
    let next = post(&call(2));
    let (one, two) = next.split_at(10);
    client.send([&*post(&request(1, "wait")), one].concat()).await;
    has_begun.recv().await.expect("it runs");
    tokio::time::sleep(Duration::from_millis(150)).await;
    go.notify_one();
    assert_eq!(client.response().await.body, result(1, "null"));
    assert_eq!(client.ask(two).await.body, answer(2));
}

#[tokio::test]
async fn f3_oversize_body_is_refused_before_it_arrives() {
    let address = serve().await;
    let head = "POST /rpc HTTP/1.1\r\nHost: localhost\r\n";
    let rows = [
        format!("{head}Content-Length: 2147483648\r\n\r\n"),
        format!("{head}Content-Length: 9999999999999999999\r\n\r\n"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n80000000\r\n{}", "x".repeat(1 << 20 | 1)),
        format!(
            "{head}Transfer-Encoding: chunked\r\n\r\n2\r\n[1\r\nffffffffff\r\n{}",
            " ".repeat(1 << 20)
        ),
    ];
    for request in rows {
        for sends_on in [false, true] {
            let mut client = Client::to(address).await;
            client.send(&request).await;
            if sends_on {
                // Closing while this is unread would reset the connection, and lose the answer.
                client.send(vec![b'x'; 300_000]).await;
            }
            let response = client.response().await;
            assert!(response.status == 413 && response.closes(), "{request:.90}: {response:?}");
            assert!(response.has("Content-Type: application/json"));
            let told: serde_json::Value = serde_json::from_str(&response.body).expect("JSON");
            assert_eq!(told["error"]["code"], -32600);
            assert_eq!(told["error"]["data"], serde_json::json!({"reason": "oversize"}));
            client.finish().await;
            client.expect_end().await;
        }
    }
}

#[tokio::test]
async fn t3_a_head_that_hyper_refuses_gets_the_reason() {
    let address = serve().await;
    let length = |length: &str| {
        format!("POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{{}}")
    };
    let rows = [
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 505, "HTTP/2 is not served here."),
        (length("18446744073709551613"), 413, "oversize"),
        (length("18446744073709551614"), 431, "or Content-Length is too large."),
        (length("18446744073709551615"), 431, "or Content-Length is too large."),
        (
            length("18446744073709551616"),
            400,
            "Content-Length is not one number, or it is too large.",
        ),
        (length("1e3"), 400, "Content-Length is not one number"),
        (length("-1"), 400, "Content-Length is not one number"),
        (length("1\r\nContent-Length: 2"), 400, "Content-Length is not one number"),
        ("POST /rpc HTTP/1.1\r\nHost localhost\r\n\r\n".to_owned(), 400, "its head is malformed."),
    ];
    for (request, status, reason) in rows {
        // Also as the second request of a connection.
        for first in [None, Some(call(1))] {
            let mut client = Client::to(address).await;
            if let Some(first) = &first {
                assert_eq!(client.ask(post(first)).await.body, answer(1));
            }
            client.send(&request).await;
            let response = client.response().await;
            assert!(response.status == status && response.closes(), "{request}: {response:?}");
            assert!(response.body.contains(reason), "{request}: {response:?}");
            client.finish().await;
            client.expect_end().await;
        }
    }
}

#[tokio::test]
async fn f3_endless_heads_chunks_and_trailers_are_refused() {
    let address = serve().await;
    let head = "POST /rpc HTTP/1.1\r\nHost: localhost\r\n";
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
    let rows = [
        ("a".repeat(100_000), 431),
        ("\r\n".repeat(100_000), 431),
        (format!("{head}{}", "a: b\r\n".repeat(100_000)), 431),
        (format!("{chunked}1;{}", "x".repeat(100_000)), 400),
        (format!("{chunked}0\r\n{}", "a: b\r\n".repeat(100_000)), 400),
        (format!("{chunked}{}", "0".repeat(100_000)), 400),
    ];
    for (request, status) in rows {
        let mut client = Client::to(address).await;
        client.send(&request).await;
        client.finish().await;
        assert_eq!(client.response().await.status, status, "{request:.80}");
        client.expect_end().await;
    }
}

#[tokio::test]
async fn p5_the_handler_of_a_client_that_is_gone_is_stopped() {
    struct Dropped(mpsc::UnboundedSender<&'static str>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send("dropped");
        }
    }
    let (events, mut seen) = mpsc::unbounded_channel();
    let router = methods().method("hang", move || {
        let guard = Dropped(events.clone());
        let _ = events.send("begun");
        async move {
            let _guard = guard;
            std::future::pending::<Result<(), Failure>>().await
        }
    });
    let profile = Profile::agent().with(|it| it.drain_timeout = Duration::from_millis(20));
    let address = serve_with(profile, access(), router).await;
    // Requests that wait behind it do not hide that the client is gone.
    for behind in [String::new(), post(&call(2)), "POST /rpc HT".to_owned()] {
        let mut client = Client::to(address).await;
        client.send([post(&request(1, "hang")), behind].concat()).await;
        assert_eq!(seen.recv().await, Some("begun"));
        drop(client);
        let stopped = tokio::time::timeout(PATIENCE, seen.recv()).await;
        assert_eq!(stopped.expect("it runs on"), Some("dropped"));
    }
}
