//! Situations in which other libraries hang, or earlier versions of this one did (invariant 13 in
//! ARCHITECTURE.md, L8, P4).
//!
//! These tests do not measure time. The only clock detects a hang.

mod links;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{self, Poll};
use std::time::Duration;

use duet_rpc::proto::policy::Order;
use duet_rpc::transport::{
    ExitReport, Inbox, Outbox, Received, Stream, Transport, TransportKind, memory,
};
use duet_rpc::{CloseReason, Context, Error, ErrorKind, Failure, Peer, Profile, Router};
use links::{HANGS, Link, everywhere, gated, is_quiet, on_both_runtimes, until};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

const MEGABYTE: usize = 1024 * 1024;

fn methods() -> Router {
    Router::new()
        .method("add", async |(a, b): (i64, i64)| Ok::<_, Failure>(a + b))
        .method("echo", async |raw: Box<RawValue>| Ok::<_, Failure>(raw))
        .method("big", async |(bytes,): (usize,)| Ok::<_, Failure>("x".repeat(bytes)))
        .method("late_big", async |(bytes,): (usize,)| {
            tokio::task::yield_now().await;
            Ok::<_, Failure>("x".repeat(bytes))
        })
        .method("ignore", async || Ok::<_, Failure>(()))
        .method("back", async |(a, b): (i64, i64), cx: Context| {
            cx.peer().call::<i64>("add", (a, b)).await
        })
        .method("never", async || -> Result<(), Failure> { std::future::pending().await })
}

/// Makes this many calls of a method at the same time; returns the outcome of each.
async fn calls<T: serde::de::DeserializeOwned + Send + 'static>(
    peer: &Peer,
    method: &'static str,
    params: impl Fn(usize) -> Value,
    count: usize,
) -> Vec<Result<T, Error>> {
    let mut calls = JoinSet::new();
    for number in 0..count {
        let call = peer.call::<T>(method, params(number));
        calls.spawn(async move { (number, call.await) });
    }
    let mut ends: Vec<_> = calls.join_all().await;
    ends.sort_by_key(|&(number, _)| number);
    ends.into_iter().map(|(_, end)| end).collect()
}

/// Every call ends; some may be refused.
fn assert_answered_or_busy(ends: &[Result<i64, Error>]) -> usize {
    let busy = |error: &Error| error.remote().is_some_and(|remote| remote.code == -32000);
    // The answer of a handler whose own call was refused.
    let failed = |error: &Error| error.remote().is_some_and(|remote| remote.code == -32603);
    for (number, end) in ends.iter().enumerate() {
        match end {
            Ok(sum) => assert_eq!(*sum, number as i64 + 1),
            Err(error) => assert!(busy(error) || failed(error), "{error:#}"),
        }
    }
    ends.iter().filter(|end| end.is_ok()).count()
}

fn sum_params(number: usize) -> Value {
    serde_json::json!([number, 1])
}

/// Both sides call at the same time, and every call ends.
async fn call_from_both_sides(one: &Peer, two: &Peer, method: &'static str, count: usize) {
    let (here, there) = tokio::join!(
        calls::<i64>(one, method, sum_params, count),
        calls::<i64>(two, method, sum_params, count),
    );
    assert_answered_or_busy(&here);
    assert_answered_or_busy(&there);
}

#[test]
fn all_handlers_call_back_at_the_in_flight_limit() {
    everywhere(|link| async move {
        for in_flight in [1, 2, 64] {
            for order in [Order::Barrier, Order::Concurrent, Order::ByKey] {
                let profile = Profile::agent().max_in_flight(in_flight).with(|it| it.order = order);
                // Both sides call at the same time, and serve while they wait. If both sides are full of
                // handlers that wait for each other, all calls may be refused.
                let (one, two) = link.join(&profile, all_call_back(), all_call_back());
                call_from_both_sides(&one, &two, "ask", in_flight).await;

                // If only one side calls, its call-backs have room there, so no call is refused.
                let ends = calls::<i64>(&one, "ask", sum_params, in_flight).await;
                assert_eq!(assert_answered_or_busy(&ends), in_flight, "{order:?}");
                until(|| is_quiet(&one) && is_quiet(&two)).await;
            }
        }
    });
}

/// `ask` waits until other requests have arrived too, if there are any, and then calls back.
fn all_call_back() -> Router {
    methods().method("ask", async |(a, b): (i64, i64), cx: Context| {
        tokio::task::yield_now().await;
        cx.peer().call::<i64>("add", (a, b)).await
    })
}

#[test]
fn both_sides_send_large_answers_and_params_at_once() {
    const BIG: usize = 8 * MEGABYTE;
    let text: Arc<str> = "x".repeat(BIG / 2).into();
    on_both_runtimes("a pipe", || {
        let text = Arc::clone(&text);
        async move {
            let roomy = Profile::agent().with(|it| it.limits.message_bytes = 9 * MEGABYTE);
            let (one, two) = Link::Pipe(64 * 1024).join(&roomy, methods(), methods());
            let (here, there) = tokio::join!(
                one.call::<Box<RawValue>>("big", (BIG,)),
                two.call::<Box<RawValue>>("big", (BIG,)),
            );
            for answer in [here, there] {
                assert_eq!(answer.expect("an answer").get().len(), BIG + 2);
            }
            let (here, there) = tokio::join!(
                one.call::<Value>("ignore", (&*text,)),
                two.call::<Value>("ignore", (&*text,)),
            );
            assert!(here.is_ok() && there.is_ok());
        }
    });
}

#[test]
fn both_sides_send_many_large_answers_at_once() {
    // All answers are made before the first one is sent, so much more than the limit waits, even without
    // refusals.
    const COUNT: usize = 20;
    const BIG: usize = 100_000;
    on_both_runtimes("a pipe", || async {
        let profile = Profile::agent().with(|it| {
            it.limits.pending_calls = 100;
            it.limits.outgoing_bytes = 50_000;
        });
        let (one, two) = Link::Pipe(64 * 1024).join(&profile, methods(), methods());
        let params = |_| serde_json::json!([BIG]);
        let (here, there) = tokio::join!(
            calls::<Box<RawValue>>(&one, "late_big", params, COUNT),
            calls::<Box<RawValue>>(&two, "late_big", params, COUNT),
        );
        for end in here.into_iter().chain(there) {
            assert_eq!(end.expect("an answer").get().len(), BIG + 2);
        }
    });
}

#[test]
fn a_burst_of_requests_that_call_back_is_settled() {
    const COUNT: usize = 5000;
    everywhere(|link| async move {
        for (profile, count) in [(Profile::agent(), COUNT), (Profile::editor(), COUNT / 3)] {
            let (one, two) = link.join(&profile, methods(), methods());
            let ends = calls::<i64>(&one, "back", sum_params, count).await;
            assert!(assert_answered_or_busy(&ends) > 0);
            until(|| is_quiet(&one) && is_quiet(&two)).await;
        }
    });
}

#[test]
fn a_burst_from_both_sides_is_settled() {
    const COUNT: usize = 1200;
    everywhere(|link| async move {
        let (one, two) = link.join(&Profile::agent(), methods(), methods());
        call_from_both_sides(&one, &two, "back", COUNT).await;
        until(|| is_quiet(&one) && is_quiet(&two)).await;
    });
}

#[test]
fn l8_sequential_excess_is_answered_busy_while_a_handler_waits_for_its_answer() {
    everywhere(|link| async move {
        // The remote sends its answer after the queue has overflowed, so the answer is after all requests in
        // the stream.
        let (here, permits) = gated(Router::new(), "add", |(a, b): (i64, i64)| a + b);
        let profile = Profile::editor().with(|it| it.limits.waiting = 10);
        let (one, _two) = link.join(&profile, here, methods());
        let mut burst = JoinSet::new();
        for number in 0..100 {
            let call = one.call::<i64>("back", sum_params(number));
            burst.spawn(async move { (number, call.await) });
        }
        let mut refused = Vec::new();
        while refused.len() < 100 - 11 {
            let (number, end) = burst.join_next().await.expect("more").expect("no panic");
            let error = end.expect_err("nothing is answered yet");
            assert_eq!(error.remote().expect("an answer").code, -32000, "{number}");
            refused.push(number);
        }
        permits.add_permits(1000);
        let rest = burst.join_all().await;
        assert_eq!(rest.len(), 11);
        for (number, end) in rest {
            assert_eq!(end.expect("its turn came"), number as i64 + 1);
        }
    });
}

#[test]
fn notification_that_calls_back_delays_no_answer() {
    everywhere(|link| async move {
        let sum = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&sum);
        let there = methods()
            .method("change", move |(by,): (i64,), cx: Context| {
                let sum = Arc::clone(&sum);
                async move {
                    let more: i64 = cx.peer().call("add", (by, 0)).await?;
                    sum.fetch_add(more as usize, Ordering::SeqCst);
                    Ok::<_, Error>(())
                }
            })
            .method("sum", move || {
                let sum = seen.load(Ordering::SeqCst);
                async move { Ok::<_, Failure>(sum) }
            });
        for profile in [Profile::agent(), Profile::editor()] {
            let (one, _two) = link.join(&profile, methods(), there.clone());
            let before: usize = one.call("sum", ()).await.expect("an answer");
            for round in 1..=50 {
                one.notify("change", (2,)).await.expect("sent");
                // The barrier: the change is finished before the question begins.
                let sum: usize = one.call("sum", ()).await.expect("an answer");
                assert_eq!(sum - before, 2 * round);
            }
        }
    });
}

#[test]
fn both_sides_flood_each_other_and_nothing_is_lost() {
    const COUNT: usize = 20_000;
    everywhere(|link| async move {
        let counts = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
        let counting = |count: &Arc<AtomicUsize>| {
            let count = Arc::clone(count);
            Router::new().method("tick", move |(number,): (usize,)| {
                // The order is also unchanged.
                let _ =
                    count.compare_exchange(number, number + 1, Ordering::SeqCst, Ordering::SeqCst);
                async {}
            })
        };
        let (one, two) = link.join(&Profile::agent(), counting(&counts[0]), counting(&counts[1]));
        let mut floods = JoinSet::new();
        for peer in [one.clone(), two.clone()] {
            floods.spawn(async move {
                for number in 0..COUNT {
                    peer.notify("tick", (number,)).await.expect("sent");
                }
            });
        }
        floods.join_all().await;
        until(|| counts.iter().all(|count| count.load(Ordering::SeqCst) == COUNT)).await;
    });
}

#[test]
fn two_peers_recurse_into_each_other() {
    const DEPTH: u32 = 1000;
    everywhere(|link| async move {
        let router = Router::new().method("down", async |(depth,): (u32,), cx: Context| {
            if depth == 0 {
                return Ok(0);
            }
            let deeper: u32 = cx.peer().call("down", (depth - 1,)).await?;
            Ok::<_, Error>(deeper + 1)
        });
        let (one, two) = link.join(&Profile::agent(), router.clone(), router);
        let (here, there) =
            tokio::join!(one.call::<u32>("down", (DEPTH,)), two.call::<u32>("down", (DEPTH,)));
        assert_eq!((here.expect("one"), there.expect("two")), (DEPTH, DEPTH));
        // The recursion exceeds the limit on handlers: the error returns through all levels.
        let error = one.call::<u32>("down", (5000,)).await.expect_err("too deep");
        assert_eq!(error.remote().expect("an answer").code, -32603);
        until(|| is_quiet(&one) && is_quiet(&two)).await;
    });
}

#[test]
fn l8_reading_stops_for_a_remote_that_never_reads_and_close_works() {
    let profiles = [Profile::agent(), Profile::editor()];
    let rows = profiles.map(|it| ["big", "late_big", "nope"].map(|method| (it, method)));
    for (profile, method) in rows.into_iter().flatten() {
        on_both_runtimes(method, || async move {
            let (raw, there) = tokio::io::duplex(64 * 1024);
            let profile = profile.with(|it| {
                it.drain_timeout = Duration::from_millis(50);
                it.framing = Profile::agent().framing;
            });
            let peer =
                Peer::builder(Stream::from_io(there)).profile(profile).router(methods()).spawn();
            let (reader, mut writer) = tokio::io::split(raw);
            let accepted = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&accepted);
            let flood = tokio::spawn(async move {
                for number in 0.. {
                    let request = format!(
                        r#"{{"jsonrpc":"2.0","id":{number},"method":"{method}","params":[10000]}}"#
                    );
                    let line = [request.as_bytes(), b"\n"].concat();
                    if writer.write_all(&line).await.is_err() {
                        break;
                    }
                    counter.fetch_add(line.len(), Ordering::SeqCst);
                }
            });
            // The link is stuck if nothing changes although all tasks have run many times.
            let (mut before, mut still) = (usize::MAX, 0);
            while still < 1000 {
                tokio::task::yield_now().await;
                let now = accepted.load(Ordering::SeqCst);
                assert!(now < 16 * MEGABYTE, "the peer does not stop reading");
                still = if now == before { still + 1 } else { 0 };
                before = now;
            }
            assert!(!flood.is_finished());
            assert_eq!(peer.close().await.reason(), CloseReason::Closed);
            flood.await.expect("no panic");
            drop(reader);
        });
    }
}

#[test]
fn stalled_half_frame_delays_no_call() {
    on_both_runtimes("raw", || async {
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":5}"#;
        let length = answer.len();
        for (profile, frame) in [
            (Profile::editor(), format!("Content-Length: {length}\r\n\r\n{answer}")),
            (Profile::desktop(), format!("\0\0\0{}{answer}\n", char::from(length as u8))),
            (Profile::agent(), format!("{answer}\n")),
        ] {
            let (mut raw, there) = tokio::io::duplex(64 * 1024);
            let profile = profile.with(|it| it.read_timeout = None);
            let peer =
                Peer::builder(Stream::from_io(there)).profile(profile).router(methods()).spawn();
            let (half, rest) = frame.as_bytes().split_at(frame.len() / 2);
            raw.write_all(half).await.expect("the remote reads");
            let call = tokio::spawn(peer.call::<i64>("five", ()));
            // The call is sent, although the input stalls.
            let mut seen = [0; 10];
            raw.read_exact(&mut seen).await.expect("the call");
            assert!(!call.is_finished());
            raw.write_all(rest).await.expect("the remote reads");
            assert_eq!(call.await.expect("no panic").expect("an answer"), 5);
        }
    });
}

#[test]
fn a_handler_may_wait_for_the_end_of_its_own_connection() {
    everywhere(|link| async move {
        let there = methods().method("close", async |cx: Context| {
            // The handler never sees the end: the connection waits for the handler, and then stops it.
            let disconnect = cx.peer().close().await;
            Ok::<_, Failure>(disconnect.to_string())
        });
        let profile = Profile::agent().with(|it| it.drain_timeout = Duration::from_millis(20));
        let (one, two) = link.join(&profile, methods(), there);
        let error = one.call::<String>("close", ()).await.expect_err("the call fails");
        assert_eq!(error.kind(), ErrorKind::Disconnected);
        assert_eq!(two.closed().await.reason(), CloseReason::Closed);
        assert_eq!(one.closed().await.reason(), CloseReason::RemoteClosed);
    });
}

#[test]
fn handlers_may_drop_the_last_handle_of_any_connection() {
    everywhere(|link| async move {
        let profile = Profile::agent();
        // The last handle of another connection, immediately and after a while.
        let (far, far_end) = link.join(&profile, methods(), methods());
        let far = Arc::new(std::sync::Mutex::new(Some(far)));
        let there = methods()
            .method("drop", move || {
                let far = far.lock().expect("not poisoned").take();
                async move { Ok::<_, Failure>(far.is_some()) }
            })
            .method("late_drop", async |cx: Context| {
                tokio::task::yield_now().await;
                drop(cx);
                tokio::task::yield_now().await;
                Ok::<_, Failure>(7)
            });
        let (one, two) = link.join(&profile, methods(), there);
        assert!(one.call::<bool>("drop", ()).await.expect("an answer"));
        assert_eq!(far_end.closed().await.reason(), CloseReason::RemoteClosed);
        // The last handle of its own connection: the handler holds it, and is still answered. The test must
        // wait until this request runs, and not the previous one.
        until(|| two.stats().running == 0).await;
        let call = tokio::spawn(one.call::<i64>("late_drop", ()));
        until(|| two.stats().running == 1 || call.is_finished()).await;
        drop(two);
        assert_eq!(call.await.expect("no panic").expect("an answer"), 7);
        assert_eq!(one.closed().await.reason(), CloseReason::RemoteClosed);
    });
}

#[test]
fn p4_at_the_limit_answers_and_cancellations_still_flow() {
    everywhere(|link| async move {
        let (here, permits) = gated(Router::new(), "slow", |(): ()| 1);
        let there =
            methods().method("ask", async |cx: Context| cx.peer().call::<i64>("slow", ()).await);
        let profile = Profile::agent().max_in_flight(3);
        let (one, two) = link.join(&profile, here, there);
        let ask = tokio::spawn(one.call::<i64>("ask", ()));
        let never: Vec<_> = (0..2).map(|_| tokio::spawn(one.call::<Value>("never", ()))).collect();
        until(|| two.stats().running == 3 && one.stats().running == 1).await;
        let error = one.call::<i64>("add", (1, 2)).await.expect_err("no slot");
        assert_eq!(error.remote().expect("an answer").code, -32000);
        // An answer.
        permits.add_permits(1);
        assert_eq!(ask.await.expect("no panic").expect("an answer"), 1);
        // A cancellation.
        for call in &never {
            call.abort();
        }
        until(|| two.stats().running == 0).await;
        assert_eq!(one.call::<i64>("add", (1, 2)).await.expect("a slot"), 3);
    });
}

// ---- earlier hangs of this library

/// Requests that wait because the outbox is full begin when it has room, even if everything leaves in one
/// write and nothing else wakes the driver.
#[test]
fn held_requests_begin_when_there_is_room_again() {
    for link in [Link::Memory, Link::Pipe(64 * 1024), Link::Pipe(32 * MEGABYTE)] {
        on_both_runtimes(&format!("{link:?}"), || async move {
            let (there, permits) = gated(methods(), "wait", |(): ()| 1);
            let profile = Profile::agent().with(|it| {
                it.limits.outgoing_bytes = 1000;
                it.order = Order::Sequential;
            });
            let (one, two) = link.join(&profile, Router::new(), there);
            let first = tokio::spawn(one.call::<i64>("wait", ()));
            until(|| two.stats().running == 1).await;
            let rest: Vec<_> =
                (0..5).map(|_| tokio::spawn(one.call::<String>("big", (5000,)))).collect();
            until(|| two.stats().waiting == 5).await;
            permits.add_permits(1);
            assert_eq!(first.await.expect("no panic").expect("an answer"), 1);
            for call in rest {
                assert_eq!(call.await.expect("no panic").expect("an answer").len(), 5000);
            }
        });
    }
}

/// The last line needs no line end (F20). A message that arrives in the same read as the end is served.
#[test]
fn a_message_read_together_with_the_end_of_input_is_served() {
    on_both_runtimes("raw", || async {
        for line_end in ["", "\n"] {
            let (mut raw, there) = tokio::io::duplex(64 * 1024);
            let request =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}}{line_end}"#);
            raw.write_all(request.as_bytes()).await.expect("there is room");
            raw.shutdown().await.expect("the stream closes");
            let peer = Peer::builder(Stream::from_io(there))
                .profile(Profile::agent())
                .router(methods())
                .spawn();
            let mut answer = String::new();
            raw.read_to_string(&mut answer).await.expect("text");
            assert_eq!(answer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":3}\n");
            assert_eq!(peer.closed().await.reason(), CloseReason::RemoteClosed);
        }
    });
}

/// An answer counts, even if the remote exits and our next write fails.
#[test]
fn a_received_answer_is_not_lost_when_a_write_fails() {
    everywhere(|link| async move {
        for _ in 0..50 {
            let there = methods().method("last", async |cx: Context| {
                cx.shut_down();
                Ok::<_, Failure>(1)
            });
            let (one, _two) = link.join(&Profile::agent(), Router::new(), there);
            let call = tokio::spawn(one.call::<i64>("last", ()));
            // Some of these writes fail, because the remote is gone.
            let noise = tokio::spawn({
                let one = one.clone();
                async move {
                    while one.notify("add", (1, 2)).await.is_ok() {
                        tokio::task::yield_now().await;
                    }
                }
            });
            assert_eq!(call.await.expect("no panic").expect("the call is answered"), 1);
            noise.await.expect("no panic");
        }
    });
}

/// Two peers, each with an outbox full of answers to cancelled calls, and a queue full of cancelled requests.
/// Neither waits for the other, so neither reads.
#[test]
fn two_peers_that_gave_up_on_each_other_can_start_again() {
    everywhere(|link| async move {
        let profile = Profile::agent().with(|it| {
            it.limits.outgoing_bytes = 1024;
            it.limits.waiting = 4;
            it.limits.in_flight = 4;
            it.limits.message_bytes = 4 * MEGABYTE;
            it.order = Order::Concurrent;
        });
        let (one, two) = link.join(&profile, methods(), methods());
        for _ in 0..3 {
            let mut given_up = JoinSet::new();
            for peer in [&one, &two] {
                for _ in 0..20 {
                    given_up.spawn(peer.call::<String>("big", (100_000,)));
                }
            }
            // All messages are in transit, or wait for room.
            for _ in 0..200 {
                tokio::task::yield_now().await;
            }
            given_up.shutdown().await;
            let (a, b) = tokio::join!(
                one.call::<i64>("add", (1, 2)).no_timeout(),
                two.call::<i64>("add", (3, 4)).no_timeout()
            );
            for (end, sum) in [(a, 3), (b, 7)] {
                match end {
                    Ok(result) => assert_eq!(result, sum),
                    Err(error) => {
                        assert_eq!(error.remote().map(|remote| remote.code), Some(-32000));
                    }
                }
            }
        }
    });
}

/// Senders that wait for room make progress, however many messages arrive.
#[test]
fn a_connection_that_is_never_idle_lets_others_run_and_send() {
    on_both_runtimes("a flood", || async {
        let flood = Flood::default();
        let stop = Arc::clone(&flood.stop);
        let profile = Profile::agent().with(|it| it.limits.outgoing_bytes = 100);
        let peer = Peer::builder(flood).profile(profile).router(methods()).spawn();
        for _ in 0..1000 {
            peer.notify("tick", ()).await.expect("the notification is sent");
        }
        assert_eq!(peer.call::<i64>("one", ()).await.expect("an answer"), 1);
        stop.store(true, Ordering::SeqCst);
    });
}

/// A remote that sends endless notifications, reads everything, and answers each call with 1.
#[derive(Default)]
struct Flood {
    stop: Arc<AtomicBool>,
    answers: Vec<Vec<u8>>,
}

impl Transport for Flood {
    fn kind(&self) -> TransportKind {
        TransportKind::Messages
    }

    fn poll_receive(
        &mut self,
        _: &mut task::Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        if self.stop.load(Ordering::SeqCst) {
            return Poll::Ready(Ok(Received::Eof));
        }
        let noise = || br#"{"jsonrpc":"2.0","method":"add","params":[1,2]}"#.to_vec();
        inbox.push(&self.answers.pop().unwrap_or_else(noise))?;
        Poll::Ready(Ok(Received::Data))
    }

    fn poll_send(
        &mut self,
        _: &mut task::Context<'_>,
        outbox: &mut Outbox,
    ) -> Poll<io::Result<()>> {
        while let Some(message) = outbox.message() {
            let message: Value = serde_json::from_slice(message).expect("JSON");
            if let Some(id) = message.get("id") {
                let answer = serde_json::json!({"jsonrpc": "2.0", "id": id, "result": 1});
                self.answers.push(answer.to_string().into_bytes());
            }
            outbox.pop();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _: &mut task::Context<'_>) -> Poll<ExitReport> {
        Poll::Ready(ExitReport::default())
    }
}

/// A writer with unread bytes must not keep the connection from closing.
#[test]
fn a_connection_whose_writer_is_stuck_closes() {
    on_both_runtimes("raw", || async {
        let (raw, there) = tokio::io::duplex(10);
        let (reader, writer) = tokio::io::split(there);
        let writer = tokio::io::BufWriter::new(writer);
        let profile = Profile::agent().with(|it| it.drain_timeout = Duration::from_millis(20));
        let peer =
            Peer::builder(Stream::new(reader, writer)).profile(profile).router(methods()).spawn();
        peer.notify("tick", ("x".repeat(1000),)).await.expect("there is room");
        assert_eq!(peer.close().await.reason(), CloseReason::Closed);
        drop(raw);
    });
}

#[test]
fn a_hang_is_reported() {
    // Tests the detector: nothing drives the other end of a memory pair.
    let runtime = links::stopped_clock();
    runtime.block_on(async {
        let (here, _there) = memory::pair();
        let peer = Peer::builder(here).profile(Profile::agent()).router(Router::new()).spawn();
        let call = peer.call::<Value>("never", ()).no_timeout();
        assert!(tokio::time::timeout(HANGS, call).await.is_err());
    });
}
