//! Hostile remotes, careless applications and unusual settings must not break a connection.

mod links;
#[path = "support/log.rs"]
mod log;
#[path = "support/remote.rs"]
mod remote;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker, ready};
use std::time::Duration;

use duet_rpc::proto::Limits;
use duet_rpc::proto::frame::FramingChoice;
use duet_rpc::proto::policy::Order;
use duet_rpc::transport::{Inbox, Outbox, Stream, TransportKind};
use duet_rpc::{
    CloseReason, Context, ErrorKind, Failure, Peer, Priority, Profile, RemoteError, Router,
};
use log::Log;
use remote::{Remote, serve};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, DuplexStream, ReadBuf};
use tracing::Level;

fn request(method: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": method}).to_string()
}

fn ping() -> Router {
    Router::new().method("ping", async || Ok::<_, Failure>("pong"))
}

#[tokio::test]
async fn p4_a_limit_of_zero_does_not_stop_a_connection() {
    let base = Limits::default();
    for limits in [
        base.with(|it| it.pending_calls = 0),
        base.with(|it| it.waiting = 0),
        base.with(|it| it.waiting_bytes = 0),
        base.with(|it| it.outgoing_bytes = 0),
    ] {
        for order in [Order::Sequential, Order::Barrier, Order::Concurrent, Order::ByKey] {
            let profile = Profile::agent().with(|it| {
                it.limits = limits;
                it.order = order;
            });
            let (_peer, mut remote) = serve(&profile, ping());
            assert_eq!(remote.ask(&request("ping")).await["result"], "pong", "{limits:?}");
        }
    }
}

#[tokio::test]
async fn f5_with_auto_the_first_answer_has_the_framing_of_the_first_message() {
    let profile = Profile::agent().with(|it| it.framing = FramingChoice::Auto);
    let (_peer, mut remote) = serve(&profile, ping());
    assert_eq!(remote.ask(&request("ping")).await["result"], "pong");
    let (_peer, mut remote) = serve(&profile, ping());
    assert_eq!(remote.ask("{oops").await["error"]["code"], -32700);
}

struct BombResult;
impl Serialize for BombResult {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str("fine")
    }
}
impl Drop for BombResult {
    fn drop(&mut self) {
        panic!("CANARY in the drop of a result");
    }
}

struct BadShow;
impl fmt::Debug for BadShow {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("CANARY in Debug")
    }
}
impl fmt::Display for BadShow {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("CANARY in Display")
    }
}
impl std::error::Error for BadShow {}

#[derive(Debug)]
struct BadDrop;
impl fmt::Display for BadDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fine")
    }
}
impl std::error::Error for BadDrop {}
impl Drop for BadDrop {
    fn drop(&mut self) {
        panic!("CANARY in the drop of an error");
    }
}

struct BadSerialize;
impl Serialize for BadSerialize {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("CANARY in Serialize")
    }
}

#[derive(Serialize)]
struct HalfWay(u32, BadSerialize);

#[derive(Deserialize)]
struct Reads(#[allow(dead_code)] PanicRead);
struct PanicRead;
impl<'de> Deserialize<'de> for PanicRead {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("CANARY in Deserialize")
    }
}
struct DropFuture;
impl Drop for DropFuture {
    fn drop(&mut self) {
        panic!("CANARY in the drop of a future");
    }
}

/// Adds two methods with this outcome: one is ready immediately, the other waits first.
fn now_and_late<T: Serialize + Send + 'static>(
    router: Router,
    name: &str,
    end: fn() -> Result<T, Failure>,
) -> Router {
    let late = move || async move {
        tokio::task::yield_now().await;
        end()
    };
    router.method(name, move || async move { end() }).method(&format!("late_{name}"), late)
}

fn bombs() -> Router {
    let router = now_and_late(ping(), "drop_result", || Ok(BombResult));
    let router = now_and_late(router, "show", || Err::<(), _>(Failure::internal(BadShow)));
    let router = now_and_late(router, "drop_error", || Err::<(), _>(Failure::internal(BadDrop)));
    let router = now_and_late(router, "serialize", || Ok(HalfWay(7, BadSerialize)));
    let router = now_and_late(router, "serialize_and_drop", || Ok((BadSerialize, BombResult)));
    let router = now_and_late(router, "keys", || Ok(HashMap::from([((1, 2), 3)])));
    router
        .method("read", async |_: Reads| Ok::<_, Failure>(()))
        .method("drop_future", async || {
            let _held = DropFuture;
            Ok::<_, Failure>(())
        })
        .method("late_drop_future", async || {
            let _held = DropFuture;
            tokio::task::yield_now().await;
            Ok::<_, Failure>(())
        })
}

#[tokio::test]
async fn e2_whatever_panics_the_next_request_works() {
    let log = Log::up_to(Level::TRACE);
    let _guard = tracing::subscriber::set_default(log.clone());
    for order in [Order::Sequential, Order::Barrier] {
        let bombs = bombs();
        let names: Vec<_> = bombs.methods().filter(|&name| name != "ping").collect();
        assert_eq!(names.len(), 15);
        for bomb in names {
            let profile = Profile::agent().with(|it| it.order = order);
            let (_peer, mut remote) = serve(&profile, bombs.clone());
            let answer = remote.ask(&request(bomb)).await;
            assert_eq!(answer["id"], 1, "{bomb}");
            remote.send(&json!({"jsonrpc": "2.0", "method": bomb}).to_string()).await;
            assert_eq!(remote.ask(&request("ping")).await["result"], "pong", "{bomb}");
        }
    }
    let log = log.text();
    assert!(!log.contains("CANARY"), "{log}");
}

#[tokio::test]
async fn g6_log_contains_no_message_contents() {
    let log = Log::up_to(Level::TRACE);
    let _guard = tracing::subscriber::set_default(log.clone());
    #[derive(Deserialize)]
    struct Inner {
        #[allow(dead_code)]
        number: u32,
    }
    let router = ping()
        .method("parse", async |value: Value| {
            let _: Inner = serde_json::from_value(value)?;
            Ok::<_, Failure>(())
        })
        .method("ask", async |cx: Context| cx.peer().call::<Value>("x", ()).await.map(|_| ()))
        // A result of another type than the caller expects.
        .method("misread", async |cx: Context| cx.peer().call::<Ready>("x", ()).await.map(|_| ()))
        .method("open", async |(_at,): (Strict,)| Ok::<_, Failure>(()))
        .method("pass", async |cx: Context| {
            let error = cx.peer().call::<Value>("x", ()).await.expect_err("an error");
            Err::<(), RemoteError>(error.remote().cloned().expect("remote"))
        });
    let (_peer, mut remote) = serve(&Profile::agent(), router);
    let id = "I".repeat(5000);
    let params = json!({"number": "CANARY"});
    let parse = json!({"jsonrpc": "2.0", "id": id, "method": "parse", "params": params});
    assert_eq!(remote.ask(&parse.to_string()).await["error"]["code"], -32603);
    for method in ["ask", "pass"] {
        let call = remote.ask(&request(method)).await;
        let error = json!({"jsonrpc": "2.0", "id": call["id"], "error": {"code": 1, "message": "CANARY\nforged", "data": "CANARY"}});
        let answer = remote.ask(&error.to_string()).await;
        assert_eq!(answer["id"], 1);
    }
    for result in [json!({"is": "CANARY"}), json!({"CANARY": 1}), json!({"is": {"CANARY": 1}})] {
        let call = remote.ask(&request("misread")).await;
        let result = json!({"jsonrpc": "2.0", "id": call["id"], "result": result});
        assert_eq!(remote.ask(&result.to_string()).await["error"]["code"], -32603);
    }
    let open = json!({"jsonrpc": "2.0", "id": 1, "method": "open", "params": ["CANARY"]});
    assert_eq!(remote.ask(&open.to_string()).await["error"]["code"], -32602);
    let log = log.text();
    assert!(log.contains("error code 1"), "{log}");
    assert!(log.contains("result.is: expected one of the accepted values"), "{log}");
    assert!(!log.contains(&"I".repeat(65)), "ids are cut");
    assert!(!log.contains("CANARY"), "{log}");
}

/// A type whose `Deserialize` quotes its input.
struct Strict;

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Err(serde::de::Error::custom(format_args!("{text} is not a date")))
    }
}

#[derive(Deserialize)]
struct Ready {
    #[allow(dead_code)]
    is: Is,
}

#[derive(Deserialize)]
enum Is {
    Yes,
    No,
}

#[tokio::test]
async fn g6_serde_message_of_the_application_is_logged_only_with_log_details() {
    for log_details in [false, true] {
        let log = Log::up_to(Level::TRACE);
        let _guard = tracing::subscriber::set_default(log.clone());
        let router = Router::new().method("open", async |(_at,): (Strict,)| Ok::<_, Failure>(()));
        let mut profile = Profile::agent();
        profile.log_details = log_details;
        let (_peer, mut remote) = serve(&profile, router);
        let open = json!({"jsonrpc": "2.0", "id": 1, "method": "open", "params": ["yesterday"]});
        let answer = remote.ask(&open.to_string()).await;
        let data = json!({"param": "[0]", "expected": "a valid value", "received": "string"});
        assert_eq!(answer["error"]["data"], data);
        let log = log.text();
        assert_eq!(log.contains("yesterday is not a date"), log_details, "{log}");
    }
}

#[tokio::test]
async fn e1_error_answer_does_not_quote_member_names() {
    #[derive(Deserialize)]
    struct Flat {
        #[allow(dead_code)]
        known: Option<u32>,
        #[serde(flatten)]
        #[allow(dead_code)]
        rest: HashMap<String, Value>,
    }
    let router = ping().method("flat", async |_: Flat| Ok::<_, Failure>(()));
    let (_peer, mut remote) = serve(&Profile::agent(), router);
    for value in ["1e999", r#""\ud800""#, r#"{"CANARY":1e999}"#, r#"[1e999]"#] {
        let text =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"flat","params":{{"CANARY":{value}}}}}"#);
        let answer = remote.ask(&text).await;
        assert!(!answer.to_string().contains("CANARY"), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn f6_frame_cut_off_by_the_end_of_input_does_not_time_out() {
    let profile = Profile::agent().with(|it| {
        it.read_timeout = Some(Duration::from_millis(100));
        it.drain_timeout = Duration::from_secs(60);
    });
    let router = Router::new().method("slow", async || {
        tokio::time::sleep(Duration::from_secs(10)).await;
        Ok::<_, Failure>("done")
    });
    let (_peer, mut remote) = serve(&profile, router);
    remote.send(&request("slow")).await;
    remote.0.get_mut().write_all(b"{\"half\":").await.expect("open");
    tokio::time::sleep(Duration::from_millis(10)).await;
    remote.0.get_mut().shutdown().await.expect("open");
    assert_eq!(remote.next().await["error"]["code"], -32700);
    let answer = tokio::time::timeout(Duration::from_secs(30), remote.next()).await;
    assert_eq!(answer.expect("answered")["result"], "done");
}

#[test]
fn p2_a_call_from_outside_of_a_runtime_waits_for_room_and_times_out() {
    let (here, _there) = tokio::io::duplex(1);
    let profile = Profile::agent().with(|it| it.limits.outgoing_bytes = 1);
    let (peer, driver) =
        Peer::builder(Stream::from_io(here)).profile(profile).router(Router::new()).build();
    let mut cx = TaskContext::from_waker(Waker::noop());
    let mut calls: Vec<_> = (0..3)
        .map(|_| Box::pin(peer.call::<()>("x", ()).timeout(Duration::from_secs(1))))
        .collect();
    // The first call is posted, the second waits, and there is no clock yet.
    for call in &mut calls[..2] {
        assert!(call.as_mut().poll(&mut cx).is_pending());
    }
    let runtime = links::stopped_clock();
    runtime.spawn(driver);
    runtime.block_on(async { tokio::task::yield_now().await });
    // Now there is a clock, and the third call uses it.
    assert!(calls[2].as_mut().poll(&mut cx).is_pending());
    runtime.block_on(async { tokio::time::sleep(Duration::from_secs(2)).await });
    let Poll::Ready(Err(error)) = calls[2].as_mut().poll(&mut cx) else {
        panic!("its time is over");
    };
    assert_eq!(error.kind(), ErrorKind::Timeout);
}

#[tokio::test(start_paused = true)]
async fn l4_buffered_output_is_flushed_before_the_connection_closes() {
    // A writer with a buffer of its own, and a remote that reads late.
    let (here, there) = tokio::io::duplex(1024);
    let (reader, writer) = tokio::io::split(here);
    let writer = tokio::io::BufWriter::with_capacity(1 << 20, writer);
    let router = Router::new().method("big", async || Ok::<_, Failure>("x".repeat(100_000)));
    let peer =
        Peer::builder(Stream::new(reader, writer)).profile(Profile::agent()).router(router).spawn();
    let mut remote = Remote(BufReader::new(there));
    remote.send(&request("big")).await;
    remote.0.fill_buf().await.expect("the connection is open");
    let closing = peer.close();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(remote.next().await["result"].as_str().map(str::len), Some(100_000));
    assert_eq!(closing.await.reason(), CloseReason::Closed);
}

#[tokio::test]
async fn p9_event_stream_that_is_never_empty_does_not_starve_another() {
    let (here, there) = tokio::io::duplex(64);
    let profile = Profile::agent().with(|it| it.limits.outgoing_bytes = 64);
    let peer = Peer::builder(Stream::from_io(here)).profile(profile).router(Router::new()).spawn();
    let mut remote = Remote(BufReader::with_capacity(64, there));
    let (loud, quiet) = (peer.events("event", "loud"), peer.events("event", "quiet"));
    for _ in 0..100 {
        loud.send(Priority::Low, &0).expect("the data is JSON");
    }
    quiet.send(Priority::Low, &0).expect("the data is JSON");
    for _ in 0..200 {
        if remote.next().await["params"]["topic"] == "quiet" {
            return;
        }
        loud.send(Priority::Low, &0).expect("the data is JSON");
    }
    panic!("one stream starves");
}

#[test]
fn g6_debug_output_of_inbox_and_outbox_hides_messages() {
    let mut inbox = Inbox::new(TransportKind::Messages, &Profile::agent());
    inbox.push(&[234; 3]).expect("the inbox takes messages");
    assert!(!format!("{inbox:?} {:?}", Outbox::new(None)).contains("234"), "{inbox:?}");
}

#[tokio::test]
async fn g6_panic_in_the_drop_of_a_cancelled_handler_prints_nothing() {
    let said = Arc::new(Mutex::new(String::new()));
    let hears = Arc::clone(&said);
    std::panic::set_hook(Box::new(move |panic| {
        hears.lock().unwrap_or_else(PoisonError::into_inner).push_str(&panic.to_string());
        eprintln!("{panic}");
    }));
    duet_rpc::panic_guard::silence_hook();
    let router = ping().method("never", async || -> Result<(), Failure> {
        let _held = DropFuture;
        std::future::pending().await
    });
    let (peer, mut remote) = serve(&Profile::agent(), router);
    remote.send(&request("never")).await;
    links::until(|| peer.stats().running > 0).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}});
    assert_eq!(remote.ask(&cancel.to_string()).await["error"]["code"], -32800);
    links::until(|| peer.stats().running == 0).await;
    assert_eq!(remote.ask(&request("ping")).await["result"], "pong");
    let said = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(!said.contains("CANARY in the drop of a future"), "{said}");
}

/// A transport that fails.
struct Breaks(DuplexStream);

impl AsyncRead for Breaks {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.0).poll_read(cx, buffer))?;
        let is_end = buffer.filled().len() == before;
        Poll::Ready(if is_end { Err(io::Error::other("the cable is cut")) } else { Ok(()) })
    }
}

#[tokio::test]
async fn e3_pending_call_fails_with_the_read_error() {
    let ((input, remote_output), (output, remote_input)) =
        (tokio::io::duplex(1024), tokio::io::duplex(1024));
    let stream = Stream::new(Breaks(input), output);
    let peer = Peer::builder(stream).profile(Profile::agent()).router(Router::new()).spawn();
    let mut remote = Remote(BufReader::new(remote_input));
    let call = tokio::spawn(peer.call::<()>("x", ()));
    assert_eq!(remote.next().await["method"], "x");
    drop(remote_output);
    let error = call.await.expect("nothing panics").expect_err("there is no answer");
    assert_eq!(error.kind(), ErrorKind::Disconnected);
    assert!(format!("{error:#}").ends_with("the cable is cut"), "{error:#}");
}
