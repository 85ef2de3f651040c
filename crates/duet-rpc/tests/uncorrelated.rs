//! Error responses with `id: null`: one call fails, the others continue (M5, P2).

mod links;
#[path = "support/remote.rs"]
mod remote;

use std::error::Error as _;
use std::time::Duration;

use duet_rpc::transport::Stream;
use duet_rpc::{Error, ErrorKind, Failure, Peer, Profile, Router};
use links::until;
use remote::serve;
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// A client, and its server with a message limit of 1,000 bytes.
fn client_of_narrow(profile: &Profile) -> (Peer, Peer) {
    let (here, there) = tokio::io::duplex(64 * 1024);
    let narrow = profile.with(|it| it.limits.message_bytes = 1000);
    let router = Router::new()
        .method("length", async |(text,): (String,)| Ok::<_, Failure>(text.len()))
        .method("never", async |_: Value| -> Result<(), Failure> { std::future::pending().await });
    let client =
        Peer::builder(Stream::from_io(here)).profile(*profile).router(Router::new()).spawn();
    (client, Peer::builder(Stream::from_io(there)).profile(narrow).router(router).spawn())
}

/// Begins a call; the receiver gets its outcome.
fn begin(
    client: &Peer,
    method: &'static str,
    bytes: usize,
) -> oneshot::Receiver<Result<Value, Error>> {
    let (tell, told) = oneshot::channel();
    let client = client.clone();
    tokio::spawn(async move {
        let _ = tell.send(client.call(method, ["x".repeat(bytes)]).await);
    });
    told
}

/// Checks that a call timed out. Returns the cause of the timeout: a message that could have been the answer.
async fn timed_out(told: oneshot::Receiver<Result<Value, Error>>) -> Option<String> {
    let error = told.await.expect("the call ends").expect_err("nobody answers");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    error.source().map(ToString::to_string)
}

#[tokio::test(start_paused = true)]
async fn m5_call_over_the_remotes_limit_fails_immediately_and_others_continue() {
    for profile in [Profile::editor(), Profile::desktop(), Profile::agent()] {
        let profile = profile.max_in_flight(8);
        let (client, server) = client_of_narrow(&profile);
        let mut small = begin(&client, "never", 900);
        until(|| server.stats().running == 1).await;
        let begun = tokio::time::Instant::now();
        let error = client.call::<usize>("length", ["x".repeat(2000)]).await.expect_err("too long");
        assert_eq!(begun.elapsed(), Duration::ZERO, "the call fails without a timeout");
        assert_eq!(error.kind(), ErrorKind::Remote);
        let remote = error.remote().expect("its answer");
        assert_eq!(remote.data.as_ref().map(|data| data.get()), Some(r#"{"reason":"oversize"}"#));
        assert_eq!(error.id().map(ToString::to_string).as_deref(), Some("2"));
        // Later calls work. Each call that is too large fails, even if it is repeated.
        assert_eq!(client.call::<usize>("length", ["x"]).await.expect("the call is answered"), 1);
        for bytes in [3000, 2000, 2000, 1500] {
            let error = client.call::<usize>("length", ["x".repeat(bytes)]).await;
            assert_eq!(error.expect_err("too long").kind(), ErrorKind::Remote);
        }
        for call in [1500, 3000, 2000].map(|bytes| begin(&client, "length", bytes)) {
            let error = call.await.expect("the call ends").expect_err("too long");
            assert_eq!(error.kind(), ErrorKind::Remote);
        }
        assert_eq!(begun.elapsed(), Duration::ZERO, "the call fails without a timeout");
        assert!(small.try_recv().is_err(), "a call that was not refused continues");
        assert_eq!(client.stats().pending_calls, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn m5_refusal_of_a_larger_notification_does_not_fail_a_call() {
    let (client, server) = client_of_narrow(&Profile::agent());
    let mut call = begin(&client, "never", 900);
    until(|| server.stats().running == 1).await;
    // The notification is refused; the call before it was the largest until then.
    client.notify("length", ["x".repeat(2000)]).await.expect("the notification is sent");
    let refusal = client.next_uncorrelated_error().await;
    assert_eq!(refusal.code, -32600);
    assert_eq!(client.call::<usize>("length", ["x"]).await.expect("the call is answered"), 1);
    assert!(call.try_recv().is_err(), "the call continues");
    assert_eq!(client.stats().pending_calls, 1);
}

#[tokio::test(start_paused = true)]
async fn p2_a_timeout_names_the_refusal_that_came_while_the_call_was_pending() {
    let error = json!({"code": -32700, "message": "no JSON"});
    let refusal = json!({"jsonrpc": "2.0", "id": null, "error": error}).to_string();
    let (client, mut remote) = serve(&Profile::agent(), Router::new());
    let told = begin(&client, "a", 1);
    remote.next().await;
    remote.send(&refusal).await;
    let text = "the remote refused a message without saying which: no JSON (-32700)";
    assert_eq!(timed_out(told).await.as_deref(), Some(text));
    // The refusal does not affect the next call.
    assert_eq!(timed_out(begin(&client, "b", 1)).await, None);
}

#[tokio::test(start_paused = true)]
async fn p2_a_timeout_names_an_answer_that_came_and_could_not_be_used() {
    let large = json!({"jsonrpc": "2.0", "id": 1, "result": "x".repeat(2000)}).to_string();
    for (answer, text) in [
        (&*large, "a message is over the limit of 1000 bytes"),
        (r#"{"jsonrpc":"2.0","id":1}"#, "a response has neither a result nor an error"),
    ] {
        let profile = Profile::agent().with(|it| it.limits.message_bytes = 1000);
        let (client, mut remote) = serve(&profile, Router::new());
        let told = begin(&client, "a", 1);
        remote.next().await;
        remote.send(answer).await;
        assert_eq!(timed_out(told).await.as_deref(), Some(text));
        assert_eq!(timed_out(begin(&client, "b", 1)).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn p2_timeout_after_an_answer_in_another_framing_names_the_framing_as_a_possible_cause() {
    let framings = [Profile::editor(), Profile::desktop(), Profile::agent()];
    for (ours, theirs) in framings.iter().flat_map(|ours| framings.map(|theirs| (*ours, theirs))) {
        if ours.framing == theirs.framing {
            continue;
        }
        let (here, there) = tokio::io::duplex(64 * 1024);
        let client = Peer::builder(Stream::from_io(here)).profile(ours).spawn();
        let server = Peer::builder(Stream::from_io(there)).profile(theirs).spawn();
        let told = begin(&client, "add", 1);
        // The framing `length` waits for bytes that never come, so the server speaks too.
        until(|| client.stats().pending_calls == 1).await;
        server.notify("hello", ()).await.expect("the client reads");
        let cause = timed_out(told).await;
        assert!(cause.is_some_and(|cause| cause.contains("same framing")), "{ours:?} {theirs:?}");
    }
}
