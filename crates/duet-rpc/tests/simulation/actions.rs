//! The actions of the two applications.

use duet_rpc::Peer;

use crate::calling::{Called, Dropped, Terms, emit, note_told, sleep};
use crate::journal::Journal;
use crate::plan::{Plan, STEP};
use crate::world::{Act, CALL_TIMEOUT, Deed, FEW_EVENTS, PARKED_TIMEOUT, World};

/// The numbers of the final calls begin here. These calls show that the connection still works.
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
            most_events: if world.is_exact() { 100 } else { FEW_EVENTS },
        }
    }
}

pub(crate) async fn perform(actor: Actor) {
    let Actor { journal, peer, side, at, deed, number, plan, pad, most_events } = actor;
    sleep(at).await;
    let call = Called { peer: &peer, journal: &journal, side, number };
    // The journal records the end of the call.
    let _ = match deed {
        Deed::Notify => {
            let told = peer.notify("do", (number, plan, "p".repeat(pad))).await;
            return note_told(&journal, side, number, &told);
        }
        Deed::Call(timeout) => call.make(plan, pad, Terms::new(timeout)).await,
        Deed::CallWithProgress(timeout, total) => {
            call.make(plan, pad, Terms { total: Some(total), ..Terms::new(timeout) }).await
        }
        Deed::CallAndDrop(time) => {
            call.make(plan, pad, Terms { dropped: Some(time), ..Terms::new(CALL_TIMEOUT) }).await
        }
        Deed::CallAndPark(time) => {
            let terms = Terms::new(PARKED_TIMEOUT);
            call.make(plan, pad, Terms { dropped: Some(time), is_parked: true, ..terms }).await
        }
        Deed::Bye(timeout) => call.ask("bye", (number,), Terms::new(timeout)).await,
        Deed::Events(count) => {
            if pad > 0 {
                let told = peer.notify("do", (number, Plan::Now, "p".repeat(pad))).await;
                note_told(&journal, side, number, &told);
            }
            return emit(call, count, most_events).await;
        }
    };
}

/// Makes a final call. Everything in transit, such as answers to dropped calls, arrives before its answer.
pub(crate) async fn last_call(journal: &Journal, peers: &[Peer; 2], side: usize) -> bool {
    let number = LAST + side as u64 * STEP;
    let call = Called { peer: &peers[side], journal, side, number };
    match call.make(Plan::Now, 0, Terms::new(60_000)).await {
        Ok(Ok((answer, _))) => answer == number,
        // A request that was dropped long ago may arrive only now.
        Ok(Err(error)) => error.remote().is_some_and(|remote| remote.code == -32000),
        Err(Dropped) => false,
    }
}
