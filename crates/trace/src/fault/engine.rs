//! The faults of one session: messages come in, steps for each direction go out.
//!
//! ```text
//!  bytes ──▶ Stream ──▶ message ──▶ rules ──▶ Plan ──▶ FaultLine ──▶ FaultStep: write, wait, close, kill
//!                                     │                   ▲
//!                                     └──▶ FaultNote      └── answers of ours: the line of the other direction
//! ```
//!
//! It does no I/O and has no clock: the caller passes the time of the session, in microseconds, and does
//! what the steps say. A caller with a transport of messages uses [`handle_message`](Faults::handle_message),
//! one with bytes [`handle_bytes`](Faults::handle_bytes).

use std::borrow::Cow;
use std::sync::Arc;

use duet_rpc_proto::Limits;
use duet_rpc_proto::frame::Framing;
use duet_rpc_proto::text::Text;

use super::frame::{FaultFrame, STRAY_PRINT};
use super::line::{FaultLine, FaultStep, WritePace, later};
use super::plan::{Fate, Plan};
use super::random::mix;
use super::rule::FaultRule;
use crate::envelope::{Envelope, envelope};
use crate::filter::Facts;
use crate::pairs::{Asked, Pairs, short};
use crate::record::{Body, Dir, Kind, Record};
use crate::stream::{Part, Stream};
use crate::sys;
use crate::web::apply_mask;
use crate::wire::Wire;

/// The fault rules of a session, and the state that they need.
///
/// ```
/// use duet_rpc_trace::{Dir, FaultStep, Faults};
///
/// # fn main() -> Result<(), duet_rpc_trace::FilterError> {
/// let rules = vec!["drop method:log".parse()?, "dup dir:s2c nth:1".parse()?];
/// let mut faults = Faults::new(rules, 42);
/// faults.handle_bytes(Dir::S2c, 10, b"{\"method\":\"log\"}\n{\"method\":\"hi\"}\n");
/// let hi = || FaultStep::Write(b"{\"method\":\"hi\"}\n".to_vec());
/// let steps: Vec<_> = (0..3).map(|_| faults.poll(Dir::S2c, 10)).collect();
/// assert_eq!(steps, [hi(), hi(), FaultStep::Wait(None)]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Faults {
    rules: Vec<RuleState>,
    seed: u64,
    c2s: Way,
    s2c: Way,
    is_cut: bool,
    notes: Vec<FaultNote>,
}

/// A fault that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultNote {
    /// The time at which the message came.
    pub at: u64,
    /// The direction of the message.
    pub dir: Dir,
    /// The rule.
    pub rule: String,
    /// The kind of the message.
    pub kind: Kind,
    /// Its id, a JSON text.
    pub id: Option<String>,
    /// Its method; that of the request, for an answer.
    pub method: Option<String>,
    /// The number of bytes of its body.
    pub size: u64,
    /// Its body, if other bytes reached the receiver, or none.
    pub body: Option<Vec<u8>>,
}

/// A rule, and the messages that it has seen.
#[derive(Debug)]
struct RuleState {
    rule: FaultRule,
    /// Matches in each direction.
    matched: [u64; 2],
    applied: u64,
}

/// One direction.
struct Way {
    stream: Stream,
    /// No rule concerns this direction: bytes pass immediately.
    is_free: bool,
    /// Each piece of bytes is a message, because its protocol is not known.
    has_pieces: bool,
    /// The requests that came this way.
    pairs: Pairs,
    /// Messages so far.
    count: u64,
    line: FaultLine,
    /// Nothing passes any more.
    is_closed: bool,
    /// The last frame was dropped, so the rest of it is dropped too.
    drops_rest: bool,
    /// The other direction has given this one something to do.
    is_woken: bool,
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Way").field("line", &self.line).finish_non_exhaustive()
    }
}

/// A message on its way to the rules.
struct Passage {
    at: u64,
    kind: Kind,
    frame: FaultFrame,
    envelope: Envelope,
}

impl Faults {
    /// The rules at the start of a session.
    pub fn new(rules: Vec<FaultRule>, seed: u64) -> Self {
        let state = |rule| RuleState { rule, matched: [0; 2], applied: 0 };
        // An answer of ours must not come between the pieces of a message.
        let has_answers = rules.iter().any(FaultRule::may_answer);
        let way = |dir| Way::new(!has_answers && !rules.iter().any(|it| it.filter.may_match(dir)));
        let (c2s, s2c) = (way(Dir::C2s), way(Dir::S2c));
        let rules = rules.into_iter().map(state).collect();
        Faults { rules, seed, c2s, s2c, is_cut: false, notes: Vec::new() }
    }

    /// Sets the framing of both directions; otherwise it is detected.
    #[must_use]
    pub fn with_framing(mut self, framing: Option<Framing>) -> Self {
        for way in [&mut self.c2s, &mut self.s2c] {
            way.stream = Stream::new(framing);
        }
        self
    }

    /// Takes each piece of bytes as one message of kind `noise`: for protocols whose messages are not known.
    #[must_use]
    pub fn with_pieces(mut self) -> Self {
        (self.c2s.has_pieces, self.s2c.has_pieces) = (true, true);
        self
    }

    /// Takes bytes that came at this time. They wait until their message is whole, except in a direction that no
    /// rule concerns.
    pub fn handle_bytes(&mut self, dir: Dir, at: u64, bytes: &[u8]) {
        let Some((way, other)) = self.ways(dir) else { return };
        if way.is_closed {
            return;
        }
        let mut passing = Vec::new();
        if way.is_free {
            way.line.push(bytes.to_vec(), at, WritePace::Whole, false);
        }
        if way.has_pieces {
            passing.push(Passage::piece(at, bytes));
        } else {
            if let Some(carrier) = other.stream.carrier() {
                way.stream.suggest(carrier);
            }
            way.stream.handle_bytes(at, bytes, &mut |part| passing.push(Passage::new(at, part)));
        }
        passing.into_iter().for_each(|it| self.handle(dir, it));
    }

    /// Takes a whole message, of a transport that has messages. The bytes to write are then whole messages
    /// too.
    pub fn handle_message(&mut self, dir: Dir, at: u64, body: &[u8]) {
        let Some((way, _)) = self.ways(dir) else { return };
        way.line.has_messages = true;
        let frame =
            FaultFrame { wire: None, head: Vec::new(), body: body.to_vec(), tail: Vec::new() };
        let (kind, envelope) = match Text::check(body, Limits::MAX_DEPTH) {
            Ok(text) => envelope(&text),
            Err(_) => (Kind::Broken, Envelope::default()),
        };
        self.handle(dir, Passage { at, kind, frame, envelope });
    }

    /// Takes the end of the sender's stream.
    pub fn handle_eof(&mut self, dir: Dir, at: u64) {
        let Some((way, _)) = self.ways(dir) else { return };
        let mut passing = Vec::new();
        way.stream.handle_end("the stream ended", &mut |part| passing.push(Passage::new(at, part)));
        passing.into_iter().for_each(|it| self.handle(dir, it));
        if let Some((way, _)) = self.ways(dir) {
            way.line.finish();
            way.is_closed = true;
        }
    }

    /// The receiver has closed its end: nothing can be written to it any more.
    pub fn handle_closed(&mut self, dir: Dir) {
        if let Some((way, other)) = self.ways(dir) {
            way.line.clear();
            way.is_closed = true;
            other.is_woken = true;
        }
    }

    /// Returns `true` if rules may answer requests: then few bytes may become many.
    pub(crate) fn may_answer(&self) -> bool {
        self.rules.iter().any(|it| it.rule.may_answer())
    }

    /// The next step for the writer of a direction, at this time.
    pub fn poll(&mut self, dir: Dir, now: u64) -> FaultStep {
        if self.is_cut {
            return FaultStep::Cut;
        }
        let Some((way, other)) = self.ways(dir) else { return FaultStep::End };
        let had_room = way.line.has_room_for_own();
        let step = way.line.poll(now);
        // The other direction was not read while its answers had no room here.
        other.is_woken |= way.line.has_room_for_own() && !had_room;
        if step == FaultStep::Cut {
            other.is_woken = true;
            self.is_cut = true;
        }
        step
    }

    /// Returns `true` if there is room for more messages of a direction. Memory is bounded: without room,
    /// the sender has to wait.
    pub fn may_read(&self, dir: Dir) -> bool {
        let (way, other) = match dir {
            Dir::C2s => (&self.c2s, &self.s2c),
            _ => (&self.s2c, &self.c2s),
        };
        way.line.has_room() && other.line.has_room_for_own()
    }

    /// Returns `true` once if the other direction has given this one something to do.
    pub fn take_wake(&mut self, dir: Dir) -> bool {
        self.ways(dir).is_some_and(|(way, _)| std::mem::take(&mut way.is_woken))
    }

    /// The faults that were made since the last call.
    pub fn take_notes(&mut self) -> Vec<FaultNote> {
        std::mem::take(&mut self.notes)
    }

    /// For each rule, the number of messages that matched it, and of those that got its fault.
    pub fn counts(&self) -> Vec<(u64, u64)> {
        let counts = |it: &RuleState| (it.matched.iter().sum(), it.applied);
        self.rules.iter().map(counts).collect()
    }

    /// The direction, and the other one.
    fn ways(&mut self, dir: Dir) -> Option<(&mut Way, &mut Way)> {
        match dir {
            Dir::C2s => Some((&mut self.c2s, &mut self.s2c)),
            Dir::S2c => Some((&mut self.s2c, &mut self.c2s)),
            _ => None,
        }
    }

    fn handle(&mut self, dir: Dir, passing: Passage) {
        let Some((way, other)) = self.ways(dir) else { return };
        if way.is_closed {
            return;
        }
        let Passage { at, kind, frame, envelope } = passing;
        if way.is_free && !way.line.has_messages {
            // Its bytes are in the line already. An answer to it may be of interest.
            way.count += 1;
            let mut record = Record::new(way.count, at, dir, kind);
            relate(&mut record, &envelope, &mut way.pairs, &mut other.pairs);
            return;
        }
        // The end of a line between messages, and the rest of a frame, go with what came before.
        if matches!(kind, Kind::Blank | Kind::More) {
            if kind == Kind::Blank || !way.drops_rest {
                way.line.push(frame.bytes(), at, WritePace::Whole, false);
            }
            return;
        }
        let before = way.count;
        way.count += 1;
        let mut record = Record::new(way.count, at, dir, kind);
        relate(&mut record, &envelope, &mut way.pairs, &mut other.pairs);
        record.size = Some(frame.body.len() as u64);
        let original = frame.body.clone();
        record.body = Some(match std::str::from_utf8(&original) {
            Ok(text) if kind.is_message() => Body::from_json(text),
            _ => Body::from_bytes(&original),
        });

        let mut plan = Plan::new(kind, frame);
        let (seed, side) = (self.seed, usize::from(dir == Dir::S2c));
        for (number, state) in self.rules.iter_mut().enumerate() {
            let FaultRule { fault, filter, choice, .. } = &state.rule;
            if !choice.is_after(at, before)
                || !filter.matches(&record, &Facts::default())
                || !plan.can(fault)
            {
                continue;
            }
            let random = mix(&[seed, number as u64, side as u64, state.matched[side]]);
            state.matched[side] += 1;
            if !choice.takes(state.matched.iter().sum(), random) {
                continue;
            }
            state.applied += 1;
            plan.apply(fault, random);
            self.notes.push(FaultNote {
                at,
                dir,
                rule: state.rule.to_string(),
                kind,
                id: record.id.as_deref().map(str::to_owned),
                method: record.method.as_deref().map(str::to_owned),
                size: original.len() as u64,
                body: fault.changes_bytes().then(|| original.clone()),
            });
        }
        if let Some((way, other)) = self.ways(dir) {
            way.drops_rest = plan.fate == Fate::Drop;
            carry_out(plan, at, way, other);
        }
    }
}

/// Puts the message into the line of its direction, or an answer into the other.
fn carry_out(plan: Plan, at: u64, way: &mut Way, other: &mut Way) {
    for frame in &plan.extra {
        other.push_own(frame, later(at, plan.delay));
    }
    match plan.fate {
        Fate::Drop => return,
        Fate::HalfClose => return way.close_with(FaultStep::HalfClose),
        Fate::Cut => return way.close_with(FaultStep::Cut),
        Fate::Kill(signal) => return way.kill(signal),
        Fate::Pass => {}
    }
    let due = later(at, plan.delay);
    let is_own = plan.is_answer;
    let (way, other) = if is_own { (other, way) } else { (way, other) };
    if is_own && way.is_closed {
        return;
    }
    way.is_woken |= is_own;
    if let Some(time) = plan.stall {
        way.line.stall(at.saturating_add(time));
        // An endless stall makes room.
        other.is_woken = true;
    }
    if plan.has_print {
        way.line.push(STRAY_PRINT.to_vec(), due, WritePace::Whole, is_own);
    }
    let bytes: Arc<[u8]> = plan.frame.bytes().into();
    for _ in 0..plan.copies {
        match plan.overtaken {
            Some((count, most)) => {
                let until = later(due, most);
                way.line.hold(Arc::clone(&bytes), plan.pace, count, until, is_own);
            }
            None => way.line.push(Arc::clone(&bytes), due, plan.pace, is_own),
        }
    }
}

impl Way {
    fn new(is_free: bool) -> Self {
        Way {
            is_free,
            stream: Stream::new(None),
            has_pieces: false,
            pairs: Pairs::default(),
            count: 0,
            line: FaultLine::default(),
            is_closed: false,
            drops_rest: false,
            is_woken: false,
        }
    }

    fn push_own(&mut self, frame: &FaultFrame, due: u64) {
        if !self.is_closed {
            self.line.push(frame.bytes(), due, WritePace::Whole, true);
            self.is_woken = true;
        }
    }

    fn close_with(&mut self, step: FaultStep) {
        self.line.mark(step);
        self.is_closed = true;
    }

    /// After SIGKILL, the session is over; other signals let it go on, and so do callers with a transport of messages,
    /// which may start another server.
    fn kill(&mut self, signal: i32) {
        self.line.mark(FaultStep::Kill(signal));
        let is_last = signal == sys::KILL;
        self.is_closed = is_last && !self.line.has_messages;
    }
}

impl Passage {
    fn new(at: u64, part: Part<'_>) -> Self {
        let Part { kind, wire, head, body, tail, mask, raw, envelope, .. } = part;
        // Rules do not look into the frames of WebSocket and the bodies of HTTP.
        if matches!(wire, Some(Wire::Ws | Wire::Http)) || mask.is_some() || raw.is_some() {
            let mut body = body.to_vec();
            apply_mask(mask, &mut body);
            let whole = [head, &body, tail].concat();
            return Passage::piece(at, raw.unwrap_or(&whole));
        }
        let frame =
            FaultFrame { wire, head: head.to_vec(), body: body.to_vec(), tail: tail.to_vec() };
        Passage { at, kind, frame, envelope }
    }

    fn piece(at: u64, bytes: &[u8]) -> Self {
        let frame =
            FaultFrame { wire: None, head: Vec::new(), body: bytes.to_vec(), tail: Vec::new() };
        Passage { at, kind: Kind::Noise, frame, envelope: Envelope::default() }
    }
}

/// Sets the id and the method. An answer has the method of its request, and the time that it took.
fn relate(record: &mut Record<'_>, envelope: &Envelope, own: &mut Pairs, other: &mut Pairs) {
    record.id = envelope.id.as_ref().map(|id| Cow::Owned(id.as_raw().to_owned()));
    record.method = envelope.method.as_ref().map(|it| Cow::Owned(short(it).to_owned()));
    match (record.kind, &envelope.id, &envelope.method) {
        (Kind::Request, Some(id), Some(method)) => {
            let method = short(method).to_owned();
            own.ask(id.clone(), Asked { seq: record.seq, at: record.at, method });
        }
        (Kind::Response | Kind::Error, Some(id), _) => {
            if let Some(asked) = other.answer(id) {
                record.took = Some(record.at.saturating_sub(asked.at));
                record.method = Some(Cow::Owned(asked.method));
            }
        }
        _ => {}
    }
}
