//! The peer: calls in both directions on one connection (P1–P5, P7, P9, E2).

mod links;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duet_rpc::proto::message::{Code, ErrorObject, Id, InvalidResponseReason};
use duet_rpc::proto::policy::{Dialect, IdStyle, Order};
use duet_rpc::transport::Stream;
use duet_rpc::{
    CloseReason, ConnectionState, Context, Error, ErrorKind, Failure, Peer, Profile, Router,
    UnusableAnswer,
};
use links::{Link, client_of, gated, until};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

fn pair(profile: &Profile, one: Router, two: Router) -> (Peer, Peer) {
    Link::Memory.join(profile, one, two)
}

#[derive(Deserialize)]
struct Range {
    from: i64,
    to: i64,
}

enum BankError {
    Overdrawn,
}

impl From<BankError> for Failure {
    fn from(_: BankError) -> Failure {
        ErrorObject::application(Code(-32001), "Overdrawn", None).into()
    }
}

fn methods() -> Router {
    async fn version() -> Result<&'static str, Failure> {
        Ok("1.0")
    }
    Router::new()
        .method("version", version)
        .method("add", async |(a, b): (i64, i64)| Ok::<_, Failure>(a + b))
        .method("length", async |range: Range| Ok::<_, Failure>(range.to - range.from))
        .method("echo", async |raw: Box<RawValue>| Ok::<_, Failure>(raw))
        .method("id", async |cx: Context| Ok::<_, Failure>(cx.id().map(ToString::to_string)))
        .method("withdraw", async |(_sum,): (u64,)| Err::<(), _>(BankError::Overdrawn))
        .method("io", async || Err::<(), _>(std::io::Error::other("the disk is full")))
        .method("panic", async || -> Result<(), Failure> { panic!("secret") })
        .method("late_panic", async || -> Result<(), Failure> {
            tokio::task::yield_now().await;
            panic!("secret")
        })
        .method("slow_add", async |(a, b): (i64, i64)| {
            tokio::task::yield_now().await;
            Ok::<_, Failure>(a + b)
        })
        .method("never", async || -> Result<(), Failure> { std::future::pending().await })
}

#[tokio::test]
async fn p7_handlers_take_typed_params_raw_params_or_the_context() {
    let (client, _server) = client_of(methods());
    assert_eq!(client.call::<String>("version", ()).await.expect("no params"), "1.0");
    assert_eq!(client.call::<i64>("add", (1, 2)).await.expect("by position"), 3);
    assert_eq!(client.call::<i64>("slow_add", (1, 2)).await.expect("a task"), 3);
    let range = json!({"from": 3, "to": 10});
    assert_eq!(client.call::<i64>("length", range).await.expect("by name"), 7);
    let raw = json!({"a": [1, 2, {"b": null}]});
    assert_eq!(client.call::<Value>("echo", &raw).await.expect("raw"), raw);
    assert_eq!(client.call::<Value>("echo", ()).await.expect("raw, none"), Value::Null);
    assert!(client.call::<Option<String>>("id", ()).await.expect("context").is_some());
}

#[tokio::test]
async fn e4_p7_wrong_params_and_errors_of_the_application_reach_the_caller() {
    let (client, _server) = client_of(methods());
    let rows = [
        ("withdraw", json!([5]), -32001),
        ("io", json!([]), -32603),
        ("nope", json!([]), -32601),
        ("add", json!(["x", 1]), -32602),
    ];
    for (method, params, code) in rows {
        let error = client.call::<Value>(method, params).await.expect_err("the call fails");
        assert_eq!(error.kind(), ErrorKind::Remote, "{method}");
        assert_eq!(error.remote().expect("an answer").code, code, "{method}");
        assert!(error.is_recoverable());
        assert!(!format!("{error:#}").contains("disk"));
    }
}

#[tokio::test]
async fn e2_a_panic_is_an_internal_error_and_the_next_request_works() {
    let (client, _server) = client_of(methods());
    for method in ["panic", "late_panic"] {
        let error = client.call::<Value>(method, ()).await.expect_err("the closure panics");
        let remote = error.remote().expect("an answer");
        assert_eq!((remote.code, &*remote.message), (-32603, "Internal error"));
        assert_eq!(client.call::<i64>("add", (1, 2)).await.expect("the call is answered"), 3);
    }
}

#[tokio::test]
async fn p1_ids_of_the_two_directions_never_mix() {
    for ids in [IdStyle::Counter, IdStyle::Uuid] {
        let profile = Profile::agent().with(|it| it.ids = ids);
        let back = Router::new().method("ask", async |(depth,): (u32,), cx: Context| {
            if depth == 0 {
                return Ok(0);
            }
            let deeper: u32 = cx.peer().call("ask", (depth - 1,)).await?;
            Ok::<_, Error>(deeper + 1)
        });
        let (one, two) = pair(&profile, back.clone(), back);
        let (a, b) = tokio::join!(one.call::<u32>("ask", (20,)), two.call::<u32>("ask", (21,)));
        assert_eq!((a.expect("a"), b.expect("b")), (20, 21));
        assert_eq!(one.stats().pending_calls, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn p2_call_that_times_out_is_cancelled_at_the_remote() {
    let stopped = Arc::new(AtomicUsize::new(0));
    let guard = Arc::clone(&stopped);
    struct OnDrop(Arc<AtomicUsize>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let router = methods().method("hang", move || {
        let guard = OnDrop(Arc::clone(&guard));
        async move {
            let _guard = guard;
            std::future::pending::<Result<(), Failure>>().await
        }
    });
    let (client, server) = client_of(router);
    let call = client.call::<Value>("hang", ()).timeout(Duration::from_millis(50));
    let error = call.await.expect_err("nobody answers");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.id().is_some() && error.is_recoverable());
    // The remote has dropped the handler, and answered: too late, and dropped.
    until(|| client.stats().unmatched_answers == 1 && server.stats().running == 0).await;
    assert_eq!(stopped.load(Ordering::SeqCst), 1);
    assert_eq!(client.stats().pending_calls, 0);
}

#[tokio::test]
async fn p3_a_dropped_call_is_cancelled_in_each_dialect() {
    // The dialect, `true` if the remote gets a cancellation, and the number of answers to cancelled requests.
    for (dialect, told, answers) in
        [(Dialect::Dollar, true, 1), (Dialect::Notifications, true, 0), (Dialect::None, false, 0)]
    {
        let profile = Profile::agent().with(|it| it.dialect = dialect);
        let (client, server) = pair(&profile, Router::new(), methods());
        let call = tokio::spawn(client.call::<Value>("never", ()));
        until(|| server.stats().running == 1).await;
        call.abort();
        until(|| client.stats().pending_calls == 0).await;
        if told {
            until(|| server.stats().running == 0).await;
        }
        // Everything that was sent before this answer has been read.
        let _: i64 = client.call("add", (1, 1)).await.expect("the call is answered");
        assert_eq!(server.stats().running, usize::from(!told), "{dialect:?}");
        assert_eq!(client.stats().unmatched_answers, answers, "{dialect:?}");
    }
}

#[tokio::test]
async fn p3_a_call_that_is_never_polled_is_never_sent() {
    let (client, server) = client_of(methods());
    drop(client.call::<Value>("never", ()));
    let _: i64 = client.call("add", (1, 1)).await.expect("the call is answered");
    assert_eq!((server.stats().running, client.stats().pending_calls), (0, 0));
}

#[tokio::test]
async fn p4_past_the_limit_requests_are_answered_busy() {
    let profile = Profile::agent().max_in_flight(2);
    let (client, server) = pair(&profile, Router::new(), methods());
    let waiting = [(); 2].map(|()| tokio::spawn(client.call::<Value>("never", ())));
    until(|| server.stats().running == 2).await;
    let error = client.call::<i64>("add", (1, 2)).await.expect_err("busy");
    let remote = error.remote().expect("an answer");
    assert_eq!((remote.code, &*remote.message), (-32000, "Server busy"));
    assert_eq!(
        remote.data.as_deref().map(RawValue::get),
        Some(r#"{"reason":"overloaded","limit":2}"#)
    );
    waiting[0].abort();
    until(|| server.stats().running == 1).await;
    assert_eq!(client.call::<i64>("add", (1, 2)).await.expect("a slot is free"), 3);
}

#[tokio::test]
async fn p4_call_at_the_limit_of_pending_calls_fails_immediately() {
    let profile = Profile::agent().with(|it| it.limits.pending_calls = 2);
    let (client, server) = pair(&profile, Router::new(), methods());
    let _waiting = [(); 2].map(|()| tokio::spawn(client.call::<Value>("never", ())));
    until(|| server.stats().running == 2).await;
    let error = client.call::<i64>("add", (1, 2)).await.expect_err("too many");
    assert_eq!(error.kind(), ErrorKind::Capacity);
    assert!(error.is_recoverable());
}

#[tokio::test]
async fn p5_watch_shows_the_states_and_calls_after_the_end_fail() {
    let (client, server) = client_of(methods());
    let mut watch = client.watch();
    watch
        .wait_for(|state| matches!(state, ConnectionState::Connected))
        .await
        .expect("the state changes");
    let waiting = tokio::spawn(client.call::<Value>("never", ()));
    until(|| server.stats().running == 1).await;
    let disconnect = client.close().await;
    assert_eq!(disconnect.reason(), CloseReason::Closed);
    let error = waiting.await.expect("no panic").expect_err("the connection is gone");
    assert_eq!(error.kind(), ErrorKind::Disconnected);
    assert!(!error.is_recoverable());
    assert!(client.state().is_disconnected());
    let error = client.call::<i64>("add", (1, 2)).await.expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::Disconnected);
    let error = client.notify("add", (1, 2)).await.expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::Disconnected);
    assert_eq!(format!("{error:#}"), "the connection is closed: closed locally");
    // The other side sees the end of its input, and stops its handler, because nobody waits for the answer.
    assert_eq!(server.closed().await.reason(), CloseReason::RemoteClosed);
}

#[tokio::test]
async fn p5_dropping_the_last_handle_closes_the_connection() {
    let (client, server) = client_of(methods());
    drop(client);
    assert_eq!(server.closed().await.reason(), CloseReason::RemoteClosed);
}

#[tokio::test]
async fn l4_a_running_request_is_finished_before_the_connection_closes() {
    let (router, permits) = gated(Router::new(), "wait", |(): ()| 42);
    let (client, server) = client_of(router);
    let (answer, disconnect) = tokio::join!(client.call::<i64>("wait", ()), async {
        until(|| server.stats().running == 1).await;
        let closing = server.close();
        until(|| matches!(server.state(), ConnectionState::Draining)).await;
        permits.add_permits(1);
        closing.await
    });
    assert_eq!(answer.expect("the request was answered before the end"), 42);
    assert_eq!(disconnect.reason(), CloseReason::Closed);
}

#[tokio::test]
async fn m10_a_notification_is_served_and_never_answered() {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let router = methods().method("count", move |(by,): (usize,)| {
        counter.fetch_add(by, Ordering::SeqCst);
        async {}
    });
    let (client, _server) = client_of(router);
    for method in ["count", "panic", "nope", "late_panic", "withdraw"] {
        client.notify(method, (3,)).await.expect("the notification is sent");
    }
    assert_eq!(client.call::<i64>("add", (1, 2)).await.expect("the call is answered"), 3);
    assert_eq!(count.load(Ordering::SeqCst), 3);
    assert_eq!(client.stats().unmatched_answers, 0);
}

#[tokio::test]
async fn m10_the_result_of_a_notification_is_never_written() {
    /// Counts how often it is serialised.
    struct Counted(Arc<AtomicUsize>);
    impl Serialize for Counted {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            self.0.fetch_add(1, Ordering::SeqCst);
            serializer.serialize_unit()
        }
    }
    for waits in [false, true] {
        let written = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&written);
        let router = Router::new().method("count", move || {
            let counter = Arc::clone(&counter);
            async move {
                if waits {
                    tokio::task::yield_now().await;
                }
                Ok::<_, Failure>(Counted(counter))
            }
        });
        let (client, _server) = client_of(router);
        client.notify("count", ()).await.expect("the notification is sent");
        client.call::<()>("count", ()).await.expect("an answer");
        assert_eq!(
            written.load(Ordering::SeqCst),
            1,
            "only the result of the call is written; handler waits: {waits}"
        );
    }
}

#[tokio::test]
async fn notifications_of_a_handler_are_sent_before_its_answer() {
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&seen);
    let here = Router::new().method("tick", move || {
        counter.fetch_add(1, Ordering::SeqCst);
        async {}
    });
    let there = Router::new().method("emit", async |(count,): (usize,), cx: Context| {
        for _ in 0..count {
            cx.peer().notify("tick", ()).await?;
        }
        Ok::<_, Error>(count)
    });
    let (client, _server) = pair(&Profile::agent(), here, there);
    for count in [1, 10, 100_000] {
        seen.store(0, Ordering::SeqCst);
        assert_eq!(
            client.call::<usize>("emit", (count,)).await.expect("the call is answered"),
            count
        );
        assert_eq!(seen.load(Ordering::SeqCst), count);
    }
}

#[tokio::test]
async fn l2_by_key_keeps_the_messages_of_a_key_in_order() {
    let log = Arc::new(std::sync::Mutex::new(Vec::new()));
    let writer = Arc::clone(&log);
    let router = Router::new()
        .ordered_by(|_, params| params.parse::<(String, u32)>().ok().map(|(key, _)| key))
        .method("append", move |(key, number): (String, u32)| {
            let log = Arc::clone(&writer);
            async move {
                // A request with a larger number takes less time.
                for _ in 0..(10 - number % 10) {
                    tokio::task::yield_now().await;
                }
                log.lock().expect("not poisoned").push((key, number));
                Ok::<_, Failure>(())
            }
        });
    let profile = Profile::agent().with(|it| it.order = Order::ByKey);
    let (client, _server) = pair(&profile, Router::new(), router);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..100 {
        for key in ["a", "b", "c"] {
            calls.spawn(client.call::<()>("append", (key, number)));
        }
    }
    for done in calls.join_all().await {
        done.expect("an answer");
    }
    let log = log.lock().expect("not poisoned");
    for key in ["a", "b", "c"] {
        let numbers: Vec<_> = log.iter().filter(|(of, _)| of == key).map(|&(_, n)| n).collect();
        assert!(numbers.is_sorted() && numbers.len() == 100, "{key}: {numbers:?}");
    }
}

#[tokio::test]
async fn f5_all_framings_carry_the_same_dialogue() {
    for profile in [Profile::editor(), Profile::desktop(), Profile::agent()] {
        let (client, _server) = Link::Pipe(100).join(&profile, Router::new(), methods());
        let long = json!(["x".repeat(100_000)]);
        assert_eq!(client.call::<Value>("echo", &long).await.expect("the call is answered"), long);
        assert_eq!(client.call::<i64>("slow_add", (1, 2)).await.expect("the call is answered"), 3);
        client.close().await;
    }
}

/// A client whose server reads one line, writes this, and closes.
async fn client_of_one_that_says(words: &str) -> Peer {
    let words = words.to_owned();
    let (here, there) = tokio::io::duplex(64 * 1024);
    tokio::spawn(async move {
        let mut there = tokio::io::BufReader::new(there);
        there.read_line(&mut String::new()).await.expect("the stream can be read");
        there.write_all(words.as_bytes()).await.expect("the stream can be written");
    });
    Peer::builder(Stream::from_io(here)).profile(Profile::agent()).router(Router::new()).spawn()
}

#[tokio::test]
async fn f20_an_answer_on_a_last_line_without_its_end_is_taken() {
    let client = client_of_one_that_says(r#"{"jsonrpc":"2.0","id":1,"result":3}"#).await;
    assert_eq!(client.call::<i64>("add", (1, 2)).await.expect("the call is answered"), 3);
}

#[tokio::test]
async fn m5_an_error_without_an_id_is_reported_as_uncorrelated() {
    let complaint = concat!(
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"too long"}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"another"}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":1,"result":3}"#,
    );
    let client = client_of_one_that_says(complaint).await;
    // The error does not name a message, so calls continue.
    assert_eq!(client.call::<i64>("add", (1, 2)).await.expect("the call is answered"), 3);
    let error = client.next_uncorrelated_error().await;
    assert_eq!((error.code, &*error.message), (-32600, "too long"));
    assert_eq!(client.stats().unmatched_answers, 2);
}

#[tokio::test]
async fn m7_m8_unusable_answer_is_reported_while_its_call_is_pending() {
    use UnusableAnswer::{Empty, Malformed};
    #[rustfmt::skip]
    let rows = [
        (r#"{"jsonrpc":"2.0","id":1,"result":1,"error":null}"#, Some(Malformed(InvalidResponseReason::ResultAndError))),
        (r#"{"jsonrpc":"2.0","id":1,"result":1,"result":1}"#, Some(Malformed(InvalidResponseReason::MemberTwice))),
        (r#"{"id":1,"result":1}"#, Some(Malformed(InvalidResponseReason::BadVersion))),
        (r#"{"jsonrpc":"2.0","result":1}"#, Some(Malformed(InvalidResponseReason::BadId))),
        (r#"{"jsonrpc":"2.0","id":1}"#, Some(Empty)),
        (r#"[{"jsonrpc":"2.0","id":1}]"#, Some(Empty)),
        ("{\"id\":1,\"result\":1}\n{\"jsonrpc\":\"2.0\",\"id\":1}", Some(Malformed(InvalidResponseReason::BadVersion))),
        // An answer to another call, a request of the remote, and a message that is not an answer.
        (r#"{"id":2,"result":1}"#, None),
        (r#"{"jsonrpc":"2.0","id":2}"#, None),
        (r#"{"jsonrpc":"2.0","id":1,"method":1}"#, None),
        ("stray output", None),
    ];
    for (text, expect) in rows {
        let client = client_of_one_that_says(text).await;
        client.call::<i64>("add", (1, 2)).await.expect_err("the call fails");
        let told = tokio::select! {
            biased;
            told = client.unusable_answer() => Some(told),
            () = async {} => None,
        };
        assert_eq!(told, expect, "{text}");
    }
}

#[tokio::test]
async fn f21_message_over_the_limit_is_reported_as_an_unusable_answer() {
    let limit = Profile::agent().limits.message_bytes;
    let client = client_of_one_that_says(&"x".repeat(limit + 1)).await;
    client.call::<i64>("add", (1, 2)).await.expect_err("the call fails");
    assert_eq!(client.unusable_answer().await, UnusableAnswer::Oversize(limit));
}

#[tokio::test]
async fn params_that_are_neither_array_nor_object_are_not_sent() {
    let (client, _server) = client_of(methods());
    let call = client.call::<Value>("echo", "text").await.map(drop);
    for sent in [call, client.notify("echo", 7).await] {
        assert_eq!(sent.expect_err("not sendable").kind(), ErrorKind::Params);
    }
    assert_eq!(Id::from(1), Id::from(1));
}
