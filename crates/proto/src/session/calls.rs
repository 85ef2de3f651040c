//! Pending calls, and the six doors out: reply, timeout, cancel, drop, lost by the transport, close (P1, P2, P3,
//! P5, P6).
//!
//! | door | the caller gets | the remote hears |
//! |---|---|---|
//! | reply | the answer | – |
//! | timeout, also while its message waits for room | an error | a cancellation, if the call was sent |
//! | cancel, drop | nothing: it has gone | a cancellation, if the call was sent |
//! | lost by the transport | an error | – |
//! | close | an error | – |
//!
//! Removal from the table of pending calls is the right to tell the caller, so each is told once.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use std::vec;

use super::{Phase, Session, Sink};
use crate::message::Id;

/// How long a call waits.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// How long it waits for its answer; `None` for ever.
    pub timeout: Option<Duration>,
    /// Whether progress starts that time anew.
    pub progress: Option<Progress>,
}

/// A call that is given more time as long as the remote tells of progress.
#[derive(Clone, Debug)]
pub struct Progress {
    /// What the remote was asked to mark its progress with.
    pub token: Id,
    /// How long it may take in all.
    pub total: Duration,
}

impl<C> Session<C> {
    /// Begins a call, unless there are too many, the id is that of a pending one, or the session
    /// is not open: then the caller comes back. The request itself is sent by who calls.
    pub fn call(&mut self, id: Id, caller: C, options: CallOptions, now: Instant) -> Result<(), C> {
        let is_open = self.phase == Phase::Open;
        if !is_open || self.calls.len() >= self.profile.limits.pending_calls {
            return Err(caller);
        }
        self.calls.begin(id, caller, options, now)
    }

    /// Gives a call up, because its caller did: the remote is told. `None` if it had ended.
    pub fn cancel(&mut self, id: &Id, out: &mut impl Sink) -> Option<C> {
        let caller = self.calls.end(id)?;
        self.profile.dialect.say_cancelled(id, out);
        Some(caller)
    }

    /// The call whose time is over, if there is one: [`cancel`](Session::cancel) it.
    pub fn next_expired(&self, now: Instant) -> Option<&Id> {
        self.calls.next_expired(now)
    }

    /// Ends a call whose answer cannot come, although the connection stands: the call was never sent,
    /// or the transport lost its answer. The remote is not told. `None` if the call had ended.
    pub fn fail(&mut self, id: &Id) -> Option<C> {
        self.calls.end(id)
    }

    /// How many calls have begun so far.
    pub fn calls_begun(&self) -> u64 {
        self.calls.begun()
    }

    /// Which one a pending call is, of all that have begun; the first is 1.
    pub fn call_number(&self, id: &Id) -> Option<u64> {
        self.calls.number(id)
    }

    /// Ends the oldest call, because no answer can come any more; ask until there is none.
    pub fn abandon(&mut self) -> Option<(Id, C)> {
        if self.phase.hears() { None } else { self.calls.end_oldest() }
    }

    /// How many calls wait for an answer.
    pub fn pending_calls(&self) -> usize {
        self.calls.len()
    }

    /// Whether a call with this id waits for its answer.
    pub fn is_pending(&self, id: &Id) -> bool {
        self.calls.is_pending(id)
    }
}

/// Pending calls by their id; `C` is whom to tell.
#[derive(Debug)]
pub(super) struct Calls<C> {
    pending: HashMap<Id, Call<C>>,
    /// The deadlines, earliest first. The serial tells calls with the same deadline apart.
    deadlines: BTreeMap<(Instant, u64), Id>,
    /// Which call a token of progress belongs to.
    tokens: HashMap<Id, Id>,
    /// Those that are left of the pending calls, once the connection is closed, oldest first.
    ending: vec::IntoIter<(Id, Call<C>)>,
    last_serial: u64,
}

#[derive(Debug)]
struct Call<C> {
    caller: C,
    serial: u64,
    deadline: Option<Instant>,
    timeout: Option<Duration>,
    /// The token of its progress, and the last moment to which that may move the deadline.
    progress: Option<(Id, Option<Instant>)>,
}

impl<C> Default for Calls<C> {
    fn default() -> Self {
        let (pending, tokens) = (HashMap::new(), HashMap::new());
        let ending = Vec::new().into_iter();
        Calls { pending, deadlines: BTreeMap::new(), tokens, ending, last_serial: 0 }
    }
}

impl<C> Calls<C> {
    /// Begins a call. One that is pending is not replaced, as its caller would never be told.
    pub(super) fn begin(
        &mut self,
        id: Id,
        caller: C,
        options: CallOptions,
        now: Instant,
    ) -> Result<(), C> {
        let Entry::Vacant(place) = self.pending.entry(id.clone()) else { return Err(caller) };
        self.last_serial += 1;
        // A deadline beyond what the clock can tell is none.
        let deadline = options.timeout.and_then(|timeout| now.checked_add(timeout));
        let last = options.progress.as_ref().and_then(|progress| now.checked_add(progress.total));
        let deadline = match (deadline, last) {
            (Some(deadline), Some(last)) => Some(deadline.min(last)),
            (deadline, last) => deadline.or(last),
        };
        let serial = self.last_serial;
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, serial), id.clone());
        }
        let progress = options.progress.map(|progress| {
            self.tokens.insert(progress.token.clone(), id);
            (progress.token, last)
        });
        place.insert(Call { caller, serial, deadline, timeout: options.timeout, progress });
        Ok(())
    }

    pub(super) fn begun(&self) -> u64 {
        self.last_serial
    }

    pub(super) fn number(&self, id: &Id) -> Option<u64> {
        self.pending.get(id).map(|call| call.serial)
    }

    /// Ends a call, by any door.
    pub(super) fn end(&mut self, id: &Id) -> Option<C> {
        let call = self.pending.remove(id)?;
        if let Some(deadline) = call.deadline {
            self.deadlines.remove(&(deadline, call.serial));
        }
        if let Some((token, _)) = call.progress
            && self.tokens.get(&token) == Some(id)
        {
            self.tokens.remove(&token);
        }
        Some(call.caller)
    }

    /// The call whose time is over, if there is one.
    pub(super) fn next_expired(&self, now: Instant) -> Option<&Id> {
        let (&(deadline, _), id) = self.deadlines.first_key_value()?;
        (deadline <= now).then_some(id)
    }

    /// Ends the oldest call: the connection is closed, and all of them end. In what order those who
    /// wait are told must not hang on the order of a table, or no run would be like another.
    pub(super) fn end_oldest(&mut self) -> Option<(Id, C)> {
        // To look for the first entry of a table again and again, as it gets emptier, would take
        // time with the square of its size.
        if self.ending.len() == 0 {
            self.deadlines.clear();
            self.tokens.clear();
            let mut ending: Vec<_> = std::mem::take(&mut self.pending).into_iter().collect();
            ending.sort_unstable_by_key(|(_, call)| call.serial);
            self.ending = ending.into_iter();
        }
        self.ending.next().map(|(id, call)| (id, call.caller))
    }

    /// There was progress: the call that it belongs to has its time again, up to its total.
    pub(super) fn restart(&mut self, token: &Id, now: Instant) {
        let Some(id) = self.tokens.get(token) else { return };
        let Some(call) = self.pending.get_mut(id) else { return };
        let (Some(deadline), Some(timeout), Some((_, last))) =
            (call.deadline, call.timeout, &call.progress)
        else {
            return;
        };
        let Some(later) = now.checked_add(timeout) else { return };
        let later = last.map_or(later, |last| later.min(last));
        self.deadlines.remove(&(deadline, call.serial));
        self.deadlines.insert((later, call.serial), id.clone());
        call.deadline = Some(later);
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first_key_value().map(|(&(deadline, _), _)| deadline)
    }

    pub(super) fn is_pending(&self, id: &Id) -> bool {
        self.pending.contains_key(id)
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len() + self.ending.len()
    }

    /// Whether nothing at all is left: no call, no deadline, no token.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many deadlines and tokens there are; never more than calls.
    pub(super) fn left_behind(&self) -> usize {
        self.deadlines.len() + self.tokens.len()
    }
}
