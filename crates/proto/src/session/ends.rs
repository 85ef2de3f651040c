//! The session: how what is under way ends. What handlers made is answered, calls of ours leave by
//! one of their doors, time runs out, the connection closes.

use std::convert::Infallible;
use std::time::Instant;

use super::batch::Batches;
use super::waiting::Waiting;
use super::{Ending, Job, Key, Message, Outlet, Phase, Session, Terms};
use crate::message::{ErrorObject, Id, Reason, Reply, write_error};
use crate::notice::Notice;

impl<C> Session<C> {
    // ---- what handlers made

    /// Whether [`next_ready`](Session::next_ready) has something: [`hold`](Session::hold) may have
    /// let messages go.
    pub fn has_ready(&self) -> bool {
        self.schedule.has_ready()
    }

    /// The next message whose turn has come. What waited in a batch when the answers to batches had
    /// got too large meanwhile is answered busy, and passed over.
    pub fn next_ready(&mut self, out: &mut impl Outlet) -> Option<(Job, Message)> {
        loop {
            let (job, waiting) = self.schedule.next_ready()?;
            match waiting {
                Waiting::Message(message) => match self.refusal_of(job.batch, message.method()) {
                    None => return Some((job, message)),
                    Some(error) => self.answer_error(job, &error, out),
                },
                Waiting::Refusal(reply) => self.refuse_waiting(&job, reply, out),
            }
        }
    }

    /// Answers what is no message, and waited for its turn.
    fn refuse_waiting(&mut self, job: &Job, reply: Reply, out: &mut impl Outlet) {
        self.refuse(reply, job.batch, out);
        if let Some(batch) = job.batch {
            self.batches.settle(batch, out);
        }
    }

    /// Answers a job. If the answer cannot be written, the job is answered with an internal error
    /// instead, and what went wrong is returned. A notification gets no answer.
    #[inline]
    pub fn answer<E>(
        &mut self,
        job: Job,
        out: &mut impl Outlet,
        answer: impl FnOnce(&mut Vec<u8>, &Id) -> Result<(), E>,
    ) -> Result<(), E> {
        let Job { id: Some(id), batch, .. } = job else { return Ok(()) };
        let mut sent = self.send(batch, out, |out| answer(out, &id));
        if sent.is_err() {
            let error = ErrorObject::internal_error();
            let instead = self.send(batch, out, |out| {
                Reply { id, error }.write(out);
                Ok(())
            });
            sent = sent.and(instead);
        }
        if let Some(batch) = batch {
            self.batches.settle(batch, out);
        }
        sent
    }

    /// Answers a job with a response that is written already.
    pub fn answer_text(&mut self, job: &Job, text: Vec<u8>, out: &mut impl Outlet) {
        match (&job.id, job.batch) {
            (None, _) => {}
            (Some(_), None) => out.send_text(text),
            (Some(_), Some(batch)) => {
                let Ok(()) = self.batches.add(batch, |out| {
                    out.extend_from_slice(&text);
                    Ok::<_, Infallible>(())
                });
                self.batches.settle(batch, out);
            }
        }
    }

    /// Answers a job with an error.
    pub fn answer_error(&mut self, job: Job, error: &ErrorObject, out: &mut impl Outlet) {
        let Ok(()) = self.answer(job, out, |out, id| {
            write_error(out, id, error);
            Ok::<_, Infallible>(())
        });
    }

    /// The handler of a job waits: others may start beside it, if the order allows it.
    pub fn park(&mut self, job: Job) -> Key {
        self.schedule.park(job)
    }

    /// The id of a request whose handler waits.
    pub fn id_of(&self, key: Key) -> Option<&Id> {
        self.schedule.job(key).and_then(Job::id)
    }

    /// The handler of a parked job has ended. The job comes back if it is still to be answered:
    /// not if it was cancelled, not if it is a notification, and not if the connection is gone.
    pub fn finish(&mut self, key: Key) -> Option<Job> {
        let is_gone = self.phase == Phase::Closed;
        self.schedule.finish(key).filter(|job| job.id.is_some() && !is_gone)
    }

    /// Holds requests back, because too much waits to be sent, or lets them go again.
    pub fn hold(&mut self, held: bool) {
        self.schedule.hold(held);
    }

    /// Whether more should be read now. If not, so much waits already that the remote has to wait
    /// too; or we are closing, and need nothing more.
    pub fn wants_input(&self) -> bool {
        match self.phase {
            Phase::Open => !self.schedule.is_full() || self.must_read_on(),
            Phase::Draining(draining) if draining.ending == Ending::Input => {
                !self.schedule.is_full()
            }
            Phase::Draining(_) => self.must_read_on(),
            Phase::Closed => false,
        }
    }

    // ---- our calls

    /// Begins a call, unless there are too many, the id is that of a pending one, or the session
    /// is not open: then the caller comes back. The request itself is sent by who calls.
    pub fn call(&mut self, id: Id, caller: C, terms: Terms, now: Instant) -> Result<(), C> {
        let is_open = self.phase == Phase::Open;
        if !is_open || self.calls.len() >= self.profile.limits.pending_calls {
            return Err(caller);
        }
        self.calls.begin(id, caller, terms, now)
    }

    /// Gives a call up, because its caller did: the remote is told. `None` if it had ended.
    pub fn cancel(&mut self, id: &Id, out: &mut impl Outlet) -> Option<C> {
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

    // ---- time, and the end

    /// When [`handle_timeout`](Session::handle_timeout) has something to do, the next call
    /// [expires](Session::next_expired), or the time for draining is over.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let storm_or_phase = earliest(self.storm.poll_timeout(), self.phase.deadline());
        earliest(self.calls.next_deadline(), storm_or_phase)
    }

    /// Time has passed: there may be something to log.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<Notice> {
        self.storm.handle_timeout(now)
    }

    /// The time for draining is over: batches that are not done leave with the answers that they have.
    pub fn give_up_batches(&mut self, out: &mut impl Outlet) {
        self.batches.give_up(out);
    }

    /// The input has ended. No answer can come any more: [`abandon`](Session::abandon) the calls.
    pub fn handle_end(&mut self, now: Instant) {
        self.phase.drain(Ending::Input, self.profile.drain_timeout, now);
    }

    /// Closes: what is under way is finished, but nothing new is begun. If a message asked for
    /// it, what came after that one is not begun either; in a batch it is answered with an error.
    pub fn close(&mut self, asked_by: Option<Key>, now: Instant, out: &mut impl Outlet) {
        self.phase.drain(Ending::Closing, self.profile.drain_timeout, now);
        if let Some(key) = asked_by {
            let late = ErrorObject::invalid_request_because(Reason::ShuttingDown);
            for (job, waiting) in self.schedule.drop_after(key) {
                match waiting {
                    _ if job.batch.is_none() => {}
                    Waiting::Message(_) => self.answer_error(job, &late, out),
                    Waiting::Refusal(reply) => self.refuse_waiting(&job, reply, out),
                }
            }
        }
    }

    /// The remote took some bytes: it is still there.
    pub fn handle_progress(&mut self, now: Instant) {
        self.phase.handle_progress(now);
    }

    /// The connection is gone: what waits is dropped, and what runs has nobody to answer.
    /// [`abandon`](Session::abandon) the calls.
    pub fn handle_gone(&mut self) -> Option<Notice> {
        self.phase.close();
        self.schedule.drop_all();
        self.batches = Batches::default();
        self.storm.take_muted()
    }

    /// Where it stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether nothing that came is still to be answered.
    pub fn is_idle(&self) -> bool {
        self.schedule.running() == 0 && self.schedule.waiting() == 0 && self.batches.is_empty()
    }

    /// When a session that drains has no time left.
    pub fn drain_deadline(&self) -> Option<Instant> {
        self.phase.deadline()
    }

    /// How many handlers are parked.
    pub fn running(&self) -> usize {
        self.schedule.running()
    }

    /// How many messages wait for their turn.
    pub fn waiting(&self) -> usize {
        self.schedule.waiting()
    }

    /// Whether a call with this id waits for its answer.
    pub fn is_pending(&self, id: &Id) -> bool {
        self.calls.is_pending(id)
    }

    /// How many responses answered no call: late ones, second ones, strangers.
    pub fn unmatched_responses(&self) -> u64 {
        self.unmatched
    }

    /// Whether nothing is left of what has ended: no entry, no deadline, no token, no lane.
    pub fn is_clean(&self) -> bool {
        let left = [self.calls.len(), self.calls.left_behind(), self.schedule.left_behind()];
        self.is_idle() && left == [0; 3]
    }
}

/// The earlier of two times, or the one that is set.
#[inline]
fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
