//! Responses with more than the answer: event streams and batches; sessions, headers, and responses that come
//! before the request was sent.

use std::io;

use duet_rpc::transport::{Connector, Transport};
use duet_rpc::{Failure, Peer, Profile, Router};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::by_hand::{Act, ByHand, Request};
use crate::one_call::{BROKE, assert_answer, assert_failed, assert_works, begin, outcome};
use crate::support::{Client, PATIENCE, answer_with, listen};

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\n\
    Transfer-Encoding: chunked\r\n\r\n";

type Notes = mpsc::UnboundedReceiver<Value>;

/// A client of this server, and the params of the notifications `note` that it gets.
async fn client_of(connector: Connector) -> (Peer, Notes) {
    let (heard, hears) = mpsc::unbounded_channel();
    let router = Router::new().method("note", move |params: Value| {
        let _ = heard.send(params);
        async { Ok::<_, Failure>(()) }
    });
    let profile = Profile::agent();
    let transport = connector.connect(&profile).await.expect("a connection");
    (Peer::builder(transport).profile(profile).router(router).spawn(), hears)
}

fn connector(server: &ByHand) -> Connector {
    Connector::new(format!("http://{}/rpc", server.address)).expect("an address")
}

async fn start() -> (ByHand, Peer, Notes) {
    let server = ByHand::serve().await;
    let (client, notes) = client_of(connector(&server)).await;
    (server, client, notes)
}

async fn next(notes: &mut Notes) -> Value {
    let note = tokio::time::timeout(PATIENCE, notes.recv()).await.expect("it hangs");
    note.expect("the client is there")
}

fn note(number: usize) -> String {
    json!({"jsonrpc": "2.0", "method": "note", "params": [number]}).to_string()
}

/// The answer to a request: the name of its method.
fn answer_to(request: &Request) -> String {
    json!({"jsonrpc": "2.0", "id": request.body["id"], "result": request.method()}).to_string()
}

fn event(data: impl AsRef<str>) -> String {
    format!("data: {}\n\n", data.as_ref())
}

fn chunk(text: impl AsRef<str>) -> String {
    let text = text.as_ref();
    format!("{:x}\r\n{text}\r\n", text.len())
}

#[tokio::test]
async fn t1_events_before_the_answer_reach_the_client_and_the_connection_is_kept() {
    let (mut server, client, mut notes) = start().await;
    for number in 0..5 {
        let call = begin(&client, "work");
        let request = server.request().await;
        assert_eq!(request.connection, 0);
        assert_eq!(request.header("Accept"), Some("application/json, text/event-stream"));
        request.send(CHUNKED).await;
        request.send(chunk(": the first comes while the call is open\n\n")).await;
        request.send(chunk(event(note(number)))).await;
        assert_eq!(next(&mut notes).await, json!([number]));
        assert!(!call.is_finished());
        // An event in several pieces, and several events in one.
        let more = event(note(number + 10)) + ":\n\n" + &event(note(number + 20));
        let (one, two) = more.split_at(20);
        request.send(chunk(one)).await;
        request.send(chunk(two)).await;
        let last = format!("event: message\nid: 7\n{}", event(answer_to(&request)));
        request.send(chunk(last) + "0\r\n\r\n").await;
        assert_answer(call, "work").await;
        assert_eq!(next(&mut notes).await, json!([number + 10]));
        assert_eq!(next(&mut notes).await, json!([number + 20]));
        assert_works(&client, &mut server).await;
    }
}

#[tokio::test]
async fn t1_an_event_stream_may_have_a_length_or_end_with_its_connection() {
    let (mut server, client, mut notes) = start().await;
    let rows = ["Content-Length: LENGTH\r\n\r\n", "\r\n", "Connection: close\r\n\r\n"];
    for (number, rest) in rows.into_iter().enumerate() {
        let call = begin(&client, "work");
        let request = server.request().await;
        let body = event(note(number)) + &event(answer_to(&request));
        let head = format!("{HEAD}{}", rest.replace("LENGTH", &body.len().to_string()));
        request.send(head + &body).await;
        if number > 0 {
            request.act(Act::Close).await;
        }
        assert_answer(call, "work").await;
        assert_eq!(next(&mut notes).await, json!([number]));
    }
}

#[tokio::test]
async fn p8_streams_that_go_on_after_the_answer_hold_up_nobody() {
    let (mut server, client, mut notes) = start().await;
    // More of them than there are connections.
    for number in 0..20 {
        let call = begin(&client, "work");
        let request = server.request().await;
        request.send(format!("{CHUNKED}{}", chunk(event(answer_to(&request))))).await;
        assert_answer(call, "work").await;
        request.send(chunk(event(note(number)))).await;
        assert_eq!(next(&mut notes).await, json!([number]));
    }
    // Closing does not wait for them either.
    tokio::time::timeout(PATIENCE / 2, client.close()).await.expect("nobody waits for more");
}

#[tokio::test]
async fn p8_streams_that_follow_a_notification_hold_up_nobody() {
    let endless = format!("{CHUNKED}{}", chunk(event(note(7))));
    let (heard, mut hears) = mpsc::unbounded_channel();
    let address = answer_with(move |number| {
        let _ = heard.send(number);
        (endless.clone().into_bytes(), false)
    })
    .await;
    let connector = Connector::new(format!("http://{address}/rpc")).expect("an address");
    let (client, mut notes) = client_of(connector).await;
    for number in 0..20 {
        client.notify("hello", ()).await.expect("it is sent");
        assert_eq!(hears.recv().await, Some(number));
        assert_eq!(next(&mut notes).await, json!([7]));
    }
    tokio::time::timeout(PATIENCE / 2, client.close()).await.expect("nobody waits for more");
}

#[tokio::test]
async fn f3_a_stream_may_be_longer_than_a_message_and_an_event_may_not() {
    let (mut server, client, mut notes) = start().await;
    let call = begin(&client, "work");
    let request = server.request().await;
    request.send(CHUNKED).await;
    let padding = format!(": {}\n", "x".repeat(1000));
    for number in 0..5000 {
        request.send(chunk(padding.clone() + &event(note(number)))).await;
    }
    request.send(chunk(event(answer_to(&request)))).await;
    assert_answer(call, "work").await;
    for number in 0..5000 {
        assert_eq!(next(&mut notes).await, json!([number]));
    }
    let call = begin(&client, "work");
    let request = server.request().await;
    request.send(format!("{HEAD}\r\ndata: {}", "x".repeat(2_000_000))).await;
    assert_failed(outcome(call).await, "the response is longer than the message limit");
    assert_works(&client, &mut server).await;
}

#[tokio::test]
async fn t1_a_stream_without_the_answer_fails_one_call() {
    let other = json!({"jsonrpc": "2.0", "id": "other", "result": 1}).to_string();
    let call_back = json!({"jsonrpc": "2.0", "id": 1, "method": "note"}).to_string();
    let nothing = "the server took the request and did not answer it";
    let rows = [
        (event(note(1)) + "0", "0\r\n\r\n", nothing),
        (String::new(), "0\r\n\r\n", nothing),
        // An event that is cut off is not an event.
        ("data: {}\n".to_owned(), "0\r\n\r\n", nothing),
        (event(call_back), "0\r\n\r\n", nothing),
        (event("{nope"), "", "the response is not JSON"),
        (event("{}"), "", "the response is not a JSON-RPC answer"),
        (event(other), "", "the response has the id of another request"),
        (event(note(1)), "nope\r\n", "the body of the response is malformed"),
    ];
    let (mut server, client, _notes) = start().await;
    for (events, end, why) in rows {
        let call = begin(&client, "work");
        let request = server.request().await;
        let events = if events.is_empty() { events } else { chunk(events) };
        request.send(format!("{CHUNKED}{events}{end}")).await;
        assert_failed(outcome(call).await, why);
    }
    for end in [Act::Close, Act::Reset] {
        let call = begin(&client, "work");
        let request = server.request().await;
        request.send(format!("{CHUNKED}{}", chunk(event(note(1))))).await;
        request.act(end).await;
        assert_failed(outcome(call).await, BROKE);
    }
    assert_works(&client, &mut server).await;
}

#[tokio::test]
async fn p3_to_cancel_a_call_ends_its_stream() {
    let (mut server, client, mut notes) = start().await;
    let call = begin(&client, "work");
    let request = server.request().await;
    request.send(format!("{CHUNKED}{}", chunk(event(note(1))))).await;
    assert_eq!(next(&mut notes).await, json!([1]));
    call.abort();
    server.ends(1).await;
    assert_works(&client, &mut server).await;
}

#[tokio::test]
async fn t1_a_batch_may_hold_notifications_and_the_answer() {
    let (mut server, client, mut notes) = start().await;
    for is_stream in [false, true] {
        let call = begin(&client, "work");
        let request = server.request().await;
        let batch = format!("[{}, {} , {}]", note(1), answer_to(&request), note(2));
        match is_stream {
            false => request.respond("200 OK", &batch).await,
            true => request.send(format!("{CHUNKED}{}0\r\n\r\n", chunk(event(batch)))).await,
        }
        assert_answer(call, "work").await;
        assert_eq!(next(&mut notes).await, json!([1]));
        assert_eq!(next(&mut notes).await, json!([2]));
    }
    for batch in [note(1), format!("[{}]", note(1)), "[1]".to_owned(), "[[]]".to_owned()] {
        let call = begin(&client, "work");
        server.request().await.respond("200 OK", &batch).await;
        assert_failed(outcome(call).await, "the response is not a JSON-RPC answer");
    }
    assert_works(&client, &mut server).await;
}

#[tokio::test]
async fn t1_a_session_that_the_server_names_is_named_in_later_requests() {
    let (mut server, client, _notes) = start().await;
    let mut known: Option<&str> = None;
    let rows =
        [("200 OK", Some("one")), ("200 OK", None), ("200 OK", Some("two")), ("500 x", None)];
    for (status, given) in rows {
        let call = begin(&client, "work");
        let request = server.request().await;
        assert_eq!(request.header("Mcp-Session-Id"), known);
        let session = given.map(|id| format!("\r\nMcp-Session-Id: {id}")).unwrap_or_default();
        request.respond(&format!("{status}{session}"), &answer_to(&request)).await;
        assert_eq!(outcome(call).await.is_ok(), status == "200 OK");
        known = given.or(known);
    }
    // A refusal names no session.
    let call = begin(&client, "work");
    server.request().await.respond("503 x\r\nMcp-Session-Id: three", "").await;
    outcome(call).await.expect_err("refused");
    let call = begin(&client, "work");
    let request = server.request().await;
    assert_eq!(request.header("Mcp-Session-Id"), Some("two"));
    request.answer().await;
    assert_answer(call, "work").await;
}

#[tokio::test]
async fn t2_the_headers_of_a_connector_go_with_each_request() {
    let mut server = ByHand::serve().await;
    let connector =
        connector(&server).token("s3cret").header("X-Tenant", "blue").header("X-N", "7");
    assert!(!format!("{connector:?}").contains("blue"));
    let (client, _notes) = client_of(connector).await;
    for _ in 0..2 {
        let call = begin(&client, "work");
        let request = server.request().await;
        assert_eq!(request.header("Authorization"), Some("Bearer s3cret"));
        assert_eq!(request.header("X-Tenant"), Some("blue"));
        assert_eq!(request.header("X-N"), Some("7"));
        request.answer().await;
        assert_answer(call, "work").await;
    }
}

#[tokio::test]
async fn t2_a_setting_that_the_server_cannot_take_is_refused() {
    let connector = |url: &str| Connector::new(url).expect("an address");
    let rows = [
        (connector("tcp://127.0.0.1:1").token("x"), "takes no token: only WebSocket and HTTP"),
        (
            connector("tcp://127.0.0.1:1").header("X", "y"),
            "takes no headers: only WebSocket and HTTP",
        ),
        (connector("tcp://127.0.0.1:1").subprotocol("mcp"), "takes no subprotocol: only WebSocket"),
        (
            connector("http://127.0.0.1:1").subprotocol("mcp"),
            "takes no subprotocol: only WebSocket",
        ),
        (connector("http://127.0.0.1:1").header("Host", "x"), "is set by the client itself"),
        (connector("http://127.0.0.1:1").header("X Y", "x"), "is not the name of a header"),
    ];
    for (connector, why) in rows {
        let failed: io::Result<Box<dyn Transport>> = connector.connect(&Profile::agent()).await;
        let error = failed.err().expect(why);
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[tokio::test]
async fn t1_a_response_that_comes_before_the_request_was_read_is_understood() {
    for closes in [false, true] {
        let (listener, address) = listen().await;
        let serving = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.peek(&mut [0]).await.expect("a part of a request");
            let mut first = Client::on(stream);
            first.send("HTTP/1.1 413 x\r\nContent-Length: 0\r\n\r\n").await;
            if closes {
                first.finish().await;
            }
            let (stream, _) = listener.accept().await.expect("another connection");
            let mut second = Client::on(stream);
            assert!(second.read_request().await.is_some_and(|body| body.contains("small")));
            second.send(crate::by_hand::response("200 OK", &crate::client::ok(2))).await;
            second
        });
        let connector = Connector::new(format!("http://{address}/rpc")).expect("an address");
        let (client, _notes) = client_of(connector).await;
        let large =
            tokio::spawn(client.call::<Value>("large", ["x".repeat(30_000_000)]).no_timeout());
        assert_failed(outcome(large).await, "the server refused: 413 Content Too Large");
        let small = outcome(begin(&client, "small")).await;
        assert_eq!(small.expect("an answer"), 2);
        drop(serving.await.expect("no panic"));
    }
}
