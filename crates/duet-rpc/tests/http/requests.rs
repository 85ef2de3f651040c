//! HTTP is stateless: values that handlers keep with a peer belong to one request, even if others use the
//! connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use duet_rpc::{Context, Failure, Peer, Profile, Router};
use tokio::sync::{Notify, mpsc};

use crate::support::{Client, PATIENCE, access, post, request, result, serve_with};

#[derive(Default)]
struct Login(AtomicBool);

/// A router that knows of a login while the value is kept.
fn router() -> Router {
    Router::new()
        .method("login", async |cx: Context| {
            cx.peer().extension::<Login>().0.store(true, Ordering::SeqCst);
            Ok::<_, Failure>("welcome")
        })
        .method("late_login", async |cx: Context| {
            tokio::task::yield_now().await;
            cx.peer().extension::<Login>().0.store(true, Ordering::SeqCst);
            tokio::task::yield_now().await;
            Ok::<_, Failure>("welcome")
        })
        .method("is_known", async |cx: Context| {
            Ok::<_, Failure>(cx.peer().extension::<Login>().0.load(Ordering::SeqCst))
        })
}

/// Each body with its answer; an empty answer is 202.
type Rows = Vec<(String, String)>;

fn rows() -> Rows {
    let both = |first: String, second: String| format!("[{first},{second}]");
    let welcome = r#""welcome""#;
    let login = r#"{"jsonrpc":"2.0","method":"login"}"#;
    vec![
        (request(1, "login"), result(1, welcome)),
        (request(2, "is_known"), result(2, "false")),
        (request(3, "late_login"), result(3, welcome)),
        (request(4, "is_known"), result(4, "false")),
        (login.to_owned(), String::new()),
        (request(5, "is_known"), result(5, "false")),
        // The messages of one body come from one sender.
        (
            both(request(6, "login"), request(7, "is_known")),
            both(result(6, welcome), result(7, "true")),
        ),
        (both(login.to_owned(), request(8, "is_known")), format!("[{}]", result(8, "true"))),
        (request(9, "is_known"), result(9, "false")),
    ]
}

#[tokio::test]
async fn t3_two_callers_on_one_kept_http_connection_share_no_values() {
    let address = serve_with(Profile::agent(), access(), router()).await;
    let mut client = Client::to(address).await;
    for (body, answer) in rows() {
        assert_eq!(client.ask(post(&body)).await.body, answer, "{body}");
    }
}

#[tokio::test]
async fn t3_pipelined_http_requests_share_no_values() {
    for profile in [Profile::agent(), Profile::desktop()] {
        let address = serve_with(profile, access(), router()).await;
        let mut client = Client::to(address).await;
        let all: String = rows().iter().map(|(body, _)| post(body)).collect();
        client.send(all).await;
        for (body, answer) in rows() {
            assert_eq!(client.response().await.body, answer, "{body}");
        }
    }
}

/// A value that holds a handle of its own request, and reports when it is dropped.
#[derive(Default)]
struct Kept(Mutex<Option<mpsc::UnboundedSender<&'static str>>>, OnceLock<Peer>);

impl Drop for Kept {
    fn drop(&mut self) {
        if let Ok(Some(tell)) = self.0.get_mut().map(|it| it.take()) {
            let _ = tell.send("dropped");
        }
    }
}

async fn next<T>(events: &mut mpsc::UnboundedReceiver<T>) -> Option<T> {
    tokio::time::timeout(PATIENCE, events.recv()).await.expect("it hangs")
}

#[tokio::test]
async fn t3_a_task_that_outlives_its_http_request_neither_sees_nor_changes_the_next() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let go = Arc::new(Notify::new());
    let goes = Arc::clone(&go);
    let router = router().method("linger", move |cx: Context| {
        let (tell, goes) = (tell.clone(), Arc::clone(&goes));
        async move {
            let kept = cx.peer().extension::<Kept>();
            let _ = kept.1.set(cx.peer().clone());
            if let Ok(mut place) = kept.0.lock() {
                *place = Some(tell.clone());
            }
            tokio::spawn(async move {
                goes.notified().await;
                let is_known = cx.peer().extension::<Login>().0.swap(true, Ordering::SeqCst);
                let _ = tell.send(if is_known { "known" } else { "unknown" });
                goes.notify_one();
            });
            Ok::<_, Failure>("linger")
        }
    });
    let slow = Arc::new(Notify::new());
    let (begun, mut has_begun) = mpsc::unbounded_channel();
    let waits = Arc::clone(&slow);
    let router = router.method("slow_login", move |cx: Context| {
        let (waits, begun) = (Arc::clone(&waits), begun.clone());
        async move {
            let login = cx.peer().extension::<Login>();
            let _ = begun.send(());
            waits.notified().await;
            Ok::<_, Failure>(login.0.load(Ordering::SeqCst))
        }
    });
    let address = serve_with(Profile::agent(), access(), router).await;
    let mut client = Client::to(address).await;
    assert_eq!(client.ask(post(&request(1, "linger"))).await.body, result(1, r#""linger""#));
    assert_eq!(next(&mut told).await, Some("dropped"), "an extension is dropped with its request");
    client.send(post(&request(2, "slow_login"))).await;
    next(&mut has_begun).await.expect("it runs");
    go.notify_one();
    assert_eq!(next(&mut told).await, Some("unknown"));
    go.notified().await;
    slow.notify_one();
    assert_eq!(client.response().await.body, result(2, "false"));
}
