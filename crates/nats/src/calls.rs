//! Calls of a caller that no worker has answered yet (N3 to N7). No I/O and no clock: the transport asks, and acts.
//!
//! ```text
//!            ┌─────────── busy, a delivery is left ──────────┐
//!            ▼                                               │
//!   begin ─▶ sent ── sign ─▶ accepted ── sign ─▶ accepted    │
//!            │ │                │ │                          │
//!            │ └── answer ──────┴─┼───▶ answered             │
//!            │                    │                          │
//!            └── SILENCE ─────────┴───▶ idempotent: sent again to another worker, or else interrupted
//! ```
//!
//! Each delivery has a number of its own, the last token of its reply subject. So a late answer to an earlier delivery
//! matches no call, and no call is settled twice.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use async_nats::Subject;
use bytes::Bytes;
use duet_rpc::proto::message::{Incoming, Response};
use duet_rpc::proto::policy::BatchRule;
use duet_rpc::proto::text::Text;
use duet_rpc::{Id, Limits};
use rustc_hash::FxHashMap;

use crate::message;

/// A worker is lost if it gave no sign for this time.
pub(crate) const SILENCE: Duration = Duration::from_secs(3);

/// The number of deliveries of one call: the first one, and two more.
const DELIVERIES: u8 = 3;

/// A message for the workers of the service.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) subject: Subject,
    pub(crate) payload: Bytes,
    /// The time at which the caller gives up.
    pub(crate) deadline: Option<Instant>,
}

/// The ids of a message: that of a request, or those of a batch.
#[derive(Debug)]
pub(crate) enum Ids {
    One(Id),
    Many(Vec<Id>),
}

impl Ids {
    pub(crate) fn as_slice(&self) -> &[Id] {
        match self {
            Ids::One(id) => std::slice::from_ref(id),
            Ids::Many(ids) => ids,
        }
    }

    /// The answer to the calls in this text; `None` if it is something else, which a peer would drop, and wait on. An
    /// error without an id answers a message that the worker could not read. It gets the ids, which are known here.
    fn answer_in(&self, text: Bytes, limits: &Limits, is_cancelled: bool) -> Option<Bytes> {
        let checked = Text::check(&text, limits.depth).ok()?;
        match (Incoming::classify(&checked, BatchRule::Allow, limits), self) {
            (Incoming::Response(answer), Ids::One(own)) if answer.id == *own => Some(text),
            (Incoming::Response(Response { id, settled }), _) if id.is_null() => {
                settled.error()?;
                self.address(text)
            }
            (Incoming::Batch(entries), Ids::Many(own)) => {
                let own: HashSet<&Id> = own.iter().collect();
                let mut missing = own.clone();
                for entry in entries {
                    let Incoming::Response(Response { id, .. }) = entry else { return None };
                    if !id.is_null() && !own.contains(&id) {
                        return None;
                    }
                    missing.remove(&id);
                }
                // Some dialects do not answer a cancelled request.
                (missing.is_empty() || is_cancelled).then_some(text)
            }
            _ => None,
        }
    }

    /// This error as the answer to each call.
    fn address(&self, error: Bytes) -> Option<Bytes> {
        Some(match self {
            Ids::One(id) => message::with_id(&error, id)?.into(),
            // An empty batch is answered without an id.
            Ids::Many(ids) if ids.is_empty() => error,
            Ids::Many(ids) => {
                let errors: Option<Vec<_>> =
                    ids.iter().map(|id| message::with_id(&error, id)).collect();
                [&b"["[..], &errors?.join(&b','), b"]"].concat().into()
            }
        })
    }
}

/// What a message on the reply subject says.
#[derive(Debug)]
pub(crate) enum Reply {
    Answer(Bytes),
    /// No worker took the delivery.
    NoWorker,
    /// A worker has the call. Cancellations go to this subject.
    Sign(Subject),
    /// A worker did not begin the call, and says so in this answer.
    Busy(Bytes),
}

/// What the transport has to do.
#[derive(Debug)]
pub(crate) enum Step {
    Nothing,
    /// Pass this answer on to the caller.
    PassOn(Bytes),
    /// Send the delivery again, with this number.
    Again(u64, Delivery),
    /// Tell the worker at this subject to cancel the call.
    Cancel(Subject),
    /// Tell the worker at this subject to cancel these calls of a batch.
    CancelSome(Subject, Vec<Id>),
    /// The calls with these ids have failed.
    Fail(Ids, CallFailure),
}

/// The reason why a call failed without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallFailure {
    NoWorker,
    Silent,
    Oversize {
        size: usize,
        limit: usize,
    },
    LongSubject {
        size: usize,
        limit: usize,
    },
    /// The answer is larger than the caller takes.
    LongAnswer {
        size: usize,
        limit: usize,
    },
    /// The answer is not one to this call.
    Unusable,
}

impl CallFailure {
    /// The error for the peer. Its kind tells whether the call was sent.
    pub(crate) fn into_error(self, service: &str) -> io::Error {
        let kind = match self {
            CallFailure::NoWorker => io::ErrorKind::NotConnected,
            CallFailure::Silent => io::ErrorKind::Interrupted,
            CallFailure::Oversize { .. } | CallFailure::LongSubject { .. } => {
                io::ErrorKind::InvalidInput
            }
            CallFailure::LongAnswer { .. } | CallFailure::Unusable => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, Sentence(self, service.to_owned()))
    }
}

#[derive(Debug)]
struct Sentence(CallFailure, String);

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            CallFailure::NoWorker => {
                write!(f, "no worker serves {}: start one, or wait until one is back", self.1)
            }
            CallFailure::Silent => write!(
                f,
                "the worker of {} gave no sign for {} s: it died, or the broker is out of reach",
                self.1,
                SILENCE.as_secs()
            ),
            CallFailure::Oversize { size, limit } => write!(
                f,
                "message too large: {size} bytes, the broker takes {limit} (its max_payload)"
            ),
            CallFailure::LongSubject { size, limit } => write!(
                f,
                "the subject of the method is too long: {size} bytes, the limit is {limit}"
            ),
            CallFailure::LongAnswer { size, limit } => {
                write!(f, "answer too large: {size} bytes, the limit of the caller is {limit}")
            }
            CallFailure::Unusable => {
                write!(f, "the worker of {} sent something else than an answer", self.1)
            }
        }
    }
}

impl std::error::Error for Sentence {}

/// A delivery without an answer.
#[derive(Debug)]
struct Pending {
    ids: Ids,
    delivery: Delivery,
    is_idempotent: bool,
    deliveries: u8,
    last_sign: Instant,
    worker: Option<Subject>,
    /// `true` if the caller has cancelled it, or calls of it. The worker learns of it as soon as it is known.
    is_cancelled: bool,
    /// The cancelled calls of a batch that the worker does not know of.
    untold: Vec<Id>,
    /// `true` if nobody waits for the answer.
    is_abandoned: bool,
}

impl Pending {
    /// The cancellations that the worker does not know of, if the worker is known.
    fn tell_cancelled(&mut self) -> Step {
        let Some(worker) = self.worker.clone().filter(|_| self.is_cancelled) else {
            return Step::Nothing;
        };
        match self.ids {
            Ids::One(_) => Step::Cancel(worker),
            Ids::Many(_) => Step::CancelSome(worker, std::mem::take(&mut self.untold)),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Calls {
    last: u64,
    /// By number. The numbers are ours, so nobody can make them collide.
    pending: FxHashMap<u64, Pending>,
    numbers: HashMap<Id, u64>,
}

impl Calls {
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The subjects of the calls at their workers, as far as they are known.
    pub(crate) fn workers(&self) -> HashSet<String> {
        let workers = self.pending.values().filter_map(|it| it.worker.as_ref());
        workers.map(ToString::to_string).collect()
    }

    /// Begins a call, or a batch of calls. Returns the number of its delivery.
    pub(crate) fn begin(
        &mut self,
        ids: Ids,
        delivery: Delivery,
        is_idempotent: bool,
        now: Instant,
    ) -> u64 {
        self.insert(Pending {
            ids,
            delivery,
            is_idempotent,
            deliveries: 1,
            last_sign: now,
            worker: None,
            is_cancelled: false,
            untold: Vec::new(),
            is_abandoned: false,
        })
    }

    fn insert(&mut self, pending: Pending) -> u64 {
        self.last += 1;
        for id in pending.ids.as_slice() {
            self.numbers.insert(id.clone(), self.last);
        }
        self.pending.insert(self.last, pending);
        self.last
    }

    fn remove(&mut self, number: u64) -> Option<Pending> {
        let pending = self.pending.remove(&number)?;
        for id in pending.ids.as_slice() {
            // The caller may use an id again.
            if let Entry::Occupied(entry) = self.numbers.entry(id.clone())
                && *entry.get() == number
            {
                entry.remove();
            }
        }
        Some(pending)
    }

    /// Handles a message on the reply subject with this number. The limits are those of the caller.
    pub(crate) fn handle(
        &mut self,
        number: u64,
        reply: Reply,
        limits: &Limits,
        now: Instant,
    ) -> Step {
        if let Reply::Sign(worker) = reply {
            return self.handle_sign(number, worker, now);
        }
        // A late reply, to a delivery that was given up.
        let Some(pending) = self.remove(number) else { return Step::Nothing };
        match reply {
            _ if pending.is_abandoned => Step::Nothing,
            Reply::Busy(_) if pending.deliveries < DELIVERIES && !pending.is_cancelled => {
                self.send_again(pending, now)
            }
            Reply::Answer(text) | Reply::Busy(text) if text.len() > limits.message_bytes => {
                let (size, limit) = (text.len(), limits.message_bytes);
                Step::Fail(pending.ids, CallFailure::LongAnswer { size, limit })
            }
            Reply::Answer(text) | Reply::Busy(text) => {
                match pending.ids.answer_in(text, limits, pending.is_cancelled) {
                    Some(answer) => Step::PassOn(answer),
                    None => Step::Fail(pending.ids, CallFailure::Unusable),
                }
            }
            Reply::NoWorker | Reply::Sign(_) => Step::Fail(pending.ids, CallFailure::NoWorker),
        }
    }

    fn handle_sign(&mut self, number: u64, worker: Subject, now: Instant) -> Step {
        let Some(pending) = self.pending.get_mut(&number) else { return Step::Nothing };
        pending.last_sign = now;
        pending.worker = Some(worker.clone());
        let (step, is_abandoned) = (pending.tell_cancelled(), pending.is_abandoned);
        if is_abandoned {
            self.remove(number);
        }
        step
    }

    fn send_again(&mut self, pending: Pending, now: Instant) -> Step {
        let delivery = pending.delivery.clone();
        let deliveries = pending.deliveries + 1;
        let number = self.insert(Pending { deliveries, last_sign: now, worker: None, ..pending });
        Step::Again(number, delivery)
    }

    /// Cancels the call with this id, which still waits for its answer.
    pub(crate) fn cancel(&mut self, id: &Id) -> Step {
        let Some(pending) = self.numbers.get(id).and_then(|it| self.pending.get_mut(it)) else {
            return Step::Nothing;
        };
        pending.is_cancelled = true;
        if let Ids::Many(_) = pending.ids {
            pending.untold.push(id.clone());
        }
        pending.tell_cancelled()
    }

    /// Cancels the call with this id: nobody waits for its answer any more.
    pub(crate) fn abandon(&mut self, id: &Id) -> Step {
        let Some(&number) = self.numbers.get(id) else { return Step::Nothing };
        let Some(pending) = self.pending.get_mut(&number) else { return Step::Nothing };
        // A batch goes on for its other requests.
        if let Ids::Many(_) = pending.ids {
            return Step::Nothing;
        }
        let was_cancelled = std::mem::replace(&mut pending.is_cancelled, true);
        pending.is_abandoned = true;
        let Some(worker) = pending.worker.clone() else { return Step::Nothing };
        self.remove(number);
        if was_cancelled { Step::Nothing } else { Step::Cancel(worker) }
    }

    /// Ends all calls, because nobody waits any more. Returns the subjects of their workers.
    pub(crate) fn abandon_all(&mut self) -> Vec<Subject> {
        self.numbers.clear();
        let pending = self.pending.drain().map(|(_, pending)| pending);
        let is_told = |it: &Pending| it.is_cancelled && matches!(it.ids, Ids::One(_));
        pending.filter(|it| !is_told(it)).filter_map(|it| it.worker).collect()
    }

    /// The delivery with this number was not sent: it is too large.
    pub(crate) fn refuse(&mut self, number: u64, failure: CallFailure) -> Step {
        match self.remove(number) {
            Some(pending) if !pending.is_abandoned => Step::Fail(pending.ids, failure),
            _ => Step::Nothing,
        }
    }

    /// Ends the calls whose workers are silent. The transport calls it a few times a second.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<Step> {
        let is_silent = |pending: &Pending| now.duration_since(pending.last_sign) >= SILENCE;
        let silent = self.pending.iter().filter(|(_, pending)| is_silent(pending));
        let silent: Vec<u64> = silent.map(|(number, _)| *number).collect();
        silent.into_iter().map(|number| self.give_up(number, now)).collect()
    }

    fn give_up(&mut self, number: u64, now: Instant) -> Step {
        let Some(pending) = self.remove(number) else { return Step::Nothing };
        match pending {
            Pending { is_abandoned: true, .. } => Step::Nothing,
            Pending { is_idempotent: true, is_cancelled: false, deliveries, .. }
                if deliveries < DELIVERIES =>
            {
                self.send_again(pending, now)
            }
            Pending { ids, .. } => Step::Fail(ids, CallFailure::Silent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens to a call, one event after the other.
    enum Event {
        Answer,
        /// This text instead of an answer.
        Other(&'static str),
        Busy,
        /// This text as the answer of a busy worker.
        BusyWith(&'static str),
        NoWorker,
        Sign,
        /// An answer to the delivery before the last.
        Late,
        Cancel,
        Abandon,
        /// This many milliseconds pass.
        Wait(u64),
    }

    use Event::{Abandon, Answer, Busy, BusyWith, Cancel, Late, NoWorker, Other, Sign, Wait};

    const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":2}"#;
    const ERROR: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"busy"}}"#;

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn answer(text: &'static str) -> Reply {
        Reply::Answer(bytes(text))
    }

    /// Plays the events, and returns the steps that are not `Nothing`.
    fn play(is_idempotent: bool, events: &[Event]) -> String {
        let mut now = Instant::now();
        let mut calls = Calls::default();
        let payload = Bytes::from_static(b"{}");
        let delivery = Delivery { subject: "rpc.s.m".into(), payload, deadline: None };
        let id = Id::from(1);
        let limits = Limits::default();
        let mut number = calls.begin(Ids::One(id.clone()), delivery, is_idempotent, now);
        let mut steps = Vec::new();
        for event in events {
            let made = match event {
                Answer => vec![calls.handle(number, answer(RESULT), &limits, now)],
                Other(text) => vec![calls.handle(number, answer(text), &limits, now)],
                Busy => vec![calls.handle(number, Reply::Busy(bytes(ERROR)), &limits, now)],
                BusyWith(text) => {
                    vec![calls.handle(number, Reply::Busy(bytes(text)), &limits, now)]
                }
                NoWorker => vec![calls.handle(number, Reply::NoWorker, &limits, now)],
                Sign => vec![calls.handle(number, Reply::Sign("w".into()), &limits, now)],
                Late => vec![calls.handle(number - 1, answer(RESULT), &limits, now)],
                Cancel => vec![calls.cancel(&id)],
                Abandon => vec![calls.abandon(&id)],
                Wait(ms) => {
                    now += Duration::from_millis(*ms);
                    calls.expire(now)
                }
            };
            for step in made {
                steps.push(match step {
                    Step::Nothing => continue,
                    Step::PassOn(_) => "pass".to_owned(),
                    Step::Again(again, _) => {
                        number = again;
                        "again".to_owned()
                    }
                    Step::Cancel(_) => "cancel".to_owned(),
                    Step::CancelSome(..) => unreachable!("it is no batch"),
                    Step::Fail(ids, failure) => {
                        assert_eq!(ids.as_slice(), std::slice::from_ref(&id));
                        format!("{failure:?}")
                    }
                });
            }
        }
        let left = if calls.is_empty() { "" } else { " …" };
        assert_eq!(calls.pending.len(), calls.numbers.len());
        steps.join(" ") + left
    }

    #[test]
    fn n3_n4_n5_n6_n7_each_call_ends_exactly_once() {
        for (is_idempotent, events, expected) in [
            (false, &[Answer][..], "pass"),
            (false, &[Answer, Answer], "pass"),
            (false, &[Sign, Wait(2999), Answer], "pass"),
            (false, &[NoWorker], "NoWorker"),
            // Something else than an answer.
            (false, &[Other("{nope")], "Unusable"),
            (false, &[Other("")], "Unusable"),
            (false, &[Other("[]")], "Unusable"),
            (false, &[Abandon, Other("{nope")], ""),
            // Silence.
            (false, &[Wait(2999)], " …"),
            (false, &[Wait(3000)], "Silent"),
            (false, &[Wait(3000), Answer], "Silent"),
            (false, &[Wait(2000), Sign, Wait(2000), Sign, Wait(2000)], " …"),
            (false, &[Wait(2000), Sign, Wait(3000)], "Silent"),
            // An idempotent call goes to another worker, at most twice.
            (true, &[Wait(3000), Answer], "again pass"),
            (true, &[Wait(3000), Late, Answer], "again pass"),
            (true, &[Wait(3000), Wait(3000), Wait(3000)], "again again Silent"),
            (true, &[Cancel, Wait(3000)], "Silent"),
            // So does every call that a busy worker did not begin.
            (false, &[Busy, Answer], "again pass"),
            (false, &[Busy, Busy, Busy], "again again pass"),
            (false, &[Busy, NoWorker], "again NoWorker"),
            (false, &[Busy, Busy, BusyWith("")], "again again Unusable"),
            (false, &[Busy, Busy, BusyWith("[]")], "again again Unusable"),
            (false, &[BusyWith(""), Answer], "again pass"),
            (false, &[Cancel, Busy], "pass"),
            // A cancellation waits until the worker is known.
            (false, &[Cancel, Sign, Answer], "cancel pass"),
            (false, &[Sign, Cancel, Answer], "cancel pass"),
            (false, &[Cancel, Answer], "pass"),
            // Nobody waits.
            (false, &[Abandon, Sign], "cancel"),
            (false, &[Sign, Abandon], "cancel"),
            (false, &[Sign, Cancel, Abandon], "cancel"),
            (false, &[Abandon, Answer], ""),
            (false, &[Abandon, Busy], ""),
            (false, &[Abandon, NoWorker], ""),
            (false, &[Abandon, Wait(3000)], ""),
            (true, &[Abandon, Wait(3000)], ""),
        ] {
            assert_eq!(play(is_idempotent, events), expected);
        }
    }

    #[test]
    fn n5_a_cancelled_call_of_a_batch_leaves_the_others() {
        let (now, mut calls) = (Instant::now(), Calls::default());
        let delivery =
            Delivery { subject: "rpc.s.=batch".into(), payload: bytes("[]"), deadline: None };
        let ids = (1..=3).map(Id::from).collect();
        let number = calls.begin(Ids::Many(ids), delivery, false, now);
        let limits = Limits::default();
        let told = |step: Step| -> Vec<u64> {
            match step {
                Step::CancelSome(_, ids) => ids.iter().filter_map(Id::as_u64).collect(),
                Step::Nothing => Vec::new(),
                step => panic!("{step:?}"),
            }
        };
        let sign = || Reply::Sign("w".into());
        assert_eq!(told(calls.cancel(&1.into())), [0_u64; 0], "its worker is not known");
        assert_eq!(told(calls.handle(number, sign(), &limits, now)), [1]);
        assert_eq!(told(calls.handle(number, sign(), &limits, now)), [0_u64; 0]);
        assert_eq!(told(calls.cancel(&3.into())), [3]);
        assert_eq!(calls.abandon_all().len(), 1, "one still runs");
    }

    #[test]
    fn n4_an_answer_has_the_ids_of_its_calls() {
        let one = Ids::One(1.into());
        let (two, empty) = (Ids::Many(vec![1.into(), 2.into()]), Ids::Many(Vec::new()));
        let answers = |ids: &[&str]| {
            let answer = |id: &&str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":1}}"#);
            format!("[{}]", ids.iter().map(answer).collect::<Vec<_>>().join(","))
        };
        let error = |id: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32700,"message":""}}}}"#)
        };
        let same = |text: &str| (text.to_owned(), Some(text.to_owned()));
        let other = |text: &str| (text.to_owned(), None);
        for (ids, (text, expected)) in [
            (&one, same(RESULT)),
            (&one, same(ERROR)),
            (&one, other(r#"{"jsonrpc":"2.0","id":2,"result":1}"#)),
            (&one, other(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#)),
            (&one, other(r#"{"jsonrpc":"2.0","id":1}"#)),
            (&one, other(r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#)),
            (&one, other(r#"{"id":1,"result":1}"#)),
            (&one, other(r#"{"jsonrpc":"2.0","id":null,"result":1}"#)),
            (&one, other(r#"{"jsonrpc":"2.0","id":null,"error":"x"}"#)),
            (&one, other(r#"{"jsonrpc":"2.0","id":null,"result":1,"error":{"code":1}}"#)),
            (&one, other(&answers(&["1"]))),
            // An error without an id gets it.
            (&one, (error("null"), Some(error("1")))),
            (&two, (error("null"), Some(format!("[{},{}]", error("1"), error("2"))))),
            (&empty, same(&error("null"))),
            // All requests of a batch are answered, and no others.
            (&two, same(&answers(&["2", "1"]))),
            (&two, same(&answers(&["2", "1", "null"]))),
            (&two, other(&answers(&["1"]))),
            (&two, other(&answers(&["1", "2", "3"]))),
            (&two, other("[]")),
            (&two, other("[7]")),
            (&two, other(RESULT)),
        ] {
            let answer = ids.answer_in(text.clone().into(), &Limits::default(), false);
            let answer = answer.map(|it| String::from_utf8_lossy(&it).into_owned());
            assert_eq!(answer, expected, "{text} for {ids:?}");
        }
        // A dialect may not answer cancelled requests.
        let some = Bytes::from(answers(&["1"]));
        assert!(two.answer_in(some, &Limits::default(), true).is_some());
    }

    #[test]
    fn n4_n8_the_kind_of_a_failure_tells_whether_the_call_was_sent() {
        for (failure, kind, text) in [
            (CallFailure::NoWorker, io::ErrorKind::NotConnected, "no worker serves math"),
            (CallFailure::Silent, io::ErrorKind::Interrupted, "no sign for 3 s"),
            (CallFailure::Unusable, io::ErrorKind::InvalidData, "something else than an answer"),
            (
                CallFailure::LongSubject { size: 9, limit: 8 },
                io::ErrorKind::InvalidInput,
                "too long: 9 bytes, the limit is 8",
            ),
            (
                CallFailure::LongAnswer { size: 9, limit: 8 },
                io::ErrorKind::InvalidData,
                "answer too large: 9 bytes, the limit of the caller is 8",
            ),
            (
                CallFailure::Oversize { size: 9, limit: 8 },
                io::ErrorKind::InvalidInput,
                "too large: 9 bytes, the broker takes 8",
            ),
        ] {
            let error = failure.into_error("math");
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
