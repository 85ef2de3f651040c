//! Answers to incoming messages: the only way from a [`Job`] to a response.
//!
//! | job | answer |
//! |---|---|
//! | a notification | none |
//! | a single request | goes to the sink |
//! | a request of a batch | waits in the batch until the batch is whole |
//! | a cancelled request | an error or none, depending on the dialect |
//! | an invalid message | an error; under sequential order it waits for its turn |

use std::convert::Infallible;
use std::time::Instant;

use super::waiting::Waiting;
use super::{BatchKey, FaultAction, Handled, Job, Key, Message, OwnedJob, Phase, Session, Sink};
use crate::message::{ErrorObject, Id, IdRef, Params, Reply, write_error};

impl<C> Session<C> {
    /// Answers a job. If writing the answer fails, an internal error goes out instead, and the
    /// failure is returned. A notification gets no answer.
    #[inline(always)]
    pub fn answer<E>(
        &mut self,
        job: Job<'_>,
        out: &mut impl Sink,
        answer: impl FnOnce(&mut Vec<u8>, IdRef<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Job { id: Some(id), batch, .. } = job else { return Ok(()) };
        let mut sent = self.send(batch, out, |out| answer(out, id));
        if sent.is_err() {
            let instead = self.send(batch, out, |out| {
                write_error(out, id, &ErrorObject::internal_error());
                Ok(())
            });
            sent = sent.and(instead);
        }
        if let Some(batch) = batch {
            self.batches.settle(batch, out);
        }
        sent
    }

    /// Answers a job with a response that is written already. A single response is not copied.
    pub fn answer_text(&mut self, job: Job<'_>, text: Vec<u8>, out: &mut impl Sink) {
        if job.id.is_some() && job.batch.is_none() {
            return out.send_text(text);
        }
        let Ok(()) = self.answer(job, out, |out, _| {
            out.extend_from_slice(&text);
            Ok::<_, Infallible>(())
        });
    }

    /// Answers a job with an error.
    pub fn answer_error(&mut self, job: Job<'_>, error: &ErrorObject, out: &mut impl Sink) {
        let Ok(()) = self.answer(job, out, |out, id| {
            write_error(out, id, error);
            Ok::<_, Infallible>(())
        });
    }

    /// Answers a cancelled request, or leaves it unanswered, depending on the dialect.
    pub(super) fn answer_cancelled(&mut self, job: &OwnedJob, out: &mut impl Sink) {
        if self.profile.dialect.answers_cancelled() {
            self.answer_error(job.borrow(), &ErrorObject::request_cancelled(), out);
        } else if let Some(batch) = job.batch() {
            self.batches.settle(batch, out);
        }
    }

    #[inline(always)]
    fn send<E>(
        &mut self,
        batch: Option<BatchKey>,
        out: &mut impl Sink,
        message: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        match batch {
            None => out.send(message),
            Some(batch) => self.batches.add(batch, message),
        }
    }

    // ---- waiting handlers and waiting messages

    /// Parks a job whose handler waits. Others may start meanwhile, if the order allows it.
    pub fn park(&mut self, job: Job<'_>) -> Key {
        self.admission.park(job.to_owned())
    }

    /// The id of a parked request.
    pub fn id_of(&self, key: Key) -> Option<&Id> {
        self.admission.job(key).and_then(OwnedJob::id)
    }

    /// Ends a parked job after its handler has ended. Returns the job if it is still to be
    /// answered: not if it was cancelled, is a notification, or the connection is gone.
    pub fn finish(&mut self, key: Key) -> Option<OwnedJob> {
        let is_gone = self.phase == Phase::Closed;
        self.admission.finish(key).filter(|job| job.id().is_some() && !is_gone)
    }

    /// True if [`next_ready`](Session::next_ready) has a message, for example after
    /// [`hold`](Session::hold) released some.
    #[inline]
    pub fn has_ready(&self) -> bool {
        self.admission.has_ready()
    }

    /// The next message whose turn has come. Skips requests of batches that cannot start because
    /// the answers to batches are too large: those are answered busy.
    #[inline]
    pub fn next_ready(&mut self, out: &mut impl Sink) -> Option<(OwnedJob, Message)> {
        loop {
            let (job, waiting) = self.admission.next_ready()?;
            match waiting {
                Waiting::Message(message) => match self.refusal_of(job.batch(), message.method()) {
                    None => return Some((job, message)),
                    Some(error) => self.answer_error(job.borrow(), &error, out),
                },
                Waiting::Refusal(reply) => self.refuse_waiting(&job, reply, out),
            }
        }
    }

    /// Holds requests back because too many bytes wait to be sent, or releases them.
    pub fn hold(&mut self, is_held: bool) {
        self.admission.hold(is_held);
    }

    // ---- refusals: answers without a handler

    /// Refuses an invalid message, unless there were too many in a row.
    pub(super) fn refuse_bad(
        &mut self,
        reply: Reply,
        batch: Option<BatchKey>,
        now: Instant,
        out: &mut impl Sink,
    ) -> Handled<'static, C> {
        let is_noise = reply.id == Id::NULL;
        match self.fault_limit.handle_bad(now) {
            FaultAction::Answer if is_noise && self.ignores_noise => Handled::Refused(reply),
            // A closing session leaves even valid messages unanswered.
            FaultAction::Answer if !self.phase.takes_work() && !self.is_owed(batch) => {
                Handled::Done
            }
            FaultAction::Answer if self.admission.delays_refusals(self.must_read_on()) => {
                // The refusal waits even in a batch: otherwise a batch of only invalid entries
                // would be answered before its turn.
                let job = self.new_job(None, batch, "", &Params::Absent);
                if let Some(batch) = batch {
                    self.batches.expect(batch);
                }
                self.admission.wait(job.to_owned(), Waiting::Refusal(reply.clone()));
                Handled::Refused(reply)
            }
            FaultAction::Answer => self.refuse(reply, batch, out),
            FaultAction::Report(notice) => Handled::Notice(notice),
            FaultAction::Mute => Handled::Done,
        }
    }

    pub(super) fn refuse(
        &mut self,
        reply: Reply,
        batch: Option<BatchKey>,
        out: &mut impl Sink,
    ) -> Handled<'static, C> {
        let Ok(()) = self.send(batch, out, |out| {
            reply.write(out);
            Ok::<_, Infallible>(())
        });
        Handled::Refused(reply)
    }

    /// Sends a refusal that waited for its turn.
    pub(super) fn refuse_waiting(&mut self, job: &OwnedJob, reply: Reply, out: &mut impl Sink) {
        self.refuse(reply, job.batch(), out);
        if let Some(batch) = job.batch() {
            self.batches.settle(batch, out);
        }
    }

    /// The error for a request of a batch that cannot start because the answers to batches are too
    /// large.
    #[inline]
    pub(super) fn refusal_of(&self, batch: Option<BatchKey>, method: &str) -> Option<ErrorObject> {
        batch?;
        let others_fill = || self.others_fill_batches.as_ref().is_some_and(|ask| ask());
        let is_full = (self.is_full_of_batches() || others_fill()) && !self.closes(method);
        is_full.then(|| self.busy(self.profile.limits.batch_bytes))
    }

    /// The error that names a reached capacity limit.
    pub(super) fn busy(&self, limit: usize) -> ErrorObject {
        ErrorObject::server_busy(self.profile.busy_code, limit as u64)
    }

    /// True if an entry must be answered even while closing, because its batch arrived in time.
    pub(super) fn is_owed(&self, batch: Option<BatchKey>) -> bool {
        batch.is_some_and(|batch| self.batches.is_in_time(batch))
    }

    /// The total size of answers that wait for the rest of their batches.
    pub fn batch_bytes(&self) -> usize {
        self.batches.bytes()
    }

    /// True if the answers to batches are so large that no more of their requests should start.
    pub fn is_full_of_batches(&self) -> bool {
        self.batches.bytes() >= self.profile.limits.batch_bytes
    }
}
