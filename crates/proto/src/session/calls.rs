//! Pending calls. A call ends in one of six ways: reply, timeout, cancel, drop, lost by the
//! transport, close (P1, P2, P3, P5, P6).
//!
//! | end | the caller gets | the remote gets |
//! |---|---|---|
//! | reply | the response | – |
//! | timeout, even while its message waits for room | an error | a cancellation, if the call was sent |
//! | cancel, drop | nothing: it is gone | a cancellation, if the call was sent |
//! | lost by the transport | an error | – |
//! | close | an error | – |
//!
//! Only the code that removes a call from the table may notify its caller, so each caller is
//! notified once.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use std::vec;

use super::{Phase, Session, Sink};
use crate::message::Id;

/// Timeouts of a call.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// Maximum time to wait for the response. `None`: no limit.
    pub timeout: Option<Duration>,
    /// If set, progress restarts that time.
    pub progress: Option<Progress>,
}

impl CallOptions {
    /// The latest time at which a call that begins now times out, even if the remote reports progress. `None`: no limit.
    pub fn latest_timeout(&self, now: Instant) -> Option<Instant> {
        let longest = self.progress.as_ref().map(|progress| progress.total).or(self.timeout);
        longest.and_then(|longest| now.checked_add(longest))
    }
}

/// More time for a call while the remote reports progress.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The token with which the remote marks its progress.
    pub token: Id,
    /// Maximum time in total.
    pub total: Duration,
}

impl<C> Session<C> {
    /// Begins a call. Returns the caller if there are too many calls, the id is pending already, or
    /// the session is not open. Sending the request is up to you.
    pub fn call(&mut self, id: Id, caller: C, options: CallOptions, now: Instant) -> Result<(), C> {
        let is_open = self.phase == Phase::Open;
        if !is_open || self.calls.len() >= self.profile.limits.pending_calls {
            return Err(caller);
        }
        self.calls.begin(id, caller, options, now)
    }

    /// Ends a call that its caller gave up, and sends a cancellation. `None` if the call had ended.
    pub fn cancel(&mut self, id: &Id, out: &mut impl Sink) -> Option<C> {
        let caller = self.calls.end(id)?;
        self.profile.dialect.write_cancellation(id, out);
        Some(caller)
    }

    /// A call whose time is over: [`cancel`](Session::cancel) it.
    pub fn next_expired(&self, now: Instant) -> Option<&Id> {
        self.calls.next_expired(now)
    }

    /// Ends a call whose response cannot come although the connection is open: the call was never
    /// sent, or the transport lost the response. Sends nothing. `None` if the call had ended.
    pub fn fail(&mut self, id: &Id) -> Option<C> {
        self.calls.end(id)
    }

    /// The number of calls begun so far.
    pub fn calls_begun(&self) -> u64 {
        self.calls.begun()
    }

    /// The number of a pending call among all calls begun; the first is 1.
    pub fn call_number(&self, id: &Id) -> Option<u64> {
        self.calls.number(id)
    }

    /// Ends the oldest call, if responses can no longer come. Repeat until it returns `None`.
    pub fn abandon(&mut self) -> Option<(Id, C)> {
        if self.phase.receives_responses() { None } else { self.calls.end_oldest() }
    }

    /// The number of calls that wait for a response.
    pub fn pending_calls(&self) -> usize {
        self.calls.len()
    }

    /// True if a call with this id waits for its response.
    pub fn is_pending(&self, id: &Id) -> bool {
        self.calls.is_pending(id)
    }

    /// The latest time at which a pending call times out, even if the remote reports progress. `None`: no limit.
    pub fn latest_timeout(&self, id: &Id) -> Option<Instant> {
        self.calls.latest_timeout(id)
    }
}

/// Pending calls by id. `C` identifies the caller.
#[derive(Debug)]
pub(super) struct Calls<C> {
    pending: HashMap<Id, Call<C>>,
    /// The deadlines, earliest first. The serial distinguishes calls with the same deadline.
    deadlines: BTreeMap<(Instant, u64), Id>,
    /// The call of each progress token.
    tokens: HashMap<Id, Id>,
    /// The remaining calls, oldest first, once the connection is closed.
    ending: vec::IntoIter<(Id, Call<C>)>,
    last_serial: u64,
}

#[derive(Debug)]
struct Call<C> {
    caller: C,
    serial: u64,
    deadline: Option<Instant>,
    timeout: Option<Duration>,
    /// The progress token, and the latest time to which progress may move the deadline.
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
    /// Begins a call. It never replaces a pending call, whose caller would then wait forever.
    pub(super) fn begin(
        &mut self,
        id: Id,
        caller: C,
        options: CallOptions,
        now: Instant,
    ) -> Result<(), C> {
        let Entry::Vacant(place) = self.pending.entry(id.clone()) else { return Err(caller) };
        self.last_serial += 1;
        // No deadline, if it is beyond the range of the clock.
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

    /// Ends a call in any of the ways.
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

    /// A call whose time is over.
    pub(super) fn next_expired(&self, now: Instant) -> Option<&Id> {
        let (&(deadline, _), id) = self.deadlines.first_key_value()?;
        (deadline <= now).then_some(id)
    }

    /// Ends the oldest call of a closed connection. Sorting by age makes runs reproducible; the
    /// order of the hash table would not.
    pub(super) fn end_oldest(&mut self) -> Option<(Id, C)> {
        // Taking the first entry of a shrinking hash table over and over takes quadratic time.
        if self.ending.len() == 0 {
            if self.pending.is_empty() {
                return None;
            }
            self.deadlines.clear();
            self.tokens.clear();
            let mut ending: Vec<_> = std::mem::take(&mut self.pending).into_iter().collect();
            ending.sort_unstable_by_key(|(_, call)| call.serial);
            self.ending = ending.into_iter();
        }
        self.ending.next().map(|(id, call)| (id, call.caller))
    }

    /// Restarts the time of the call with this progress token, up to its total.
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

    pub(super) fn latest_timeout(&self, id: &Id) -> Option<Instant> {
        let call = self.pending.get(id)?;
        call.progress.as_ref().map_or(call.deadline, |(_, last)| *last)
    }

    pub(super) fn is_pending(&self, id: &Id) -> bool {
        self.pending.contains_key(id)
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len() + self.ending.len()
    }

    /// True if no call is pending.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of deadlines and tokens.
    pub(super) fn left_behind(&self) -> usize {
        self.deadlines.len() + self.tokens.len()
    }
}
