//! The dialogues that run over each transport.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duet_rpc::proto::message::{Code, ErrorObject};
use duet_rpc::{CloseReason, Context, Error, ErrorKind, Failure, Peer, Router};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::links::join;

/// The value of a connection: the number of its handlers that were cancelled.
#[derive(Default)]
struct Cancelled(AtomicU64);

/// Counts when it is dropped before its end.
struct Guard(Arc<Cancelled>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

pub(super) fn server_router() -> Router {
    Router::new()
        .method("echo", async |raw: Box<RawValue>| Ok::<_, Failure>(raw))
        .method("late", async |(number,): (u64,)| {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok::<_, Failure>(number)
        })
        .method("big", async |(bytes,): (usize,)| Ok::<_, Failure>("x".repeat(bytes)))
        .method("fail", async |()| {
            let data = RawValue::from_string(r#"{"why":[1,null]}"#.to_owned()).ok();
            Err::<(), _>(ErrorObject::application(Code(-32042), "no ünit", data))
        })
        .method("panic", async || -> Result<(), Failure> { panic!("secret") })
        .method("never", async |cx: Context| -> Result<(), Failure> {
            let _guard = Guard(cx.peer().extension());
            std::future::pending().await
        })
        .method("cancelled", async |cx: Context| {
            Ok::<_, Failure>(cx.peer().extension::<Cancelled>().0.load(Ordering::Relaxed))
        })
        .method("call_back", async |(number,): (u64,), cx: Context| -> Result<u64, Error> {
            cx.peer().call("double", (number,)).await
        })
        .method("tell", async |(count,): (u64,), cx: Context| -> Result<u64, Error> {
            for number in 1..=count {
                cx.peer().notify("told", (number,)).await?;
            }
            Ok(count)
        })
}

/// Runs all dialogues over one transport.
pub(super) async fn speak(link: &str) {
    let told = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&told);
    let router = Router::new()
        .method("double", async |(number,): (u64,)| Ok::<_, Failure>(number * 2))
        .method("told", move |(number,): (u64,)| {
            sum.fetch_add(number, Ordering::Relaxed);
            async { Ok::<_, Failure>(()) }
        });
    let (client, server) = join(link, router).await;
    calls(&client, link).await;
    many(&client, link).await;
    let events = client.call::<u64>("tell", (100,)).await;
    assert_eq!(events.expect("the server sends events"), 100, "{link}");
    assert_eq!(told.load(Ordering::Relaxed), 5050, "{link}");
    let back = client.call::<u64>("call_back", (21,)).await;
    if link == "http" {
        // An HTTP response carries notifications, and no calls.
        let error = back.expect_err("the server cannot call the client");
        assert_eq!(error.kind(), ErrorKind::Remote, "{link}: {error:#}");
    } else {
        assert_eq!(back.expect("the server calls back"), 42, "{link}");
        cancellation(&client, link).await;
    }
    ends(client, link).await;
    server.stop().await;
}

async fn calls(client: &Peer, link: &str) {
    let values = [
        json!([]),
        json!({"": {"": [[[]]]}}),
        json!([null, true, 1.5, -7, "é 漢 😀 \u{2028} \0 \" \\"]),
        json!(["Content-Length: 5\r\n\r\n"]),
        json!(["y".repeat(200_000)]),
        json!((0..20_000).collect::<Vec<_>>()),
    ];
    for value in values {
        let answer: Value = client.call("echo", &value).await.expect("the call is answered");
        assert!(answer == value, "{link}: {} bytes came back changed", value.to_string().len());
    }
    for bytes in [0, 1, 65_536, 900_000] {
        let text: String = client.call("big", (bytes,)).await.expect("the call is answered");
        assert_eq!(text.len(), bytes, "{link}");
    }
    let error = client.call::<()>("fail", ()).await.expect_err("the call fails");
    let remote = error.remote().expect("an answer");
    assert_eq!((remote.code, &*remote.message), (-32042, "no ünit"), "{link}");
    for (method, code) in [("panic", -32603), ("nothing", -32601), ("late", -32602)] {
        let error = client.call::<()>(method, ()).await.expect_err("the call fails");
        assert_eq!(error.remote().map(|remote| remote.code), Some(code), "{link} {method}");
        assert!(error.is_recoverable(), "{link} {method}");
    }
    // A notification gets no answer, and the next call is answered.
    for method in ["echo", "nothing", "panic"] {
        client.notify(method, (1,)).await.expect("the notification is sent");
    }
    assert_eq!(client.call::<u64>("late", (7,)).await.expect("the call is answered"), 7, "{link}");
}

/// Many concurrent calls each get their own answer.
async fn many(client: &Peer, link: &str) {
    let calls = (0..500_u64).map(|number| {
        let client = client.clone();
        tokio::spawn(async move {
            let method = if number % 10 == 0 { "late" } else { "echo" };
            let value: Value = client.call(method, (number,)).await.expect("the call is answered");
            assert_eq!(if number % 10 == 0 { &value } else { &value[0] }, &json!(number));
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap_or_else(|error| panic!("{link}: {error}"));
    }
}

/// A dropped call is cancelled on the other side, and so is a call that timed out.
async fn cancellation(client: &Peer, link: &str) {
    let call = client.call::<()>("never", ()).timeout(Duration::from_millis(30));
    let error = call.await.expect_err("nobody answers");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{link}");
    let call = client.call::<()>("never", ()).no_timeout();
    let task = tokio::spawn(call);
    assert_eq!(client.call::<u64>("late", (1,)).await.expect("the call is answered"), 1);
    task.abort();
    while client.call::<u64>("cancelled", ()).await.expect("the call is answered") < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The statistics may be slightly out of date.
    while client.stats().pending_calls > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// After the end every operation fails immediately.
async fn ends(client: Peer, link: &str) {
    let end = client.close().await;
    assert_eq!(end.reason(), CloseReason::Closed, "{link}");
    let error = client.call::<()>("echo", ()).no_timeout().await.expect_err("it is closed");
    assert_eq!(error.kind(), ErrorKind::Disconnected, "{link}");
    assert!(!error.is_recoverable() && client.state().is_disconnected(), "{link}");
}
