//! What the two applications do.

use duet_rpc::{Error, ErrorKind, Peer, Priority};

use crate::calling::{Called, Dropped, Terms, sleep};
use crate::journal::{Event, Journal};
use crate::plan::{Plan, STEP};
use crate::world::{Act, CALL_TIMEOUT, Deed, World};

/// Where the numbers of the last calls begin, which show that all still works.
pub(crate) const LAST: u64 = 1_000_000;

pub(crate) struct Actor {
    journal: Journal,
    peer: Peer,
    side: usize,
    at: u64,
    deed: Deed,
    number: u64,
    plan: Plan,
    pad: usize,
    most_events: usize,
}

impl Actor {
    pub(crate) fn new(world: &World, journal: &Journal, peer: &Peer, act: &Act) -> Self {
        Actor {
            journal: journal.clone(),
            peer: peer.clone(),
            side: act.by,
            at: act.at,
            deed: act.deed,
            number: act.number * STEP,
            plan: act.plan.clone(),
            pad: act.pad,
            most_events: if world.is_exact() { 100 } else { 3 },
        }
    }
}

pub(crate) async fn perform(actor: Actor) {
    let Actor { journal, peer, side, at, deed, number, plan, pad, most_events } = actor;
    sleep(at).await;
    let call = Called { peer: &peer, journal: &journal, side, number };
    let terms = |timeout| Terms { timeout, total: None, dropped: None };
    // How a call ends is in the journal.
    let _ = match deed {
        Deed::Notify => {
            let told = peer.notify("do", (number, plan, "p".repeat(pad))).await;
            check_told(&journal, side, &told);
            journal.note(Event::Told { side, number, is_sent: told.is_ok() });
            return;
        }
        Deed::Call(timeout) => call.make(plan, pad, terms(timeout)).await,
        Deed::CallWithProgress(timeout, total) => {
            call.make(plan, pad, Terms { total: Some(total), ..terms(timeout) }).await
        }
        Deed::CallAndDrop(time) => {
            call.make(plan, pad, Terms { dropped: Some(time), ..terms(CALL_TIMEOUT) }).await
        }
        Deed::Bye(timeout) => call.ask("bye", (number,), terms(timeout)).await,
        Deed::Events(count) => {
            let events = peer.events("event", &number.to_string()).bounded(most_events, 10_000);
            for n in 0..count {
                let priority = if n % 3 == 0 { Priority::High } else { Priority::Low };
                if let Err(error) = events.send(priority, &n) {
                    if error.kind() != ErrorKind::Disconnected {
                        journal.object(format!("an event of side {side} failed: {error:#}"));
                    }
                    return;
                }
                if n % 2 == 1 {
                    tokio::task::yield_now().await;
                }
            }
            return;
        }
    };
}

/// A notification waits for room as long as a call would, and fails only then, or if it is over.
fn check_told(journal: &Journal, side: usize, told: &Result<(), Error>) {
    if let Err(error) = told
        && !matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Disconnected)
    {
        journal.object(format!("a notification of side {side} failed: {error:#}"));
    }
}

/// What is still on its way, such as answers to calls that were given up, arrives before this does.
pub(crate) async fn last_call(journal: &Journal, peers: &[Peer; 2], side: usize) -> bool {
    let number = LAST + side as u64 * STEP;
    let call = Called { peer: &peers[side], journal, side, number };
    let terms = Terms { timeout: 60_000, total: None, dropped: None };
    match call.make(Plan::Now, 0, terms).await {
        Ok(Ok((answer, _))) => answer == number,
        // What was given up long ago may only have come now.
        Ok(Err(error)) => error.remote().is_some_and(|remote| remote.code == -32000),
        Err(Dropped) => false,
    }
}
