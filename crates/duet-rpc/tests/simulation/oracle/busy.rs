//! Refusals as busy: only requests that came when a bound was reached, and every request that came when
//! too many were in flight (L8, P9).
//!
//! A request is refused when it is handled, between its last byte and that of the refusal. Messages are
//! handled in the order in which they came. So the requests in flight at that time are the earlier requests,
//! except those that had ended when the request arrived. A peer notices the end of a handler before it reads
//! on.

use std::collections::BTreeMap;

use duet_rpc::proto::policy::Order;
use serde_json::Value;

use super::{Kind, Oracle};
use crate::journal::{Call, Event};
use crate::plan::STEP;
use crate::world::Deed;

/// The cost of a waiting message, besides its text.
const PLACE: usize = 256;
/// The code of "Server busy".
const BUSY: i64 = -32000;

/// A message that reached a side and may have to wait there. Places are indexes of events in the journal.
struct Came {
    at: usize,
    /// The raw id of a request.
    id: Option<String>,
    /// The number under which its handler is in the journal.
    number: Option<u64>,
    /// Maximum memory that it takes while it waits.
    cost: usize,
}

/// An answer, and the place at which it was sent.
struct Answered {
    sent: usize,
    /// The limit that was reached, if it is a refusal as busy.
    refused_by: Option<usize>,
    /// The bytes of answers before it in its batch, if it is in one.
    batch: Option<usize>,
    /// `true` if it was refused on arrival, and not when its turn came.
    was_never_in: bool,
}

/// All requests to a side, and their outcomes.
#[derive(Default)]
struct Account {
    came: Vec<Came>,
    /// The places at which requests were cancelled.
    cancelled: BTreeMap<String, usize>,
    answers: BTreeMap<String, Answered>,
    /// The places at which answers to batches were sent, and their lengths.
    batches: Vec<(usize, usize)>,
    started: BTreeMap<u64, usize>,
    stopped: BTreeMap<u64, usize>,
}

impl Account {
    /// Returns `true` if a request certainly neither ran nor waited any more at a place.
    fn is_over(&self, came: &Came, by: usize) -> bool {
        let is_before = |place: Option<&usize>| place.is_some_and(|place| *place < by);
        if let Some(number) = came.number
            && self.started.contains_key(&number)
        {
            // A cancelled request counts until its handler has really ended.
            return is_before(self.stopped.get(&number));
        }
        let Some(id) = &came.id else { return false };
        let answer = self.answers.get(id);
        answer.is_some_and(|answer| answer.was_never_in)
            || is_before(self.cancelled.get(id))
            || is_before(answer.map(|answer| &answer.sent))
    }

    /// Returns `true` if a request certainly did not wait any more at a place.
    fn has_begun(&self, n: usize, by: usize, has_one_lane: bool) -> bool {
        let started = |came: &Came| came.number.and_then(|number| self.started.get(&number));
        let has_started = |came: &Came| started(came).is_some_and(|place| *place < by);
        // In one lane, earlier requests have begun earlier.
        has_started(&self.came[n]) || (has_one_lane && self.came[n..].iter().any(has_started))
    }

    /// The earlier requests that may have been in flight when this one was handled.
    fn in_flight_before(&self, n: usize) -> impl Iterator<Item = usize> {
        let at = self.came[n].at;
        (0..n).filter(move |other| {
            self.came[*other].id.is_some() && !self.is_over(&self.came[*other], at)
        })
    }

    /// A place by which a request has been handled: it or a later one has begun, or was answered.
    fn handled_by(&self, n: usize) -> Option<usize> {
        let places = self.came[n..].iter().flat_map(|came| {
            let started = came.number.and_then(|number| self.started.get(&number).copied());
            let answer = came.id.as_ref().and_then(|id| self.answers.get(id));
            [started, answer.map(|answer| answer.sent)]
        });
        places.flatten().min()
    }
}

impl Oracle<'_> {
    pub(super) fn check_busy(&mut self) {
        for side in [0, 1] {
            let account = self.account(side);
            for (n, came) in account.came.iter().enumerate() {
                let Some(id) = &came.id else { continue };
                let checked = match account.answers.get(id) {
                    Some(answer) if answer.refused_by.is_some() => {
                        self.check_refused(side, &account, n, answer)
                    }
                    _ => self.check_taken(side, &account, n),
                };
                if let Err(why) = checked {
                    self.objections.push(format!("side {side}, {id}: {why}"));
                }
            }
        }
    }

    /// Checks that the limit of a refusal can have been reached.
    fn check_refused(
        &self,
        side: usize,
        account: &Account,
        n: usize,
        answer: &Answered,
    ) -> Result<(), String> {
        let profile = &self.world.sides[side].profile;
        let (limits, named) = (&profile.limits, answer.refused_by.unwrap_or_default());
        if self.closes(side, &account.came[n]) {
            return Err("the closing method is never refused".to_owned());
        }
        let in_flight = account.in_flight_before(n).count();
        let is_counted = profile.order != Order::Sequential;
        if is_counted && named == limits.in_flight && in_flight >= limits.in_flight {
            return Ok(());
        }
        // A request that cannot begin is refused only if an awaited answer may follow it in the stream.
        let has_one_lane = matches!(profile.order, Order::Sequential | Order::Barrier);
        let at = account.came[n].at;
        let begun = |other: usize| account.has_begun(other, at, has_one_lane);
        let waiting = account.in_flight_before(n).filter(|other| !begun(*other)).count();
        let waits = |other: &usize| !begun(*other) && !account.is_over(&account.came[*other], at);
        let bytes: usize = (0..n).filter(waits).map(|other| account.came[other].cost).sum();
        let is_full = (named == limits.waiting && waiting >= limits.waiting)
            || (named == limits.waiting_bytes && bytes >= limits.waiting_bytes);
        if is_full && self.awaits_something(side, at, answer.sent) {
            return Ok(());
        }
        let others = account.batches.iter().filter(|(sent, _)| (at..).contains(sent));
        let others = others.filter(|(sent, _)| *sent != answer.sent).map(|(_, length)| length);
        let in_batches = answer.batch.map(|before| before + others.sum::<usize>());
        let is_open = self.has_open_batch(side, account, answer.sent);
        if let Some(bytes) = in_batches.filter(|_| named == limits.batch_bytes)
            && (bytes >= limits.batch_bytes || is_open)
        {
            return Ok(());
        }
        Err(format!(
            "refused by a limit of {named}, with at most {in_flight} in flight, {waiting} waiting \
             with {bytes} bytes, {in_batches:?} bytes in batches"
        ))
    }

    /// Checks that a request which was accepted did not exceed a limit.
    fn check_taken(&self, side: usize, account: &Account, n: usize) -> Result<(), String> {
        let profile = &self.world.sides[side].profile;
        let came = &account.came[n];
        let is_taken = came.number.is_some_and(|number| account.started.contains_key(&number))
            || came.id.as_ref().is_some_and(|id| account.answers.contains_key(id));
        let is_free = profile.order == Order::Sequential || self.closes(side, came);
        let Some(by) = account.handled_by(n).filter(|_| is_taken && !is_free) else {
            return Ok(());
        };
        let was_in_flight = |other: &&Came| {
            let Some(number) = other.number.filter(|_| other.id.is_some()) else { return false };
            account.started.contains_key(&number)
                && account.stopped.get(&number).is_none_or(|stopped| *stopped > by)
        };
        let in_flight = account.came[..n].iter().filter(was_in_flight).count();
        match in_flight < profile.limits.in_flight {
            true => Ok(()),
            false => Err(format!("accepted although {in_flight} were in flight")),
        }
    }

    fn closes(&self, side: usize, came: &Came) -> bool {
        self.world.acts.iter().any(|act| {
            act.by != side
                && came.number == Some(act.number * STEP)
                && matches!(act.deed, Deed::Bye(_))
        })
    }

    /// Returns `true` if a side has a call that is pending, or waits for room, at some time between two places.
    fn awaits_something(&self, side: usize, from: usize, to: usize) -> bool {
        let time = |place: usize| self.book.events.get(place).map_or(u64::MAX, |(at, _)| *at);
        self.book.calls.iter().any(|call: &Call| {
            call.side == side
                && call.begun <= time(to)
                && call.ended.as_ref().is_none_or(|(ended, _)| *ended >= time(from))
        })
    }

    /// Returns `true` if, by a place, there is a batch that was never answered: the bytes of its answers
    /// are not known.
    fn has_open_batch(&self, side: usize, account: &Account, by: usize) -> bool {
        self.book.events.iter().take(by).any(|(_, event)| match event {
            Event::Handed(to, n) if *to == side => {
                let piece = &self.world.pieces[*n];
                let ids = &piece.requests;
                let is_answered = match ids.is_empty() {
                    false => ids.iter().any(|id| account.answers.contains_key(id)),
                    // The answers to its faults have no id, in a batch that the end may cut off.
                    true => piece.faults == 0 || account.answers.contains_key("null"),
                };
                !is_answered
            }
            _ => false,
        })
    }

    fn account(&self, side: usize) -> Account {
        let mut account = Account::default();
        for (at, (_, event)) in self.book.events.iter().enumerate() {
            match event {
                Event::Arrived(to, n) if *to == side => {
                    self.note_arrived(&mut account, at, side, *n);
                }
                Event::Handed(to, n) if *to == side => self.note_handed(&mut account, at, *n),
                Event::Starts { side: of, number } if *of == side => {
                    account.started.insert(*number, at);
                }
                Event::Stops { side: of, number } if *of == side => {
                    account.stopped.insert(*number, at);
                }
                Event::Sent(from, n) if *from == side => {
                    self.note_answers(&mut account, at, side, *n);
                }
                _ => {}
            }
        }
        account
    }

    fn note_arrived(&self, account: &mut Account, at: usize, side: usize, n: usize) {
        let Some(message) = self.messages[1 - side].get(n) else { return };
        let (id, number) = match &message.kind {
            // A message that is too long is a fault, whose answer may have to wait.
            _ if message.arrived.is_none() => (None, None),
            Kind::Request(id, number) => (Some(id.clone()), *number),
            Kind::Notification(number) => (None, *number),
            Kind::Progress(_) | Kind::Event(..) => (None, None),
            Kind::Cancel(id) => {
                if !message.is_late {
                    account.cancelled.entry(id.clone()).or_insert(at);
                }
                return;
            }
            Kind::Answer(..) | Kind::Answers(_) => return,
        };
        let cost = PLACE + self.book.frames[1 - side][n].body.len();
        account.came.push(Came { at, id, number, cost });
    }

    /// Notes an injected piece. The places of its faults are not known, so they count at both ends. A
    /// piece without faults counts as one, because it may be a message that nobody serves.
    fn note_handed(&self, account: &mut Account, at: usize, n: usize) {
        let piece = &self.world.pieces[n];
        let cost = PLACE + piece.bytes.len();
        let rest = || (0..piece.faults.max(1)).map(|_| Came { at, id: None, number: None, cost });
        account.came.extend(rest());
        account.came.extend(piece.messages.iter().map(|&(number, is_request)| {
            let id = is_request.then(|| format!("\"x{number}\""));
            Came { at, id, number: Some(number), cost }
        }));
        account.came.extend(rest());
    }

    fn note_answers(&self, account: &mut Account, at: usize, side: usize, n: usize) {
        let body = &self.book.frames[side][n].body;
        let (answers, is_batch) = match serde_json::from_slice(body) {
            Ok(Value::Array(answers)) => (answers, true),
            Ok(answer) => (vec![answer], false),
            Err(_) => return,
        };
        if is_batch {
            account.batches.push((at, body.len()));
        }
        let batch_bytes = self.world.sides[side].profile.limits.batch_bytes;
        let mut before = 0;
        for answer in answers.iter().filter(|answer| answer.get("method").is_none()) {
            let error = answer.get("error").filter(|error| error["code"] == BUSY);
            let refused_by = error.map(|error| error["data"]["limit"].as_u64().unwrap_or(u64::MAX));
            let refused_by = refused_by.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
            let batch = is_batch.then_some(before);
            // A request that had to wait is refused only because of its batch.
            let was_never_in = match refused_by {
                Some(limit) => !(is_batch && limit == batch_bytes),
                None => false,
            };
            let answered = Answered { sent: at, refused_by, batch, was_never_in };
            account.answers.insert(answer["id"].to_string(), answered);
            before += answer.to_string().len() + 1;
        }
    }
}
