//! A server on stdio whose worker threads are all blocked: quick methods are still answered, and waiting
//! handlers delay nobody (L5, P4).

use std::sync::{Condvar, Mutex, PoisonError};

use duet_rpc::{Context, Error, Router, blocking, quick};
use tokio::sync::Notify;

use super::unix::{Client, IN_FLIGHT};

/// The default number of worker threads.
const WORKERS: usize = 32;
/// The number of methods that are called for the first time while all workers are blocked.
const FRESH: usize = 3000;

/// Permits for blocking handlers to end.
static RELEASED: Mutex<usize> = Mutex::new(0);
static RELEASE: Condvar = Condvar::new();
static WAKE: Notify = Notify::const_new();

async fn block(cx: Context) -> Result<&'static str, Error> {
    cx.peer().notify("began", ()).await?;
    let released = RELEASED.lock().unwrap_or_else(PoisonError::into_inner);
    let released = RELEASE.wait_while(released, |released| *released == 0);
    *released.unwrap_or_else(PoisonError::into_inner) -= 1;
    Ok("released")
}

async fn wait(cx: Context) -> Result<&'static str, Error> {
    let woken = WAKE.notified();
    cx.peer().notify("began", ()).await?;
    woken.await;
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    Ok("woken")
}

async fn release() -> &'static str {
    *RELEASED.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    RELEASE.notify_one();
    "released"
}

async fn wake() -> &'static str {
    WAKE.notify_waiters();
    "woken"
}

pub(crate) fn add_methods(router: Router) -> Router {
    let router = router
        .method("block", blocking(block))
        .method("wait", blocking(wait))
        .method("release", quick(release))
        .method("wake", quick(wake))
        .method("known", quick(|| "quick"))
        .method("burst", async || "quick")
        .shutdown_method("shutdown", async || "goodbye");
    (0..FRESH)
        .fold(router, |router, number| router.method(&format!("fresh{number}"), async || "quick"))
}

pub(crate) fn run() {
    l5_ping_and_shutdown_are_answered_while_all_workers_are_blocked();
    l5_blocking_handler_begins_as_soon_as_any_worker_is_free();
    l5_waiting_handlers_and_a_blocking_one_do_not_delay_each_other();
    l5_methods_called_for_the_first_time_do_not_hold_the_connection_up();
    p4_first_burst_of_a_quick_method_is_not_refused();
}

/// Calls a method that notifies when it begins, and waits for that.
fn begin(client: &mut Client, ids: std::ops::Range<usize>, method: &str) {
    for id in ids {
        client.send(id as u64, method, "[]");
        assert_eq!(client.next()["method"], "began");
    }
}

fn l5_ping_and_shutdown_are_answered_while_all_workers_are_blocked() {
    for extra in [0, 1, 8] {
        let mut client = Client::start(WORKERS);
        begin(&mut client, 0..WORKERS, "block");
        for id in 100..100 + extra {
            client.send(id, "block", "[]");
        }
        assert_eq!(client.ask(200, "ping", "[]")["result"], "pong");
        assert_eq!(client.ask(201, "ping", "[]")["result"], "pong");
        assert_eq!(client.ask(202, "shutdown", "[]")["result"], "goodbye");
        client.end();
    }
}

fn l5_blocking_handler_begins_as_soon_as_any_worker_is_free() {
    let mut client = Client::start(WORKERS);
    begin(&mut client, 0..WORKERS, "block");
    for id in 100..110 {
        client.send(id, "block", "[]");
    }
    for id in 200..210 {
        client.send(id, "release", "[]");
        // These messages are the answer to the release, the end of one handler, and the start of another, in
        // any order.
        let messages = [client.next(), client.next(), client.next()];
        assert!(messages.iter().any(|message| message["method"] == "began"), "{messages:?}");
    }
    client.end();
}

fn l5_waiting_handlers_and_a_blocking_one_do_not_delay_each_other() {
    let mut client = Client::start(WORKERS);
    begin(&mut client, 0..2 * WORKERS, "wait");
    begin(&mut client, 100..101, "block");
    client.send(200, "wake", "[]");
    for _ in 0..=2 * WORKERS {
        assert_eq!(client.next()["result"], "woken");
    }
    client.send(300, "release", "[]");
    assert_eq!(
        [client.next(), client.next()].map(|answer| answer["result"] == "released"),
        [true; 2]
    );
    client.end();
}

fn l5_methods_called_for_the_first_time_do_not_hold_the_connection_up() {
    let mut client = Client::start(1);
    begin(&mut client, 0..1, "block");
    for number in 0..FRESH {
        client.send(1000 + number as u64, &format!("fresh{number}"), "[]");
    }
    client.send(1, "known", "[]");
    for _ in 0..=FRESH {
        assert_eq!(client.next()["result"], "quick");
    }
    client.end();
}

fn p4_first_burst_of_a_quick_method_is_not_refused() {
    for workers in [1, WORKERS] {
        let mut client = Client::start(workers);
        let burst = 2 * IN_FLIGHT;
        for id in 0..burst {
            client.send(id as u64, "burst", "[]");
        }
        for _ in 0..burst {
            assert_eq!(client.next()["result"], "quick");
        }
        client.end();
    }
}
