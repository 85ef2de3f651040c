//! Two real peers under random orders of events, against what should become of each call.
//!
//! Each seed is one dialogue: calls, notifications, call-backs, failures, panics, timeouts, dropped
//! calls, perhaps a close, on a clock that stands still while anything can run. So what a seed does
//! is the same each time, and where no order and no limit makes messages wait for each other, the
//! model knows how every call ends. Elsewhere it knows how it may end.
//!
//! What goes over a pipe is written down, and read again at the end: every request once, every
//! answer to a request, no request answered twice, and none left unanswered unless it was closed.

mod links;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duet_rpc::proto::Limits;
use duet_rpc::proto::message::{Code, ErrorObject};
use duet_rpc::proto::policy::Order;
use duet_rpc::transport::{Stream, memory};
use duet_rpc::{Context, Error, ErrorKind, Failure, Peer, Profile, Router};
use links::{alive_tasks, is_quiet, stopped_clock, until};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinSet;

const SEEDS: u64 = 200;
/// Longer than any dialogue takes on its own clock.
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

#[test]
fn every_call_settles_once_as_the_model_says() {
    for seed in 0..SEEDS {
        let dialogue = Dialogue::random(seed);
        stopped_clock().block_on(async {
            let run = tokio::time::timeout(FOR_EVER, dialogue.run());
            assert!(run.await.is_ok(), "seed {seed} hangs: {dialogue:?}");
        });
    }
}

// ---- what is done

#[derive(Debug)]
struct Dialogue {
    seed: u64,
    order: Order,
    in_flight: usize,
    /// The size of the pipe; `None` for a link in memory.
    pipe: Option<usize>,
    acts: Vec<Act>,
    /// Who closes, and when, in milliseconds.
    close: Option<(usize, u64)>,
}

#[derive(Debug)]
struct Act {
    /// Which of the two does it.
    by: usize,
    /// When, in milliseconds.
    at: u64,
    deed: Deed,
    number: u64,
    plan: Plan,
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    Notify,
    /// A call with this timeout, in milliseconds.
    Call(u64),
    /// A call that is dropped so many milliseconds later.
    CallAndDrop(u64),
}

/// What the handler does. Times are whole tens of milliseconds, timeouts lie between them, so that
/// no two events of a dialogue that matter to each other fall on the same moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Plan {
    Now,
    After(u64),
    Never,
    Fail(i64),
    Panic,
    PanicAfter(u64),
    /// Calls back, with a timeout, and passes on what comes of it.
    Back(Box<Plan>, u64),
}

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Value(u64),
    Code(i64),
    Timeout,
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ bits >> 31) % bound
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    fn timeout(&mut self) -> u64 {
        self.below(40) * 10 + 5
    }

    fn plan(&mut self, depth: u32) -> Plan {
        match self.below(if depth == 0 { 6 } else { 9 }) {
            0 => Plan::Now,
            1 => Plan::After(self.below(30) * 10),
            2 => Plan::Never,
            3 => Plan::Fail(-32001 - self.below(3) as i64),
            4 => Plan::Panic,
            5 => Plan::PanicAfter(self.below(30) * 10),
            _ => Plan::Back(Box::new(self.plan(depth - 1)), self.timeout()),
        }
    }
}

impl Dialogue {
    fn random(seed: u64) -> Self {
        let mut random = Random(seed);
        let order =
            random.pick(&[Order::Concurrent, Order::Concurrent, Order::Barrier, Order::Sequential]);
        let in_flight = random.pick(&[1000, 1000, 3]);
        let pipe = random.pick(&[None, Some(1), Some(7), Some(100), Some(4096)]);
        let acts = (0..3 + random.below(30)).map(|number| {
            let deed = match random.below(4) {
                0 => Deed::Notify,
                1 => Deed::CallAndDrop(random.below(30) * 10 + 3),
                _ => Deed::Call(random.timeout()),
            };
            let mut plan = random.plan(3);
            // One that never ends would be in the way of all that comes after it.
            if let (Deed::Notify, true) = (deed, plan.is_endless()) {
                plan = Plan::Now;
            }
            let (by, at) = (random.below(2) as usize, random.below(20) * 10);
            Act { by, at, deed, number, plan }
        });
        let acts = acts.collect();
        let close = match random.below(3) {
            0 => Some((random.below(2) as usize, random.below(40) * 10 + random.below(2))),
            _ => None,
        };
        Dialogue { seed, order, in_flight, pipe, acts, close }
    }

    /// Whether nothing but the plans decides how calls end.
    fn is_exact(&self) -> bool {
        self.order == Order::Concurrent && self.in_flight > 100 && self.close.is_none()
    }
}

impl Plan {
    fn is_endless(&self) -> bool {
        match self {
            Plan::Never => true,
            Plan::Back(plan, _) => plan.is_endless(),
            _ => false,
        }
    }

    fn calls_back(&self) -> bool {
        matches!(self, Plan::Back(..))
    }

    /// How it ends and after how many milliseconds; `None` for never.
    fn end(&self, value: u64) -> Option<(u64, End)> {
        match self {
            Plan::Now => Some((0, End::Value(value))),
            Plan::After(time) => Some((*time, End::Value(value))),
            Plan::Never => None,
            Plan::Fail(code) => Some((0, End::Code(*code))),
            Plan::Panic => Some((0, End::Code(-32603))),
            Plan::PanicAfter(time) => Some((*time, End::Code(-32603))),
            Plan::Back(plan, timeout) => match plan.end(value + 1) {
                Some((time, End::Value(value))) if time < *timeout => {
                    Some((time, End::Value(value)))
                }
                // Errors of a call are the handler's failure.
                Some((time, _)) if time < *timeout => Some((time, End::Code(-32603))),
                _ => Some((*timeout, End::Code(-32603))),
            },
        }
    }
}

// ---- how it is done

/// What the two peers' handlers have seen.
#[derive(Default)]
struct Seen {
    /// How often each number was handled.
    handled: Mutex<HashMap<u64, usize>>,
    alive: AtomicIsize,
}

struct Alive(Arc<Seen>);

impl Alive {
    fn new(seen: &Arc<Seen>, number: u64) -> Self {
        *seen.handled.lock().expect("not poisoned").entry(number).or_default() += 1;
        seen.alive.fetch_add(1, Ordering::SeqCst);
        Alive(Arc::clone(seen))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Numbers of acts have room between them for their call-backs.
const STEP: u64 = 10;

fn router(seen: &Arc<Seen>) -> Router {
    let seen = Arc::clone(seen);
    Router::new().method("do", move |(number, plan): (u64, Plan), cx: Context| {
        let alive = Alive::new(&seen, number);
        async move {
            let _alive = alive;
            match plan {
                Plan::Now => Ok(number),
                Plan::After(time) => {
                    tokio::time::sleep(Duration::from_millis(time)).await;
                    Ok(number)
                }
                Plan::Never => std::future::pending().await,
                Plan::Fail(code) => {
                    Err(Failure::from(ErrorObject::application(Code(code), "no", None)))
                }
                Plan::Panic => std::panic::resume_unwind(Box::new("on purpose")),
                Plan::PanicAfter(time) => {
                    tokio::time::sleep(Duration::from_millis(time)).await;
                    std::panic::resume_unwind(Box::new("on purpose"))
                }
                Plan::Back(plan, timeout) => {
                    let call = cx.peer().call::<u64>("do", (number + 1, plan));
                    Ok(call.timeout(Duration::from_millis(timeout)).await?)
                }
            }
        }
    })
}

impl Dialogue {
    async fn run(&self) {
        let before = alive_tasks();
        let seen = Arc::new(Seen::default());
        let limits = Limits { in_flight: self.in_flight, ..Limits::default() };
        let profile = Profile { order: self.order, limits, ..Profile::agent() };
        let tape = Arc::<Tape>::default();
        let peers = self.join(&profile, &seen, &tape);

        let mut acts = JoinSet::new();
        for act in &self.acts {
            let (peer, number, at) = (peers[act.by].clone(), act.number * STEP, act.at);
            let (deed, plan) = (act.deed, act.plan.clone());
            acts.spawn(async move {
                tokio::time::sleep(Duration::from_millis(at)).await;
                (number / STEP, perform(&peer, number, deed, plan).await)
            });
        }
        let closing = self.close.map(|(by, at)| {
            let peer = peers[by].clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(at)).await;
                peer.close().await;
            })
        });
        let ends: HashMap<u64, Option<Result<u64, Error>>> =
            acts.join_all().await.into_iter().collect();
        for act in &self.acts {
            self.check(act, ends.get(&act.number).expect("each act ends"));
        }

        match closing {
            None => {
                until_quiet(&peers).await;
                // What is still on its way, such as answers to calls that were given up, arrives
                // before these do.
                for (peer, number) in peers.iter().zip([1_000_000, 1_000_001]) {
                    let call = peer.call::<u64>("do", (number, Plan::Now));
                    assert_eq!(call.await.expect("it works on"), number, "{self:?}");
                }
                peers[0].close().await;
            }
            Some(closing) => closing.await.expect("no panic"),
        }
        for peer in &peers {
            peer.closed().await;
            assert!(is_quiet(peer), "{self:?}");
        }
        until(|| seen.alive.load(Ordering::SeqCst) == 0 && alive_tasks() == before).await;
        self.check_handled(&seen);
        self.check_unmatched(&peers, &ends);
        if self.pipe.is_some() {
            self.check_tape(&tape);
        }
    }

    fn join(&self, profile: &Profile, seen: &Arc<Seen>, tape: &Arc<Tape>) -> [Peer; 2] {
        let Some(room) = self.pipe else {
            let (here, there) = memory::pair();
            return [
                Peer::spawn(here, profile, router(seen)),
                Peer::spawn(there, profile, router(seen)),
            ];
        };
        let ((one, left), (right, two)) = (tokio::io::duplex(room), tokio::io::duplex(room));
        let ((left_in, left_out), (right_in, right_out)) =
            (tokio::io::split(left), tokio::io::split(right));
        tokio::spawn(pump(left_in, right_out, Arc::clone(tape), 0));
        tokio::spawn(pump(right_in, left_out, Arc::clone(tape), 1));
        [
            Peer::spawn(Stream::of(one), profile, router(seen)),
            Peer::spawn(Stream::of(two), profile, router(seen)),
        ]
    }
}

/// Waits until nothing is under way, while the clock goes on.
async fn until_quiet(peers: &[Peer; 2]) {
    while !peers.iter().all(is_quiet) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Does it; for a call, how it ended, unless it was dropped.
async fn perform(peer: &Peer, number: u64, deed: Deed, plan: Plan) -> Option<Result<u64, Error>> {
    let call = |plan| peer.call::<u64>("do", (number, plan));
    match deed {
        Deed::Notify => Some(peer.notify("do", (number, plan)).await.map(|()| number)),
        Deed::Call(timeout) => Some(call(plan).timeout(Duration::from_millis(timeout)).await),
        Deed::CallAndDrop(time) => {
            tokio::time::timeout(Duration::from_millis(time), call(plan)).await.ok()
        }
    }
}

/// What went over the pipes, each way.
#[derive(Default)]
struct Tape([Mutex<Vec<u8>>; 2]);

async fn pump(
    mut from: ReadHalf<DuplexStream>,
    mut to: WriteHalf<DuplexStream>,
    tape: Arc<Tape>,
    way: usize,
) {
    let mut bytes = [0; 512];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        tape.0[way].lock().expect("not poisoned").extend_from_slice(&bytes[..count]);
        if to.write_all(&bytes[..count]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

// ---- whether it was right

impl Dialogue {
    fn check(&self, act: &Act, end: &Option<Result<u64, Error>>) {
        let place = || format!("seed {}, {act:?}: {end:?}\n{self:?}", self.seed);
        let planned = act.plan.end(act.number * STEP);
        let Some(end) = end else {
            // It was dropped.
            if let (true, Deed::CallAndDrop(dropped)) = (self.is_exact(), act.deed) {
                assert!(planned.is_none_or(|(time, _)| time > dropped), "{}", place());
            }
            return;
        };
        if let Deed::Notify = act.deed {
            let is_closed = |error: &Error| error.kind() == ErrorKind::Disconnected;
            assert!(end.as_ref().err().is_none_or(|e| self.close.is_some() && is_closed(e)));
            return;
        }
        let timeout = match act.deed {
            Deed::Call(timeout) => timeout,
            _ => u64::MAX,
        };
        let expected = match planned {
            Some((time, end)) if time < timeout => end,
            _ => End::Timeout,
        };
        let actual = match end {
            Ok(value) => End::Value(*value),
            Err(error) => match (error.kind(), error.remote()) {
                (ErrorKind::Timeout, _) => End::Timeout,
                (ErrorKind::Remote, Some(remote)) => End::Code(remote.code),
                (ErrorKind::Disconnected, _) if self.close.is_some() => return,
                _ => panic!("{}", place()),
            },
        };
        let is_right = actual == expected
            || !self.is_exact()
                && match actual {
                    // It had to wait for others, or its call-backs had.
                    End::Timeout => true,
                    End::Code(-32603) => act.plan.calls_back(),
                    End::Code(-32000) => self.in_flight < 100,
                    // It did not have to wait for the one that it calls back.
                    _ => planned.is_some_and(|(_, end)| end == actual),
                };
        assert!(is_right, "expected {expected:?}, {}", place());
    }

    fn check_handled(&self, seen: &Seen) {
        let handled = seen.handled.lock().expect("not poisoned");
        for (number, times) in handled.iter() {
            assert_eq!(*times, 1, "seed {}: {number} was handled again", self.seed);
        }
        let must_begin = |act: &&Act| match act.deed {
            Deed::Notify => self.close.is_none() && (self.in_flight > 100 || self.pipe.is_none()),
            _ => self.is_exact(),
        };
        for act in self.acts.iter().filter(must_begin) {
            let number = act.number * STEP;
            assert!(handled.contains_key(&number), "seed {}: {number} was lost", self.seed);
        }
    }

    /// An answer that nobody waits for is one to a call that timed out or was dropped.
    fn check_unmatched(&self, peers: &[Peer; 2], ends: &HashMap<u64, Option<Result<u64, Error>>>) {
        let gave_up = |end: &Option<Result<u64, Error>>| match end {
            None => true,
            Some(Err(error)) => error.kind() == ErrorKind::Timeout,
            Some(Ok(_)) => false,
        };
        for (by, peer) in peers.iter().enumerate() {
            let own = self.acts.iter().filter(|act| act.by == by && gave_up(&ends[&act.number]));
            // And the call-backs: there are at most three to an act.
            let backs = self.acts.iter().filter(|act| act.plan.calls_back()).count() * 3;
            let unmatched = peer.stats().unmatched_answers;
            assert!(unmatched <= own.count() + backs, "seed {}", self.seed);
        }
    }

    fn check_tape(&self, tape: &Tape) {
        let mut requests = [HashSet::new(), HashSet::new()];
        let mut answers = [HashSet::new(), HashSet::new()];
        for way in 0..2 {
            let text = tape.0[way].lock().expect("not poisoned");
            // A connection that is cut may end inside a line.
            for line in text.split_inclusive(|&byte| byte == b'\n') {
                let is_whole = line.ends_with(b"\n");
                assert!(is_whole || self.close.is_some(), "seed {}", self.seed);
                let Ok(message) = serde_json::from_slice::<Value>(line) else {
                    assert!(!is_whole, "seed {}", self.seed);
                    continue;
                };
                let id = message.get("id").map(ToString::to_string);
                let is_new = match (id, message.get("method")) {
                    (Some(id), Some(_)) => requests[way].insert(id),
                    (Some(id), None) => answers[1 - way].insert(id),
                    (None, _) => true,
                };
                assert!(is_new, "seed {}: twice: {message}", self.seed);
            }
        }
        for way in 0..2 {
            let (asked, answered) = (&requests[way], &answers[way]);
            assert!(answered.is_subset(asked), "seed {}: answers to nothing", self.seed);
            let is_whole = self.close.is_some() || asked == answered;
            assert!(is_whole, "seed {}: unanswered: {:?}", self.seed, asked.difference(answered));
        }
    }
}
