//! Failures of one request fail one call, and nothing else; and failures that end the connection.

use std::error::Error as _;
use std::time::Duration;

use duet_rpc::proto::Limits;
use duet_rpc::transport::HttpClient;
use duet_rpc::{Error, ErrorKind, Peer, Profile, Router};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::by_hand::{Act, ByHand, response};
use crate::client::{assert_ends_with, client_of, ok};
use crate::support::{
    Client, PATIENCE, access, answer_with, listen, methods, place, serve_with, target,
};

pub(crate) const BROKE: &str = "the connection broke before the answer came";

/// A call that is under way while the test goes on.
pub(crate) fn begin(client: &Peer, method: &'static str) -> JoinHandle<Result<Value, Error>> {
    tokio::spawn(client.call::<Value>(method, ()).no_timeout())
}

pub(crate) async fn outcome(call: JoinHandle<Result<Value, Error>>) -> Result<Value, Error> {
    tokio::time::timeout(PATIENCE, call).await.expect("it hangs").expect("no panic")
}

/// The call is answered with the name of its method.
pub(crate) async fn assert_answer(call: JoinHandle<Result<Value, Error>>, method: &str) {
    assert_eq!(outcome(call).await.expect("an answer"), method);
}

/// Checks that only this call failed, for this reason, and not with an error of the server.
pub(crate) fn assert_failed(outcome: Result<Value, Error>, why: &str) {
    let error = outcome.expect_err(why);
    assert_eq!(error.kind(), ErrorKind::Exchange, "{why}: {error:?}");
    assert!(error.is_recoverable() && error.remote().is_none(), "{why}: {error:?}");
    assert_eq!(error.source().map(ToString::to_string).as_deref(), Some(why));
    assert!(error.id().is_some(), "{error:?}");
}

/// The server answered the call with this error.
fn assert_answered(outcome: Result<Value, Error>, code: i64, message: &str) {
    let error = outcome.expect_err(message);
    assert_eq!(error.kind(), ErrorKind::Remote, "{error:?}");
    let remote = error.remote().expect("of the server");
    assert_eq!((remote.code, &*remote.message), (code, message));
}

/// A call goes well.
pub(crate) async fn assert_works(client: &Peer, server: &mut ByHand) {
    let call = begin(client, "check");
    let request = server.request().await;
    assert_eq!(request.method(), "check");
    request.answer().await;
    assert_answer(call, "check").await;
}

#[tokio::test]
async fn p6_a_request_that_a_connection_ended_with_is_not_sent_again() {
    for is_kept in [false, true] {
        for ends in [|| Act::Close, || Act::Reset] {
            let mut server = ByHand::serve().await;
            let client = client_of(server.address).await;
            if is_kept {
                assert_works(&client, &mut server).await;
            }
            let call = begin(&client, "transfer");
            let request = server.request().await;
            assert_eq!((request.connection, request.method()), (0, "transfer"));
            request.act(ends()).await;
            assert_failed(outcome(call).await, BROKE);
            // The next request is another one.
            assert_works(&client, &mut server).await;
        }
    }
}

#[tokio::test]
async fn p6_a_kept_connection_that_has_ended_is_not_used_again() {
    let unasked = || Act::Send(response("200 OK", &ok(2)).into_bytes());
    for ends in [|| Act::Close, || Act::Reset, unasked] {
        let mut server = ByHand::serve().await;
        let client = client_of(server.address).await;
        let call = begin(&client, "one");
        let one = server.request().await;
        one.answer().await;
        outcome(call).await.expect("an answer");
        one.act(ends()).await;
        let call = begin(&client, "two");
        let two = server.request().await;
        assert_eq!((two.connection, two.method()), (1, "two"));
        two.answer().await;
        assert_answer(call, "two").await;
    }
}

#[tokio::test]
async fn p2_calls_that_timed_out_hold_up_nobody() {
    let mut server = ByHand::serve().await;
    let client = client_of(server.address).await;
    // More of them than there are connections.
    let short = Duration::from_millis(20);
    let call = |()| tokio::spawn(client.call::<Value>("never", ()).timeout(short));
    for call in [(); 20].map(call) {
        assert_eq!(outcome(call).await.expect_err("it is late").kind(), ErrorKind::Timeout);
    }
    let call = begin(&client, "quick");
    loop {
        let request = server.request().await;
        if request.method() == "quick" {
            break request.answer().await;
        }
    }
    assert_answer(call, "quick").await;
}

#[tokio::test]
async fn p3_a_call_that_is_cancelled_gives_its_connection_back() {
    let mut server = ByHand::serve().await;
    let client = client_of(server.address).await;
    let mut calls: Vec<_> = (0..8).map(|_| begin(&client, "never")).collect();
    for _ in 0..8 {
        server.request().await;
    }
    // These have to wait, and two of them until they are given up.
    calls.extend((0..2).map(|_| begin(&client, "late")));
    let last = begin(&client, "last");
    while client.stats().pending_calls < 11 {
        tokio::task::yield_now().await;
    }
    for call in calls.iter().rev() {
        call.abort();
    }
    let request = server.request().await;
    assert_eq!(request.method(), "last", "what nobody awaits is not sent");
    request.answer().await;
    assert_answer(last, "last").await;
    assert_works(&client, &mut server).await;
}

#[tokio::test]
async fn p3_cancelling_an_http_call_closes_only_its_connection() {
    let mut server = ByHand::serve().await;
    let client = client_of(server.address).await;
    let slow = begin(&client, "slow");
    let slow_request = server.request().await;
    let given_up = begin(&client, "never");
    assert_eq!(server.request().await.method(), "never");
    given_up.abort();
    server.ends(1).await;
    slow_request.answer().await;
    assert_answer(slow, "slow").await;
}

#[tokio::test]
async fn t1_a_refusal_of_one_request_fails_one_call() {
    let rows = [
        ("400 x", "the server refused: 400 Bad Request"),
        ("408 x", "the server refused: 408 Request Timeout"),
        ("411 x", "the server refused: 411 Length Required"),
        ("413 x", "the server refused: 413 Content Too Large"),
        ("417 x", "the server refused: 417 Expectation Failed"),
        ("422 x", "the server refused: 422 Unprocessable Entity"),
        ("429 x", "the server refused: 429 Too Many Requests"),
        ("431 x", "the server refused: 431 Request Header Fields Too Large"),
        ("499 Not A Name", "the server refused: 499 Client Error"),
        ("500 x", "the server refused: 500 Internal Server Error"),
        ("502 x", "the server refused: 502 Bad Gateway"),
        ("503 x", "the server refused: 503 Service Unavailable"),
        ("599 x", "the server refused: 599 Server Error"),
    ];
    let mut server = ByHand::serve().await;
    let client = client_of(server.address).await;
    let slow = begin(&client, "slow");
    let slow_request = server.request().await;
    for (status, why) in rows {
        let other = begin(&client, "other");
        server.request().await.respond(status, "<html>no</html>").await;
        assert_failed(outcome(other).await, why);
    }
    slow_request.answer().await;
    assert_answer(slow, "slow").await;
}

#[tokio::test]
async fn t1_a_notification_that_fails_fails_nothing_else() {
    let rows = [(response("503 x", ""), false), (String::new(), true), ("nonsense".into(), false)];
    for (bad, closes) in rows {
        let (heard, mut hears) = mpsc::unbounded_channel();
        let address = answer_with(move |number| {
            let _ = heard.send(());
            match number {
                0 => (bad.clone().into_bytes(), closes),
                _ => (response("200 OK", &ok(1)).into_bytes(), false),
            }
        })
        .await;
        let client = client_of(address).await;
        client.notify("note", ()).await.expect("it is sent");
        hears.recv().await.expect("it is heard");
        assert_eq!(outcome(begin(&client, "any")).await.expect("an answer"), 1);
    }
}

#[tokio::test]
async fn t1_an_error_object_in_the_body_is_the_answer_if_it_has_the_id_or_none() {
    fn error(id: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": 7, "message": "no"}})
    }
    fn result(id: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "result": 1})
    }
    let mut server = ByHand::serve().await;
    let client = client_of(server.address).await;
    // The response to a call; the body is made of the id of its request.
    let mut answered = async |status, body: fn(Value) -> Value| {
        let call = begin(&client, "any");
        let request = server.request().await;
        request.respond(status, &body(request.body["id"].clone()).to_string()).await;
        outcome(call).await
    };
    for status in ["200 OK", "400 x", "413 x", "500 x"] {
        assert_answered(answered(status, error).await, 7, "no");
        assert_answered(answered(status, |_| error(Value::Null)).await, 7, "no");
    }
    let refused = "the server refused: 500 Internal Server Error";
    let other = "the response has the id of another request";
    for (status, why) in [("500 x", refused), ("200 OK", other)] {
        assert_failed(answered(status, |_| error(json!("another"))).await, why);
        assert_failed(answered(status, |_| result(Value::Null)).await, why);
    }
    assert_failed(answered("500 x", result).await, refused);
    assert_works(&client, &mut server).await;
}

#[tokio::test]
async fn t2_call_over_the_servers_limit_gets_the_servers_error() {
    let profile = Profile::agent()
        .with(|it| it.limits = Limits::default().with(|it| it.message_bytes = 1000));
    let client = client_of(serve_with(profile, access(), methods()).await).await;
    let large = client.call::<Value>("echo", json!(["x".repeat(2000)])).await;
    assert_answered(large, -32600, "Invalid Request");
    assert_eq!(client.call::<i64>("add", (1, 2)).await.expect("a sum"), 3);
}

#[tokio::test]
async fn f3_invalid_http_response_fails_one_call() {
    let head = "HTTP/1.1 200 OK\r\n";
    let no_http = "the server does not speak HTTP";
    let too_long = "the response is longer than the message limit";
    let malformed = "the body of the response is malformed";
    let no_json = "the response is not JSON";
    let no_message = "the response is not a JSON-RPC answer";
    let nothing = "the server took the request and did not answer it";
    let large = "Content-Length: 2147483648";
    let chunks = "Transfer-Encoding: chunked\r\n\r\n";
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#;
    let rows: [(String, bool, &str); 27] = [
        ("\x15\x03\x01\0\x02\x02\x46".into(), true, no_http),
        ("SSH-2.0-OpenSSH_9.6\r\n\r\n".into(), false, no_http),
        ("\0\0\0\0".into(), false, no_http),
        ("H".repeat(100_000), false, no_http),
        (format!("{head}{}", "a: b\r\n".repeat(100_000)), false, no_http),
        (format!("{head}Content-Length: 1\r\nContent-Length: 2\r\n\r\n"), false, no_http),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n".into(), false, "101 Switching Protocols"),
        ("HTTP/1.1 999 \r\n\r\n".into(), false, "999 Unknown"),
        (String::new(), true, BROKE),
        ("HTTP/1.1 200".into(), true, BROKE),
        (format!("{head}Content-Length: 10\r\n\r\n{{"), true, BROKE),
        (format!("{head}{chunks}5\r\n{{"), true, BROKE),
        (format!("{head}{large}\r\n\r\n"), false, too_long),
        (format!("{head}\r\n[{}", " ".repeat(2_000_000)), false, too_long),
        (format!("{head}{chunks}80000000\r\n{}", " ".repeat(2_000_000)), false, too_long),
        (format!("{head}{chunks}nope\r\n"), false, malformed),
        ("HTTP/1.1 500 Oops\r\n\r\n".into(), true, "500 Internal Server Error"),
        ("HTTP/1.1 502 x\r\nContent-Length: 9\r\n\r\nx".into(), true, "502 Bad Gateway"),
        (format!("HTTP/1.1 503 x\r\n{large}\r\n\r\n"), false, "503 Service Unavailable"),
        (response("200 OK", "<html></html>"), false, no_json),
        (response("200 OK", "{nope"), false, no_json),
        (response("200 OK", "{}"), false, no_message),
        (response("200 OK", "[]"), false, no_message),
        (response("200 OK", request), false, no_message),
        (response("200 OK", " \r\n"), false, nothing),
        (response("202 Accepted", ""), false, nothing),
        ("HTTP/1.1 204 No Content\r\n\r\n".into(), false, nothing),
    ];
    for (bad, closes, why) in rows {
        // A status stands for its refusal.
        let is_status = why.starts_with(|first: char| first.is_ascii_digit());
        let why = if is_status { format!("the server refused: {why}") } else { why.to_owned() };
        let address = answer_with(move |number| match number {
            0 => (bad.clone().into_bytes(), closes),
            _ => (response("200 OK", &ok(2)).into_bytes(), false),
        })
        .await;
        let client = client_of(address).await;
        assert_failed(outcome(begin(&client, "any")).await, &why);
        assert_eq!(outcome(begin(&client, "any")).await.expect(&why), 2);
    }
}

#[tokio::test]
async fn t1_a_refusal_of_every_request_ends_the_connection() {
    for (status, why) in [
        ("301 x", "the server refused: 301 Moved Permanently"),
        ("302 x\r\nLocation: http://evil/", "the server refused: 302 Found"),
        ("401 x", "the server refused: 401 Unauthorized"),
        ("403 x", "the server refused: 403 Forbidden"),
        ("404 x", "the server refused: 404 Not Found"),
        ("405 x", "the server refused: 405 Method Not Allowed"),
    ] {
        let mut server = ByHand::serve().await;
        let client = client_of(server.address).await;
        let calls = [begin(&client, "one"), begin(&client, "other")];
        server.request().await;
        server.request().await.respond(status, "").await;
        for call in calls {
            assert_eq!(outcome(call).await.expect_err(why).kind(), ErrorKind::Disconnected);
        }
        assert_ends_with(&client, why).await;
    }
}

#[tokio::test]
async fn t1_unreachable_server_ends_the_peer_unless_a_connection_is_still_open() {
    for still_speaks in [false, true] {
        let (listener, address) = listen().await;
        let client = client_of(address).await;
        let (stream, _) = listener.accept().await.expect("a connection");
        drop(listener);
        let mut server = Client::on(stream);
        let first = begin(&client, "first");
        server.read_request().await.expect("a request");
        if still_speaks {
            let error = outcome(begin(&client, "second")).await.expect_err("there is no other");
            assert_eq!(error.kind(), ErrorKind::Exchange, "it fails alone: {error:?}");
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            assert!(why.starts_with("the server cannot be reached: "), "{why}");
            server.send(response("200 OK", &ok(1))).await;
            assert_eq!(outcome(first).await.expect("an answer"), 1);
        } else {
            drop(server);
            assert_failed(outcome(first).await, BROKE);
            let error = outcome(begin(&client, "second")).await.expect_err("nobody is there");
            assert_eq!(error.kind(), ErrorKind::Disconnected);
            assert_ends_with(&client, "refused").await;
        }
    }
}

#[tokio::test]
async fn p5_queued_http_notifications_are_sent_before_close_returns() {
    let (heard, mut hears) = mpsc::unbounded_channel();
    let address = answer_with(move |number| {
        let _ = heard.send(number);
        (response("202 Accepted", "").into_bytes(), false)
    })
    .await;
    let profile = Profile::agent().with(|it| it.drain_timeout = PATIENCE);
    let transport = HttpClient::connect(&place(address), &target(), None, &profile).await;
    let client = Peer::builder(transport.expect("a connection"))
        .profile(profile)
        .router(Router::new())
        .spawn();
    // More than there are connections.
    for number in 0..50 {
        client.notify("note", (number,)).await.expect("it is sent");
    }
    tokio::time::timeout(PATIENCE / 2, client.close()).await.expect("nobody waits for more");
    for number in 0..50 {
        assert_eq!(hears.recv().await, Some(number));
    }
}
