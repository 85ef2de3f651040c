//! Play: runs a world. Two real peers on one thread, with a clock that moves only when no task can run.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use duet_rpc::proto::policy::Order;
use duet_rpc::transport::{Stream, Transport, memory};
use duet_rpc::{ConnectionState, Disconnect, Error, ErrorKind, Peer, Priority};
use tokio::runtime::{Builder, Handle};
use tokio::task::{JoinHandle, JoinSet};

use crate::actions::{Actor, last_call, perform};
use crate::calling::{Answer, sleep};
use crate::handlers::router;
use crate::journal::{Event, Journal};
use crate::link::Link;
use crate::world::{When, World};

/// Longer than any world takes on its own clock.
const FOR_EVER: Duration = Duration::from_secs(600);

/// The state after the end.
pub(crate) struct Outcome {
    pub(crate) disconnects: [Option<Disconnect>; 2],
    pub(crate) unmatched: [usize; 2],
    /// `true` if nothing was pending before the close.
    pub(crate) was_quiet: bool,
}

/// Runs a world to its end; the journal has all events.
pub(crate) fn play(world: &World) -> (Journal, Outcome) {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let journal = Journal::new();
        let mut outcome =
            Outcome { disconnects: [None, None], unmatched: [0; 2], was_quiet: false };
        let run = run(world, &journal, &mut outcome);
        if tokio::time::timeout(FOR_EVER, run).await.is_err() {
            journal.object("the run hangs".to_owned());
        }
        (journal, outcome)
    })
}

async fn run(world: &World, journal: &Journal, outcome: &mut Outcome) {
    let before = alive_tasks();
    let alive = Arc::new(AtomicUsize::new(0));
    let link = world.framing.map(|_| Link::new(world, journal, most_waiting(world)));
    let (peers, mut drivers) = join(world, journal, link.as_ref(), &alive);
    let states = [0, 1].map(|side| tokio::spawn(watch(journal.clone(), side, &peers[side])));

    let mut acts = JoinSet::new();
    for act in &world.acts {
        acts.spawn(perform(Actor::new(world, journal, &peers[act.by], act)));
    }
    if let Some(link) = &link {
        for (n, piece) in world.pieces.iter().enumerate() {
            let (link, to, at, bytes) = (link.clone(), piece.to, piece.at, piece.bytes.clone());
            acts.spawn(async move {
                sleep(at).await;
                link.hand_over(to, n, bytes);
            });
        }
        if let Some((When::At(at), mishap)) = world.mishap {
            let link = link.clone();
            acts.spawn(async move {
                sleep(at).await;
                link.break_down(mishap);
            });
        }
    }
    if let Some((by, at)) = world.close {
        let (peer, journal) = (peers[by].clone(), journal.clone());
        acts.spawn(async move {
            sleep(at).await;
            journal.note(Event::Closes(by));
            peer.close().await;
        });
    }
    while let Some(acted) = acts.join_next().await {
        if let Err(error) = acted {
            journal.object(format!("an act failed: {error}"));
        }
    }

    if world.lives_on() {
        outcome.was_quiet = until_quiet(&peers, link.as_ref()).await;
        if outcome.was_quiet {
            journal.note(Event::Quiet);
        }
        // Two peers that stopped reading, each with more to send than the other accepts, continue when one of
        // them calls.
        if outcome.was_quiet || world.must_get_quiet() {
            for side in [0, 1] {
                let called = last_call(journal, &peers, side).await;
                if !called && !world.may_lose_messages() {
                    journal.object(format!("side {side} cannot call any more"));
                }
            }
            outcome.was_quiet = until_quiet(&peers, link.as_ref()).await;
        }
        if world.must_get_quiet() && !outcome.was_quiet {
            journal.object("the connection never becomes idle".to_owned());
        }
    }
    for side in [world.last, 1 - world.last] {
        // No peer notices a link that died silently.
        let is_told = side != world.last && world.mishap.is_none();
        if is_told && !is_over_soon(&mut drivers[side]).await {
            // A peer at its limit of endless handlers does not read, so it does not notice the end either.
            if peers[side].stats().running == 0 {
                journal.object(format!("side {side} does not notice the end"));
            }
            journal.note(Event::Closes(side));
            drop(peers[side].close());
        }
        if !is_told {
            journal.note(Event::Closes(side));
            drop(peers[side].close());
        }
    }
    for side in [0, 1] {
        outcome.disconnects[side] = match (&mut drivers[side]).await {
            Ok(disconnect) => Some(disconnect),
            Err(error) => {
                journal.object(format!("the driver of side {side} failed: {error}"));
                None
            }
        };
        outcome.unmatched[side] = peers[side].stats().unmatched_answers;
        check_closed(journal, side, &peers[side]).await;
    }
    for state in states {
        let _ = state.await;
    }
    // The runtime drops stopped handlers later.
    for _ in 0..1000 {
        if alive.load(Ordering::SeqCst) == 0 && alive_tasks() == before {
            return;
        }
        tokio::task::yield_now().await;
    }
    let (handlers, tasks) = (alive.load(Ordering::SeqCst), alive_tasks() - before);
    journal.object(format!("{handlers} handlers and {tasks} tasks are left"));
}

/// Maximum number of unsent bytes of a side: its limit, and the messages that may be added after the limit is
/// reached.
fn most_waiting(world: &World) -> [usize; 2] {
    /// One message of its own.
    const MESSAGE: usize = 4000;
    let most = |side: usize| {
        let limits = &world.sides[side].profile.limits;
        let refusals = 128 * limits.pending_calls.max(1);
        let running = match world.sides[side].profile.order {
            Order::Sequential => 1,
            _ => limits.in_flight.clamp(1, 100),
        };
        // Running handlers may answer, and each pending call may be cancelled.
        limits.outgoing_bytes + refusals + limits.pending_calls * 100 + (running + 1) * MESSAGE
    };
    [most(0), most(1)]
}

fn join(
    world: &World,
    journal: &Journal,
    link: Option<&Link>,
    alive: &Arc<AtomicUsize>,
) -> ([Peer; 2], [JoinHandle<Disconnect>; 2]) {
    let transports: [Box<dyn Transport>; 2] = match link {
        None => {
            let (one, two) = memory::pair();
            [Box::new(one), Box::new(two)]
        }
        Some(link) => [0, 1].map(|side| {
            let (reader, writer) = link.ends_of(side);
            Box::new(Stream::new(reader, writer)) as Box<dyn Transport>
        }),
    };
    let mut side = 0;
    let peers = transports.map(|transport| {
        let terms = &world.sides[side];
        let router = router(journal, side, terms, alive);
        let (peer, driver) = Peer::builder(transport).profile(terms.profile).router(router).build();
        side += 1;
        (peer, tokio::spawn(driver))
    });
    let [(one, first), (two, second)] = peers;
    ([one, two], [first, second])
}

// ---- the end

/// Waits until nothing is pending. The clock moves only when no task can run, so bytes that have not left a
/// peer by then wait for room on the link.
async fn until_quiet(peers: &[Peer; 2], link: Option<&Link>) -> bool {
    let is_quiet = |peer: &Peer| {
        let stats = peer.stats();
        stats.pending_calls + stats.running + stats.waiting == 0
    };
    for patience in 0..14 {
        sleep(10 << patience).await;
        if peers.iter().all(is_quiet) && link.is_none_or(Link::is_idle) {
            return true;
        }
    }
    false
}

async fn is_over_soon(driver: &mut JoinHandle<Disconnect>) -> bool {
    for _ in 0..60 {
        if driver.is_finished() {
            return true;
        }
        sleep(1000).await;
    }
    driver.is_finished()
}

/// Checks that nothing is left of a closed connection, and that every operation fails immediately (P5).
async fn check_closed(journal: &Journal, side: usize, peer: &Peer) {
    let stats = peer.stats();
    if stats.pending_calls + stats.running + stats.waiting > 0 {
        journal.object(format!("side {side} is closed, but has pending work: {stats:?}"));
    }
    if !peer.state().is_disconnected() {
        journal.object(format!("side {side} has ended and is {:?}", peer.state()));
    }
    let is_closed = |result: Poll<Result<(), Error>>| match result {
        Poll::Ready(Err(error)) => {
            error.kind() == ErrorKind::Disconnected && !error.is_recoverable()
        }
        _ => false,
    };
    let mut call = pin!(peer.call::<Answer>("do", ()));
    let called = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
    let mut notify = pin!(peer.notify("do", ()));
    let told = poll_fn(|cx| Poll::Ready(notify.as_mut().poll(cx))).await;
    let mut close = pin!(peer.close());
    let closed = poll_fn(|cx| Poll::Ready(close.as_mut().poll(cx))).await;
    let sent = Poll::Ready(peer.events("event", "late").send(Priority::High, &1));
    let are_closed = [called.map_ok(|_| ()), told, sent].into_iter().all(is_closed);
    if !are_closed || closed.is_pending() {
        journal.object(format!("side {side} is closed, and does not report it immediately"));
    }
}

/// Records each state. The returned future holds no handle of the connection.
fn watch(journal: Journal, side: usize, peer: &Peer) -> impl Future<Output = ()> + use<> {
    let mut states = peer.watch();
    async move {
        loop {
            let name = match &*states.borrow_and_update() {
                ConnectionState::Connecting => "connecting",
                ConnectionState::Connected => "connected",
                ConnectionState::Draining => "draining",
                ConnectionState::Disconnected(_) => "disconnected",
                other => panic!("the journal does not know {other:?}"),
            };
            journal.note(Event::State(side, name));
            if name == "disconnected" || states.changed().await.is_err() {
                return;
            }
        }
    }
}

fn alive_tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}
