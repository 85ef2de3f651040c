//! The order in which a server gets the messages of a client.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::task::Poll;

use duet_rpc::Profile;
use duet_rpc::transport::{HttpClient, MessagePipe};
use serde_json::Value;

use crate::by_hand::{Act, ByHand};
use crate::support::{PATIENCE, place, target};

/// The name of a message says how it is handled: a request, a batch of requests, a notification, a response.
fn message(name: &str) -> String {
    match name.as_bytes()[0] {
        b'r' => format!(r#"{{"jsonrpc":"2.0","id":"{name}","method":"{name}"}}"#),
        b'b' => format!(r#"[{{"jsonrpc":"2.0","id":"{name}","method":"{name}"}}]"#),
        b'n' => format!(r#"{{"jsonrpc":"2.0","method":"{name}"}}"#),
        _ => format!(r#"{{"jsonrpc":"2.0","id":"{name}","result":1}}"#),
    }
}

fn name_of(body: &Value) -> String {
    let message = body.get(0).unwrap_or(body);
    message.get("method").unwrap_or(&message["id"]).as_str().expect("a name").to_owned()
}

/// Sends these messages at once. Each group comes to the server together, in any order, and the next one comes when
/// the server has acted on the notification or response that ends the group. Requests are never answered.
async fn check(groups: &[&[&str]], act: fn() -> Act) {
    let mut server = ByHand::serve().await;
    let profile = Profile::agent();
    let client = HttpClient::connect(&place(server.address), &target(), None, &profile).await;
    let mut pipe = MessagePipe::new(client.expect("a connection"), &profile);
    groups.concat().iter().for_each(|name| pipe.send(message(name).as_bytes()));
    let passing = tokio::spawn(async move {
        // As a bridge does: sending, and then receiving.
        poll_fn(|cx| {
            loop {
                let _ = pipe.poll_flush(cx);
                match pipe.poll_receive(cx, |_| {}) {
                    Poll::Pending => return Poll::<()>::Pending,
                    Poll::Ready(Ok(true)) => {}
                    Poll::Ready(end) => panic!("{end:?}"),
                }
            }
        })
        .await;
    });
    for group in groups {
        let mut got = Vec::new();
        for _ in *group {
            let request = server.message().await;
            got.push((name_of(&request.body), request));
        }
        assert!(!server.gets_more().await, "{groups:?}: a message has passed {group:?}");
        got.sort_by(|(one, _), (other, _)| one.cmp(other));
        let names: BTreeSet<_> = group.iter().map(|name| (*name).to_owned()).collect();
        assert!(got.iter().map(|(name, _)| name).eq(&names), "{groups:?}: not {group:?}");
        for (_, request) in got.iter().filter(|(name, _)| name.starts_with(['n', 's'])) {
            request.act(act()).await;
        }
    }
    passing.abort();
}

#[tokio::test]
async fn t2_no_message_passes_a_notification_or_a_response_over_http() {
    let accepts = || Act::Send(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_vec());
    // Its body never comes.
    let begins = || Act::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".to_vec());
    let streams = || {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        Act::Send(head.as_bytes().to_vec())
    };
    let fails = || Act::Send(b"HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n".to_vec());
    let acts: [fn() -> Act; 5] = [accepts, begins, streams, fails, || Act::Close];
    let rows: &[&[&[&str]]] = &[
        &[&["n1"], &["n2"], &["n3"], &["n4"]],
        &[&["n1"], &["r1", "r2", "r3"]],
        &[&["s1"], &["r1"]],
        &[&["r1", "n1"], &["r2", "b1", "s1"], &["n2"], &["r3"]],
        &[&["r1", "r2", "r3", "r4", "b5", "r6", "r7", "r8"]],
    ];
    for row in rows {
        for act in acts {
            tokio::time::timeout(PATIENCE, check(row, act)).await.expect("it hangs");
        }
    }
}
