//! Observers: each received message begins and ends exactly once.

use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use duet_rpc::{End, Ended, Failure, Observer, Peer, Profile, Router, blocking, quick};

use super::notes::{Notes, Panicking, Sees};
use super::{answers, fail, remote, request};

/// A result that serde cannot write.
struct Unwritable;

impl serde::Serialize for Unwritable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("never"))
    }
}

/// It panics when serde writes it.
struct Explosive;

impl serde::Serialize for Explosive {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("in it")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn p7_observers_see_the_end_of_each_message_for_every_kind_of_handler() {
    type Handlers = fn(Router) -> Router;
    let rows: [(&str, Handlers, End); 13] = [
        ("ok", |router| router.method("ok", || 1), End::Result),
        ("fail", |router| router.method("fail", fail), End::Failure(-32077)),
        ("panic", |router| router.method("panic", || -> () { panic!("in it") }), End::Panic),
        ("params", |router| router.method("params", |(n,): (u8,)| n), End::Failure(-32602)),
        ("unknown", |router| router, End::Failure(-32601)),
        ("refused", |router| router.method("refused", || 1), End::Refused(-32050)),
        ("unwritable", |router| router.method("unwritable", || Unwritable), End::Failure(-32603)),
        (
            "later",
            |router| router.method("later", async || tokio::task::yield_now().await),
            End::Result,
        ),
        (
            "late panic",
            |router| {
                router.method("late panic", async || -> () {
                    tokio::task::yield_now().await;
                    panic!("in it")
                })
            },
            End::Panic,
        ),
        ("explodes", |router| router.method("explodes", quick(|| Explosive)), End::Panic),
        (
            "explodes late",
            |router| {
                router.method("explodes late", async || {
                    tokio::task::yield_now().await;
                    Explosive
                })
            },
            End::Panic,
        ),
        ("blocks", |router| router.method("blocks", blocking(fail)), End::Failure(-32077)),
        (
            "wrapped",
            |router| {
                router.method("wrapped", fail).wrap(async |it, next| {
                    tokio::task::yield_now().await;
                    next.run(it).await
                })
            },
            End::Failure(-32077),
        ),
    ];
    for (method, add, end) in rows {
        let notes = Notes::new(Sees::Incoming);
        let router = add(Router::new()).observe(Panicking).observe(notes.clone()).guard(|it| {
            match it.method() {
                "refused" => Err(Failure::new(-32050, "Refused")),
                _ => Ok(()),
            }
        });
        let got = answers(router, &[&request(1, method)], 1).await;
        assert_eq!(got[0]["id"], 1, "{method}");
        let method = method.to_owned();
        assert_eq!(notes.wait_for(2).await, [(method.clone(), None), (method, Some(end))]);
    }
}

#[tokio::test]
async fn p3_observers_distinguish_cancelled_from_dropped_handlers() {
    let notes = Notes::new(Sees::Incoming);
    let router = Router::new()
        .method("hang", async || std::future::pending::<()>().await)
        .observe(notes.clone());
    let (peer, mut remote) = remote::serve(&Profile::agent(), router.clone());
    remote.send(&request(1, "hang")).await;
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#;
    assert_eq!(remote.ask(cancel).await["error"]["code"], -32800);
    notes.wait_for(2).await;
    remote.send(&request(2, "hang")).await;
    notes.wait_for(3).await;
    drop(remote);
    drop(peer);
    let ends: Vec<_> = notes.wait_for(4).await.into_iter().filter_map(|(_, end)| end).collect();
    assert_eq!(ends, [End::Cancelled, End::Dropped]);
}

/// A gauge that counts arrivals up and ends down returns to zero when the connection is gone.
#[tokio::test]
async fn p7_each_arrival_ends_once_even_if_the_driver_is_dropped() {
    let notes = Notes::new(Sees::Incoming);
    let router = Router::new()
        .method("hang", async || std::future::pending::<()>().await)
        .observe(notes.clone());
    let (here, there) = duet_rpc::transport::memory::pair();
    let (_server, driver) = Peer::builder(there).profile(Profile::agent()).router(router).build();
    let driver = tokio::spawn(driver);
    let client = Peer::builder(here).profile(Profile::agent()).router(Router::new()).spawn();
    let calls: Vec<_> = (0..5).map(|_| tokio::spawn(client.call::<()>("hang", ()))).collect();
    notes.wait_for(5).await;
    driver.abort();
    let all = notes.wait_for(10).await;
    assert_eq!(all.iter().filter(|(_, end)| *end == Some(End::Dropped)).count(), 5, "{all:?}");
    for call in calls {
        assert!(call.await.expect("no panic").is_err());
    }
}

/// Moves the paused clock, within one poll.
fn work() {
    let moved = std::pin::pin!(tokio::time::advance(Duration::from_secs(5)));
    let _ = moved.poll(&mut TaskContext::from_waker(Waker::noop()));
}

/// Records how many seconds each message took.
#[derive(Clone, Default)]
struct Seconds(Arc<Mutex<Vec<(String, u64)>>>);

impl Observer for Seconds {
    fn ended(&self, message: &Ended<'_>) {
        // One method is not timed, as in an observer that reports only some messages.
        if message.method() != "untimed" {
            let took = (message.method().to_owned(), message.took().as_secs());
            self.0.lock().expect("no panic").push(took);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn p7_the_time_of_a_message_excludes_the_handlers_that_ran_before_it() {
    for (before, seconds) in [
        ("ready", Some(5)),
        ("waits", Some(5)),
        ("untimed", None),
        ("guarded", None),
        ("plain", None),
    ] {
        let took = Seconds::default();
        let observed = Router::new()
            .method("ready", work)
            .method("untimed", work)
            .method("waits", async || {
                work();
                tokio::task::yield_now().await;
            })
            .method("last", || ())
            .method("last waits", async || tokio::task::yield_now().await)
            .observe(took.clone());
        let guarded =
            Router::new().method("guarded", work).guard(|_| -> Result<(), Failure> { Ok(()) });
        let router = Router::new().method("plain", work).merge(observed).merge(guarded);
        for last in ["last", "last waits"] {
            // From its first duration on, a method is timed.
            router.handle(request(1, last)).await.expect("requests have answers");
            took.0.lock().expect("no panic").clear();
            let batch = format!("[{},{}]", request(1, before), request(2, last));
            router.handle(batch).await.expect("requests have answers");
            let mut all = std::mem::take(&mut *took.0.lock().expect("no panic"));
            all.sort();
            let first = seconds.map(|seconds| (before.to_owned(), seconds));
            let mut expected: Vec<_> = first.into_iter().chain([(last.to_owned(), 0)]).collect();
            expected.sort();
            assert_eq!(all, expected, "{before}");
        }
    }
}
