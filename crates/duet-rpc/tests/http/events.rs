//! Answers as streams of events, and cancellations that come in another request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duet_rpc::http::{HttpBody, HttpService, service};
use duet_rpc::{Context, Error, Failure, Priority, Profile, Remote, Router};
use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::mounted::{post, send, text};
use crate::support::{PATIENCE, call, methods, request, result};

const BOTH: &str = "application/json, text/event-stream";

fn with(mut request: Request<String>, name: &'static str, value: &str) -> Request<String> {
    request.headers_mut().insert(name, value.parse().expect("a value"));
    request
}

/// A POST of a client that takes events.
fn streaming(body: &str) -> Request<String> {
    with(post(body), "accept", BOTH)
}

/// A handler that reports its progress, one that hangs behind it, and one that calls back.
fn router() -> (Router, mpsc::UnboundedReceiver<&'static str>) {
    struct Dropped(mpsc::UnboundedSender<&'static str>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send("dropped");
        }
    }
    let (tell, told) = mpsc::unbounded_channel();
    let router = methods()
        .method("work", async |cx: Context| {
            for step in 1..=2 {
                cx.peer().notify("notifications/progress", [step]).await?;
                tokio::task::yield_now().await;
            }
            Ok::<_, Error>("done")
        })
        .method("events", async |cx: Context| {
            let news = cx.peer().events("news", "topic");
            news.send(Priority::High, &"late\nnews")?;
            tokio::task::yield_now().await;
            Ok::<_, Error>("sent")
        })
        .method("ask", async |cx: Context| {
            cx.peer()
                .call::<()>("x", ())
                .await
                .map_err(|error| Failure::new(1, format!("{:?}", error.kind())))
        })
        .method("hang", move |cx: Context| {
            let guard = Dropped(tell.clone());
            async move {
                let _guard = guard;
                let _ = cx.peer().notify("begun", ()).await;
                std::future::pending::<Result<(), Failure>>().await
            }
        });
    (router, told)
}

/// The next piece of a body; `None` at its end.
async fn next(body: &mut HttpBody) -> Option<String> {
    let frame = tokio::time::timeout(PATIENCE, body.frame()).await.expect("it hangs")?;
    let Ok(frame) = frame;
    let bytes = frame.into_data().expect("no trailers");
    Some(String::from_utf8(bytes.to_vec()).expect("text"))
}

fn content_type(response: &Response<HttpBody>) -> &str {
    response.headers()["content-type"].to_str().expect("text")
}

fn notified(method: &str, params: &str) -> String {
    format!("data: {{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}\n\n")
}

#[tokio::test]
async fn t1_notifications_before_the_answer_make_a_stream_of_events() {
    let service = service(router().0);
    let response = send(&service, streaming(&request(1, "work"))).await;
    assert_eq!((response.status().as_u16(), content_type(&response)), (200, "text/event-stream"));
    assert_eq!(response.headers()["cache-control"], "no-cache");
    let progress = |step: &str| notified("notifications/progress", step);
    let answer = format!("data: {}\n\n", result(1, r#""done""#));
    assert_eq!(text(response).await, progress("[1]") + &progress("[2]") + &answer);

    // A line end in a message would end the event.
    let events = text(send(&service, streaming(&request(2, "events"))).await).await;
    assert!(events.starts_with("data: ") && events.matches('\n').count() == 4, "{events}");
    assert!(events.contains("\"method\":\"news\"") && events.contains("\"sent\""), "{events}");
}

#[tokio::test]
async fn t1_without_notifications_or_a_client_that_takes_events_the_answer_is_json() {
    let service = service(router().0);
    for (request, expected) in [
        (streaming(&call(1)), r#""result":2"#),
        (streaming(&format!("[{},{}]", call(1), call(2))), r#""result":3"#),
        (streaming("{"), "-32700"),
        (streaming(&request(1, "ask")), "OneWay"),
        (post(&request(1, "back")), r#""result":false"#),
        (with(post(&request(1, "back")), "accept", "*/*"), r#""result":false"#),
    ] {
        let response = send(&service, request).await;
        assert_eq!(content_type(&response), "application/json");
        let told = text(response).await;
        assert!(told.contains(expected), "{told}");
    }
    let notification = streaming(r#"{"jsonrpc":"2.0","method":"add","params":[1,2]}"#);
    assert_eq!(send(&service, notification).await.status(), 202);
    for method in ["GET", "DELETE"] {
        let mut request = streaming("");
        *request.method_mut() = method.parse().expect("a method");
        assert_eq!(send(&service, request).await.status(), 405, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn t1_a_comment_comes_every_15_seconds_and_a_dropped_stream_cancels() {
    let (router, mut told) = router();
    let service = service(router);
    let mut body = send(&service, streaming(&request(1, "hang"))).await.into_body();
    assert!(next(&mut body).await.expect("it has begun").contains("begun"));
    for _ in 0..3 {
        let since = Instant::now();
        assert_eq!(next(&mut body).await.as_deref(), Some(":\n\n"));
        assert_eq!(since.elapsed().as_secs(), 15);
    }
    assert!(told.try_recv().is_err());
    drop(body);
    assert_eq!(told.recv().await, Some("dropped"));
}

/// A client that stops reading makes the handler wait, as on any other connection: what waits is counted once.
#[tokio::test]
async fn p9_a_client_that_does_not_read_its_events_holds_up_their_handler() {
    const LIMIT: usize = 64 << 10;
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let router = methods().method("endless", move |cx: Context| {
        let count = Arc::clone(&count);
        async move {
            for number in 1..=20_000 {
                cx.peer().notify("event", [number]).await?;
                count.fetch_add(50, Ordering::Relaxed);
            }
            Ok::<_, Error>("done")
        }
    });
    let profile = Profile::agent().with(|it| it.limits.outgoing_bytes = LIMIT);
    let service = service(router).profile(profile);
    let mut body = send(&service, streaming(&request(1, "endless"))).await.into_body();
    let bytes = sent.load(Ordering::Relaxed);
    assert!(bytes < 3 * LIMIT, "{bytes} bytes were taken from the handler");
    for number in 1..=20_000 {
        let event = next(&mut body).await.expect("it goes on");
        assert_eq!(event, notified("event", &format!("[{number}]")));
    }
    assert!(next(&mut body).await.expect("the answer").contains("done"));
    assert_eq!(next(&mut body).await, None);
}

/// Sends a cancellation of the request with the id 1.
async fn cancel(
    service: &HttpService,
    (method, member): (&str, &str),
    set: impl FnOnce(Request<String>) -> Request<String>,
) {
    let body = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"{member}":1}}}}"#);
    assert_eq!(send(service, set(post(&body))).await.status(), 202);
}

/// A request of this address.
fn from(mut request: Request<String>, address: &str) -> Request<String> {
    let remote = Remote::new().with_addr(address.parse().expect("an address"));
    request.extensions_mut().insert(remote);
    request
}

#[tokio::test]
async fn p3_a_cancellation_in_another_request_finds_the_one_that_it_cancels() {
    for (profile, method, member, ending) in [
        (Profile::agent(), "$/cancelRequest", "id", Some("-32800")),
        (Profile::agent(), "notifications/cancelled", "requestId", Some("-32800")),
        (Profile::mcp(), "notifications/cancelled", "requestId", None),
    ] {
        let (router, mut told) = router();
        let service = service(router).profile(profile);
        let of = |session: &str| with(streaming(&request(1, "hang")), "mcp-session-id", session);
        let mut ours = send(&service, of("one")).await.into_body();
        let mut others = send(&service, of("two")).await.into_body();
        let nameless = || streaming(&request(1, "hang"));
        let mut known = send(&service, from(nameless(), "10.0.0.1:5")).await.into_body();
        let mut unknown = send(&service, nameless()).await.into_body();
        for body in [&mut ours, &mut others, &mut known, &mut unknown] {
            assert!(next(body).await.expect("it has begun").contains("begun"));
        }
        let cancels = (method, member);
        cancel(&service, cancels, |it| with(it, "mcp-session-id", "one")).await;
        match (next(&mut ours).await, ending) {
            (None, None) => {}
            (Some(event), Some(code)) => assert!(event.contains(code), "{event}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(told.recv().await, Some("dropped"));
        cancel(&service, cancels, |it| with(it, "mcp-session-id", "three")).await;
        cancel(&service, cancels, |it| from(it, "10.0.0.2:6")).await;
        // Whose request this is, nobody knows.
        cancel(&service, cancels, |it| it).await;
        for body in [&mut others, &mut known, &mut unknown] {
            let pending = tokio::time::timeout(Duration::from_millis(20), body.frame()).await;
            assert!(pending.is_err() && told.try_recv().is_err(), "that of another client goes on");
        }
        cancel(&service, cancels, |it| from(it, "10.0.0.1:7")).await;
        let _ = next(&mut known).await;
        assert_eq!(told.recv().await, Some("dropped"));
    }
}

#[tokio::test]
async fn p3_a_client_that_begins_with_initialize_gets_the_name_of_a_session() {
    let service = service(methods().method("initialize", || 1));
    let begin = request(1, "initialize");
    let mut names = Vec::new();
    for (asked, has_name) in [
        (streaming(&begin), true),
        (streaming(&begin), true),
        (with(streaming(&begin), "mcp-session-id", "mine"), false),
        (post(&begin), false),
        (streaming(&call(1)), false),
        (streaming("{"), false),
        (streaming(r#"{"jsonrpc":"2.0","method":"initialize"}"#), false),
    ] {
        let response = send(&service, asked).await;
        let name = response.headers().get("mcp-session-id").cloned();
        assert_eq!(name.is_some(), has_name, "{name:?}");
        assert_eq!(response.headers().contains_key("access-control-expose-headers"), has_name);
        names.extend(name);
    }
    assert_ne!(names[0], names[1]);
}

#[tokio::test]
async fn t1_messages_that_a_handler_sends_right_before_it_returns_come_before_the_answer() {
    let router = Router::new()
        .method("notify", async |cx: Context| cx.peer().notify("note", [1]).await)
        .method("events", async |cx: Context| {
            let events = cx.peer().events("note", "topic");
            (0..3).try_for_each(|number| events.send(Priority::High, &number))
        })
        .method("sync", |cx: Context| cx.peer().events("note", "topic").send(Priority::Low, &1));
    let service = service(router);
    for method in ["notify", "events", "sync"] {
        for id in 1..=20 {
            let told = text(send(&service, streaming(&request(id, method))).await).await;
            let (events, answer) = told.trim_end().rsplit_once("\n\n").expect("two events");
            assert!(events.contains("\"method\":\"note\""), "{method}: {told}");
            assert!(answer.contains("\"result\":null"), "{method}: {told}");
        }
    }
}

/// Nothing is to be answered, so the status is 202 even if a handler sends a notification.
#[tokio::test]
async fn t2_a_notification_whose_handler_notifies_gets_202() {
    let router = Router::new().method("tell", async |cx: Context| {
        let _ = cx.peer().notify("told", ()).await;
        Ok::<_, Failure>(())
    });
    let service = service(router);
    let told = r#"{"jsonrpc":"2.0","method":"tell"}"#;
    for (body, status) in [
        (told.to_owned(), 202),
        (format!("[{told},{told}]"), 202),
        (request(1, "tell"), 200),
        (format!("[{told},{}]", request(1, "tell")), 200),
    ] {
        let response = send(&service, streaming(&body)).await;
        assert_eq!(response.status(), status, "{body}");
        let is_stream =
            response.headers().get("content-type").is_some_and(|it| it == "text/event-stream");
        assert_eq!(is_stream, status == 200, "{body}");
    }
}
