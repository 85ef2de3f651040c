//! How a world is played: two real peers on one thread, on a clock that goes on only when there is
//! nothing left to do.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use duet_rpc::proto::message::{Code, ErrorObject};
use duet_rpc::proto::policy::{Dialect, Order};
use duet_rpc::transport::{Stream, Transport, memory};
use duet_rpc::{
    Context, Disconnect, Error, ErrorKind, Failure, Peer, Priority, Profile, Router, State,
};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Handle};
use tokio::task::{JoinHandle, JoinSet};

use crate::journal::{Call, Event, Journal};
use crate::link::Link;
use crate::plan::{End, Plan, STEP};
use crate::world::{Act, CALL_TIMEOUT, Deed, Side, When, World};

/// Longer than any world takes on its own clock.
const FOR_EVER: Duration = Duration::from_secs(600);
/// Where the numbers of the last calls begin, which show that all still works.
pub(crate) const LAST: u64 = 1_000_000;

/// What is to be known once it is over.
pub(crate) struct Outcome {
    pub(crate) disconnects: [Option<Disconnect>; 2],
    pub(crate) unmatched: [usize; 2],
    /// Whether nothing was under way any more before it was closed.
    pub(crate) was_quiet: bool,
}

/// Plays a world to its end; all that happened is in the journal.
pub(crate) fn play(world: &World) -> (Journal, Outcome) {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let journal = Journal::new();
        let mut outcome =
            Outcome { disconnects: [None, None], unmatched: [0; 2], was_quiet: false };
        let run = run(world, &journal, &mut outcome);
        if tokio::time::timeout(FOR_EVER, run).await.is_err() {
            journal.object("it hangs".to_owned());
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
        // Two that gave up on each other, each with more to say than the other takes, read on when one
        // of them calls.
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
            journal.object("it never gets quiet".to_owned());
        }
    }
    for side in [world.last, 1 - world.last] {
        // A link that died without a word tells nobody that it is closed.
        let is_told = side != world.last && world.mishap.is_none();
        if is_told && !is_over_soon(&mut drivers[side]).await {
            // Who is full of what never ends does not read on to find out.
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
    // Handlers that were stopped are dropped when the runtime comes to them.
    for _ in 0..1000 {
        if alive.load(Ordering::SeqCst) == 0 && alive_tasks() == before {
            return;
        }
        tokio::task::yield_now().await;
    }
    let (handlers, tasks) = (alive.load(Ordering::SeqCst), alive_tasks() - before);
    journal.object(format!("{handlers} handlers and {tasks} tasks are left"));
}

/// How many bytes a side may have waiting to be sent: what its limit says, and what may still come
/// once it is reached.
fn most_waiting(world: &World) -> [usize; 2] {
    /// A message of ours, at most.
    const MESSAGE: usize = 4000;
    let most = |side: usize| {
        let limits = &world.sides[side].profile.limits;
        let refusals = 128 * limits.pending_calls.max(1);
        let running = match world.sides[side].profile.order {
            Order::Sequential => 1,
            _ => limits.in_flight.clamp(1, 100),
        };
        // What runs ends, and each call that is pending may be given up.
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
        let (peer, driver) = Peer::new(transport, &terms.profile, router);
        side += 1;
        (peer, tokio::spawn(driver))
    });
    let [(one, first), (two, second)] = peers;
    ([one, two], [first, second])
}

// ---- handlers

/// A handler from its beginning to its end, however that comes.
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

type Answer = (u64, String);

fn router(journal: &Journal, side: usize, terms: &Side, alive: &Arc<AtomicUsize>) -> Router {
    let (journal, count, profile) = (journal.clone(), Arc::clone(alive), terms.profile);
    let router = Router::new()
        .method("do", move |(number, plan, _pad): (u64, Plan, String), cx: Context| {
            let alive = Alive::new(&journal, side, number, &count);
            let journal = journal.clone();
            check_bounds(&journal, side, &profile, cx.peer());
            async move {
                let _alive = alive;
                follow(number, plan, side, cx, &journal, profile.dialect).await
            }
        })
        .method("event", async |_: Value| Ok::<_, Failure>(()))
        .shutdown("bye", async |number: (u64,)| Ok::<_, Failure>((number.0, String::new())))
        .ordered_by(|_, params| {
            let (number, ..) = params.parse::<(u64, IgnoredAny, IgnoredAny)>().ok()?;
            lane_of(number)
        });
    ["do", "event", "bye"].into_iter().fold(router, |router, method| terms.pace(router, method))
}

/// What is under way stays within the limits (P9).
fn check_bounds(journal: &Journal, side: usize, profile: &Profile, peer: &Peer) {
    let (stats, limits) = (peer.stats(), &profile.limits);
    let most_running = if profile.order == Order::Sequential { 1 } else { limits.in_flight.max(1) };
    // Notifications may go beyond, by their bytes, and so may the rest of a batch.
    let most_waiting = limits.waiting + limits.waiting_bytes / 256 * 4 + 8;
    // The one that closes is never one too many.
    if stats.running > most_running + 1
        || stats.waiting > most_waiting
        || stats.pending_calls > limits.pending_calls
    {
        journal.object(format!("side {side} has too much under way: {stats:?}"));
    }
}

/// Which messages are kept in order where the order is by key.
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
            journal.note(Event::Told { side, number: number + 1, is_sent: told.is_ok() });
        }
        Plan::Progress(every, times) => {
            for _ in 0..times {
                sleep(every).await;
                let (method, token) = progress_words(dialect);
                // Who does not hear of it gives up the earlier.
                let _ = cx.peer().notify(method, json!({ token: number })).await;
            }
        }
        Plan::Back(plan, timeout) => {
            let call = Called { peer: cx.peer(), journal, side, number: number + 1 };
            return Ok(call
                .make(*plan, 0, Terms { timeout, total: None, dropped: None })
                .await??);
        }
    }
    Ok((number, "x".repeat(bytes)))
}

fn progress_words(dialect: Dialect) -> (&'static str, &'static str) {
    match dialect {
        Dialect::Dollar | Dialect::None => ("$/progress", "token"),
        Dialect::Notifications => ("notifications/progress", "progressToken"),
    }
}

// ---- calls

struct Called<'a> {
    peer: &'a Peer,
    journal: &'a Journal,
    side: usize,
    number: u64,
}

struct Terms {
    timeout: u64,
    total: Option<u64>,
    dropped: Option<u64>,
}

/// Ends a call in the journal also if the handler that makes it is dropped.
struct Entry<'a> {
    journal: &'a Journal,
    place: usize,
    end: Option<End>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.journal.end(self.place, self.end.take());
    }
}

/// That a call was dropped.
#[derive(Debug)]
struct Dropped;

impl From<Dropped> for Failure {
    fn from(_: Dropped) -> Self {
        Failure::new(-1, "dropped")
    }
}

impl Called<'_> {
    async fn make(
        self,
        plan: Plan,
        pad: usize,
        terms: Terms,
    ) -> Result<Result<Answer, Error>, Dropped> {
        let params = (self.number, plan, "p".repeat(pad));
        self.ask("do", params, terms).await
    }

    async fn ask(
        self,
        method: &str,
        params: impl serde::Serialize,
        terms: Terms,
    ) -> Result<Result<Answer, Error>, Dropped> {
        let Terms { timeout, total, dropped } = terms;
        let mut call = self.peer.call::<Answer>(method, params).timeout(millis(timeout));
        if let Some(total) = total {
            call = call.restart_on_progress(self.number, millis(total));
        }
        let (side, number, begun, ended) = (self.side, self.number, 0, None);
        let id = call.id().as_raw().to_owned();
        let place = self.journal.begin(Call { side, id, number, begun, timeout, total, ended });
        let mut entry = Entry { journal: self.journal, place, end: None };
        let answer = match dropped {
            None => call.await,
            Some(time) => match tokio::time::timeout(millis(time), call).await {
                Ok(answer) => answer,
                Err(_) => return Err(Dropped),
            },
        };
        entry.end = Some(end_of(&answer));
        Ok(answer)
    }
}

fn end_of(answer: &Result<Answer, Error>) -> End {
    match answer {
        Ok((number, _)) => End::Value(*number),
        Err(error) => match (error.kind(), error.remote()) {
            (ErrorKind::Timeout, _) => End::Timeout,
            (ErrorKind::Remote, Some(remote)) => End::Code(remote.code),
            (ErrorKind::Capacity, _) => End::Capacity,
            (ErrorKind::Disconnected, _) => End::Disconnected,
            (kind, _) => End::Other(format!("{kind:?}")),
        },
    }
}

// ---- acts

struct Actor {
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
    fn new(world: &World, journal: &Journal, peer: &Peer, act: &Act) -> Self {
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

async fn perform(actor: Actor) {
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
                let sent = events.send(priority, &n);
                assert!(sent.is_ok(), "a number is JSON");
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
async fn last_call(journal: &Journal, peers: &[Peer; 2], side: usize) -> bool {
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

// ---- the end

/// Waits until nothing is under way. The clock goes on only when nobody can do anything, so what has
/// not left a peer by then waits for room on the link.
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

/// Nothing is left of a connection that is closed, and every operation fails at once (P5).
async fn check_closed(journal: &Journal, side: usize, peer: &Peer) {
    let stats = peer.stats();
    if stats.pending_calls + stats.running + stats.waiting > 0 {
        journal.object(format!("side {side} is closed and not quiet: {stats:?}"));
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
    if !is_closed(called.map_ok(|_| ())) || !is_closed(told) || closed.is_pending() {
        journal.object(format!("side {side} is closed, and does not say so at once"));
    }
}

/// Writes down each state; the future keeps no handle.
fn watch(journal: Journal, side: usize, peer: &Peer) -> impl Future<Output = ()> + use<> {
    let mut states = peer.watch();
    async move {
        loop {
            let name = match &*states.borrow_and_update() {
                State::Connecting => "connecting",
                State::Connected => "connected",
                State::Draining => "draining",
                State::Disconnected(_) => "disconnected",
            };
            journal.note(Event::State(side, name));
            if name == "disconnected" || states.changed().await.is_err() {
                return;
            }
        }
    }
}

async fn sleep(ms: u64) {
    tokio::time::sleep(millis(ms)).await;
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn alive_tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}
