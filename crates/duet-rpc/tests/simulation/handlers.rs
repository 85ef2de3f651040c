//! The handlers of both peers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duet_rpc::proto::message::{Code, ErrorObject};
use duet_rpc::proto::policy::{Dialect, Order};
use duet_rpc::{Context, Failure, Peer, Profile, Router};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::calling::{Answer, Called, Terms, emit, note_told, sleep};
use crate::journal::{Event, Journal};
use crate::plan::{Plan, STEP};
use crate::world::{FEW_EVENTS, Side};

/// Records the start of a handler, and on drop its end, whatever ends it.
struct Alive {
    journal: Journal,
    side: usize,
    number: u64,
    count: Arc<AtomicUsize>,
}

impl Alive {
    fn new(journal: &Journal, side: usize, number: u64, count: &Arc<AtomicUsize>) -> Self {
        journal.note(Event::Starts { side, number });
        count.fetch_add(1, Ordering::SeqCst);
        Alive { journal: journal.clone(), side, number, count: Arc::clone(count) }
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
        self.journal.note(Event::Stops { side: self.side, number: self.number });
    }
}

pub(crate) fn router(
    journal: &Journal,
    side: usize,
    terms: &Side,
    alive: &Arc<AtomicUsize>,
) -> Router {
    let (journal, count, profile) = (journal.clone(), Arc::clone(alive), terms.profile);
    let act = move |(number, plan, _pad): (u64, Plan, String), cx: Context| {
        let alive = Alive::new(&journal, side, number, &count);
        let journal = journal.clone();
        check_bounds(&journal, side, &profile, cx.peer());
        async move {
            let _alive = alive;
            follow(number, plan, side, cx, &journal, profile.dialect).await
        }
    };
    Router::new()
        .method("do", terms.pace(act))
        .method("event", terms.pace(async |_: Value| ()))
        .shutdown_method("bye", terms.pace(async |number: (u64,)| (number.0, String::new())))
        .ordered_by(|_, params| {
            let (number, ..) = params.parse::<(u64, IgnoredAny, IgnoredAny)>().ok()?;
            lane_of(number)
        })
}

/// Checks that pending messages and handlers stay within the limits (P9).
fn check_bounds(journal: &Journal, side: usize, profile: &Profile, peer: &Peer) {
    let (stats, limits) = (peer.stats(), &profile.limits);
    let most_running = if profile.order == Order::Sequential { 1 } else { limits.in_flight.max(1) };
    // Notifications may exceed the limit, because only their bytes are limited. The rest of a batch may
    // exceed it too.
    let most_waiting = limits.waiting + limits.waiting_bytes / 256 * 4 + 8;
    // The method that closes is never refused.
    if stats.running > most_running + 1
        || stats.waiting > most_waiting
        || stats.pending_calls > limits.pending_calls
    {
        journal.object(format!("side {side} exceeds a limit: {stats:?}"));
    }
}

/// The key of a message, if the order is by key.
pub(crate) fn lane_of(number: u64) -> Option<u64> {
    Some(number / STEP % 4).filter(|lane| *lane > 0)
}

async fn follow(
    number: u64,
    plan: Plan,
    side: usize,
    cx: Context,
    journal: &Journal,
    dialect: Dialect,
) -> Result<Answer, Failure> {
    let mut bytes = 0;
    match plan {
        Plan::Now => {}
        Plan::Big(size) => bytes = size,
        Plan::After(time) => sleep(time).await,
        Plan::Never => std::future::pending().await,
        Plan::Fail(code) => return Err(ErrorObject::application(Code(code), "no", None).into()),
        Plan::Panic => std::panic::resume_unwind(Box::new("on purpose")),
        Plan::PanicAfter(time) => {
            sleep(time).await;
            std::panic::resume_unwind(Box::new("on purpose"))
        }
        Plan::Tell => {
            let told = cx.peer().notify("do", (number + 1, Plan::Now, "")).await;
            note_told(journal, side, number + 1, &told);
        }
        Plan::Emit(count, size) => {
            emit(Called { peer: cx.peer(), journal, side, number }, count, FEW_EVENTS).await;
            bytes = size;
        }
        Plan::Keep(time) => {
            let (cx, journal) = (cx.clone(), journal.clone());
            tokio::spawn(async move {
                cx.cancelled().await;
                journal.note(Event::Released { side, number });
            });
            sleep(time).await;
        }
        Plan::Progress(every, times, rest) => {
            for _ in 0..times {
                sleep(every).await;
                let (method, token) = progress_words(dialect);
                // Without progress, the caller would give up earlier.
                let _ = cx.peer().notify(method, json!({ token: number })).await;
            }
            sleep(rest).await;
        }
        Plan::Back(plan, timeout) => {
            let call = Called { peer: cx.peer(), journal, side, number: number + 1 };
            return Ok(call.make(*plan, 0, Terms::new(timeout)).await??);
        }
    }
    Ok((number, "x".repeat(bytes)))
}

fn progress_words(dialect: Dialect) -> (&'static str, &'static str) {
    match dialect {
        Dialect::Dollar | Dialect::None => ("$/progress", "token"),
        Dialect::Notifications => ("notifications/progress", "progressToken"),
        other => panic!("no progress message for {other:?}"),
    }
}
