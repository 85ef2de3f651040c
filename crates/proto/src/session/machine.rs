//! The session: all rules of one connection joined.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use super::batch::Batches;
use super::calls::Calls;
use super::cancel::Word;
use super::schedule::{Admission, Found, Schedule};
use super::waiting::Waiting;
use super::{BatchKey, Ending, Job, Key, LaneOf, Message, Outlet, Phase, Storm, Terms, Treatment};
use crate::Profile;
use crate::fault::Fault;
use crate::message::{
    ErrorObject, Id, Incoming, Notification, Params, Reason, Reply, Request, Settled,
};
use crate::notice::Notice;

/// One connection. `C` is whoever waits for the answer to a call.
///
/// What comes in goes to the `handle_*` methods, which say what to do about it. A handler that
/// runs to its end at once is answered with [`answer`](Session::answer); one that has to wait is
/// [`park`](Session::park)ed, and answered with [`finish`](Session::finish). After either, and
/// after every cancellation, ask [`next_ready`](Session::next_ready) for those whose turn has come.
///
/// ```
/// use std::time::Instant;
/// use duet_rpc_proto::{Limits, Profile, message::{Incoming, write_raw_result}, text::Text};
/// use duet_rpc_proto::session::{Handled, Session};
///
/// let (mut session, mut out) = (Session::<()>::new(&Profile::agent()), Vec::new());
/// let text = Text::check(br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#, 128)?;
/// let message = Incoming::classify(&text, session.profile().batch, &Limits::default());
/// let Handled::Start { job, method, .. } = session.handle(message, None, Instant::now(), &mut out)
/// else { panic!("nothing stands in its way") };
/// assert_eq!(method, "ping");
/// session.answer(job, &mut out, |out, id| {
///     write_raw_result(out, id, r#""pong""#);
///     Ok::<_, std::convert::Infallible>(())
/// })?;
/// assert_eq!(out, [br#"{"jsonrpc":"2.0","id":7,"result":"pong"}"#]);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct Session<C> {
    profile: Profile,
    phase: Phase,
    storm: Storm,
    calls: Calls<C>,
    schedule: Schedule,
    batches: Batches,
    lane_of: Option<LaneOf>,
    closes: Option<Closes>,
    last_key: u64,
    unmatched: u64,
    /// Whether somebody waits to make a call.
    has_callers_waiting: bool,
}

/// Whether a method closes the connection.
pub type Closes = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What to do about a message.
#[derive(Debug)]
pub enum Handled<'m, C> {
    /// Run its handler now.
    Start {
        /// To be given back.
        job: Job,
        /// The method's name.
        method: Cow<'m, str>,
        /// Its parameters.
        params: Params<'m>,
    },
    /// Nothing: it waits for its turn.
    Waits {
        /// Its key.
        key: Key,
        /// The method's name.
        method: Cow<'m, str>,
    },
    /// Nothing: it was answered with this error, or will be when its turn comes.
    Refused(Reply),
    /// Tell the caller of this call.
    Settled {
        /// The call's id.
        id: Id,
        /// Whom to tell.
        caller: C,
        /// What the answer is.
        settled: Settled<'m>,
    },
    /// Stop this handler; the request has been answered. When it has ended, call
    /// [`Session::finish`].
    Stop(Key),
    /// Log this.
    Notice(Notice),
    /// Nothing.
    Done,
}

impl<C> Session<C> {
    /// A session that is open.
    pub fn new(profile: &Profile) -> Self {
        let profile = Profile { limits: profile.limits.usable(), ..*profile };
        Session {
            profile,
            phase: Phase::Open,
            storm: Storm::new(&profile.limits),
            calls: Calls::default(),
            schedule: Schedule::new(profile.order, profile.limits),
            batches: Batches::default(),
            lane_of: None,
            closes: None,
            last_key: 0,
            unmatched: 0,
            has_callers_waiting: false,
        }
    }

    /// Finds the lanes of messages with this, where the order is by key.
    pub fn set_lanes(&mut self, lane_of: LaneOf) {
        self.lane_of = Some(lane_of);
    }

    /// Never refuses a request of these methods because there are too many: nobody could close a
    /// connection that is busy.
    pub fn set_closing(&mut self, closes: Closes) {
        self.closes = Some(closes);
    }

    /// The settings.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    // ---- what comes in

    /// Bytes came that hold no message.
    pub fn handle_fault(
        &mut self,
        fault: &Fault<'_>,
        now: Instant,
        out: &mut impl Outlet,
    ) -> Handled<'static, C> {
        self.refuse_bad(Reply::to_fault(fault), None, now, out)
    }

    /// A message came, in a batch or by itself. The batch itself is for
    /// [`begin_batch`](Session::begin_batch).
    #[inline]
    pub fn handle<'m>(
        &mut self,
        message: Incoming<'m>,
        batch: Option<BatchKey>,
        now: Instant,
        out: &mut impl Outlet,
    ) -> Handled<'m, C> {
        match message {
            Incoming::Request(request) => self.handle_request(request, batch, out),
            Incoming::Notification(notification) => {
                self.handle_notification(notification, now, out)
            }
            Incoming::Response(response) => {
                self.storm.handle_good();
                match self.calls.end(&response.id) {
                    Some(caller) => {
                        Handled::Settled { id: response.id, caller, settled: response.settled }
                    }
                    None => {
                        self.unmatched += 1;
                        Handled::Notice(Notice::UnmatchedResponse)
                    }
                }
            }
            Incoming::Invalid(reply) => self.refuse_bad(reply, batch, now, out),
            Incoming::Stray(stray) => match self.storm.handle_bad(now) {
                Treatment::Answer => Handled::Notice(Notice::Stray(stray.why)),
                Treatment::Report(notice) => Handled::Notice(notice),
                Treatment::Mute => Handled::Done,
            },
            Incoming::Batch(_) => Handled::Done,
        }
    }

    /// A batch came: [`handle`](Session::handle) its entries with this key, then
    /// [`end_batch`](Session::end_batch).
    pub fn begin_batch(&mut self) -> BatchKey {
        self.batches.begin()
    }

    /// All entries of a batch have been handled. It is answered when the last of them is.
    pub fn end_batch(&mut self, batch: BatchKey, out: &mut impl Outlet) {
        self.batches.end(batch, out);
    }

    #[inline]
    fn handle_request<'m>(
        &mut self,
        request: Request<'m>,
        batch: Option<BatchKey>,
        out: &mut impl Outlet,
    ) -> Handled<'m, C> {
        self.storm.handle_good();
        if !self.phase.takes_work() {
            return Handled::Done;
        }
        let Request { id, method, params } = request;
        if self.schedule.is_duplicate(&id) {
            let error = ErrorObject::invalid_request_because(Reason::DuplicateId);
            return self.refuse(Reply { id, error }, batch, out);
        }
        if let Some(error) = self.refusal_of(batch) {
            return self.refuse(Reply { id, error }, batch, out);
        }
        let job = self.new_job(Some(id), batch, &method, &params);
        let mut admission = self.schedule.admit(&job, self.must_read_on());
        if let Admission::Busy(_) = admission
            && self.closes.as_ref().is_some_and(|closes| closes(&method))
        {
            admission = self.schedule.admit_over_limit(&job);
        }
        match (admission, job) {
            (Admission::Busy(limit), Job { id: Some(id), .. }) => {
                self.refuse(Reply { id, error: ErrorObject::server_busy(limit as u64) }, batch, out)
            }
            (Admission::Start, job) => {
                if let Some(batch) = batch {
                    self.batches.expect(batch);
                }
                Handled::Start { job, method, params }
            }
            (_, job) => {
                if let Some(batch) = batch {
                    self.batches.expect(batch);
                }
                let key = job.key();
                self.schedule.wait(job, Waiting::Message(Message::new(&method, &params)));
                Handled::Waits { key, method }
            }
        }
    }

    fn handle_notification<'m>(
        &mut self,
        notification: Notification<'m>,
        now: Instant,
        out: &mut impl Outlet,
    ) -> Handled<'m, C> {
        self.storm.handle_good();
        let Notification { method, params } = notification;
        match self.profile.dialect.hear(&method, &params) {
            Some(Word::Cancel(id)) => return self.handle_cancel(&id, out),
            Some(Word::Malformed) => return Handled::Notice(Notice::BadCancellation),
            Some(Word::Progress(token)) => self.calls.restart(&token, now),
            None => {}
        }
        if !self.phase.takes_work() {
            return Handled::Done;
        }
        let job = self.new_job(None, None, &method, &params);
        match self.schedule.admit(&job, self.must_read_on()) {
            Admission::Start => Handled::Start { job, method, params },
            Admission::Wait => {
                let key = job.key();
                self.schedule.wait(job, Waiting::Message(Message::new(&method, &params)));
                Handled::Waits { key, method }
            }
            Admission::Busy(_) | Admission::Drop => Handled::Notice(Notice::NotificationDropped),
        }
    }

    fn handle_cancel(&mut self, id: &Id, out: &mut impl Outlet) -> Handled<'static, C> {
        match self.schedule.cancel(id) {
            // The request is unknown, or was answered just now.
            None => Handled::Done,
            Some(Found::Waiting(job)) => {
                self.answer_error(job, &ErrorObject::request_cancelled(), out);
                Handled::Done
            }
            Some(Found::Running(key)) => {
                // The job stays until its handler has ended; only the answer goes out now.
                let answered = self.schedule.job(key).map(|job| Job {
                    key,
                    id: job.id.clone(),
                    lane: job.lane,
                    batch: job.batch,
                });
                if let Some(job) = answered {
                    self.answer_error(job, &ErrorObject::request_cancelled(), out);
                }
                Handled::Stop(key)
            }
        }
    }

    fn new_job(
        &mut self,
        id: Option<Id>,
        batch: Option<BatchKey>,
        method: &str,
        params: &Params<'_>,
    ) -> Job {
        self.last_key += 1;
        let lane = self.lane_of.as_ref().and_then(|lane_of| lane_of(method, params));
        Job { key: Key(self.last_key), id, lane: self.schedule.lane(lane), batch }
    }

    /// Whether the answers to batches hold so much that no more of their requests should begin.
    pub fn is_full_of_batches(&self) -> bool {
        self.batches.bytes() >= self.profile.limits.batch_bytes
    }

    /// Why no further request of a batch is begun, if the answers to batches have got too large.
    fn refusal_of(&self, batch: Option<BatchKey>) -> Option<ErrorObject> {
        let most = self.profile.limits.batch_bytes;
        let is_full = batch.is_some() && self.is_full_of_batches();
        is_full.then(|| ErrorObject::server_busy(most as u64))
    }

    /// An answer to a call of ours may stand behind what comes now.
    fn must_read_on(&self) -> bool {
        !self.calls.is_empty() || self.has_callers_waiting
    }

    fn refuse_bad(
        &mut self,
        reply: Reply,
        batch: Option<BatchKey>,
        now: Instant,
        out: &mut impl Outlet,
    ) -> Handled<'static, C> {
        match self.storm.handle_bad(now) {
            // Good messages are not answered any more either.
            Treatment::Answer if !self.phase.takes_work() => Handled::Done,
            Treatment::Answer
                if batch.is_none() && self.schedule.delays_refusals(self.must_read_on()) =>
            {
                let job = self.new_job(None, None, "", &Params::Absent);
                self.schedule.wait(job, Waiting::Refusal(reply.clone()));
                Handled::Refused(reply)
            }
            Treatment::Answer => self.refuse(reply, batch, out),
            Treatment::Report(notice) => Handled::Notice(notice),
            Treatment::Mute => Handled::Done,
        }
    }

    fn refuse(
        &mut self,
        reply: Reply,
        batch: Option<BatchKey>,
        out: &mut impl Outlet,
    ) -> Handled<'static, C> {
        let Ok(()) = self.send(batch, out, |out| {
            reply.write(out);
            Ok::<_, Infallible>(())
        });
        Handled::Refused(reply)
    }

    fn send<E>(
        &mut self,
        batch: Option<BatchKey>,
        out: &mut impl Outlet,
        message: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        match batch {
            None => out.send(message),
            Some(batch) => self.batches.add(batch, message),
        }
    }

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
            match (waiting, self.refusal_of(job.batch)) {
                (Waiting::Message(message), None) => return Some((job, message)),
                (Waiting::Message(_), Some(error)) => self.answer_error(job, &error, out),
                (Waiting::Refusal(reply), _) => {
                    self.refuse(reply, None, out);
                }
            }
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

    /// Answers a job with an error.
    pub fn answer_error(&mut self, job: Job, error: &ErrorObject, out: &mut impl Outlet) {
        let Ok(()) = self.answer(job, out, |out, id| {
            crate::message::write_error(out, id, error);
            Ok::<_, Infallible>(())
        });
    }

    /// The handler of a job waits: others may start beside it, if the order allows it.
    pub fn park(&mut self, job: Job) -> Key {
        self.schedule.park(job)
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

    /// Ends a call whose time is over: the remote is told, and the caller is to be.
    pub fn expire(&mut self, now: Instant, out: &mut impl Outlet) -> Option<(Id, C)> {
        let (id, caller) = self.calls.expire(now)?;
        self.profile.dialect.say_cancelled(&id, out);
        Some((id, caller))
    }

    /// Ends any one call, because no answer can come any more; ask until there is none.
    pub fn abandon(&mut self) -> Option<(Id, C)> {
        if self.phase.hears() { None } else { self.calls.end_any() }
    }

    /// Says whether somebody waits for room to make a call. To such a one the remote's answer matters
    /// as much as to one whose call is pending, and two peers that both wait for room must read.
    pub fn set_callers_waiting(&mut self, are_waiting: bool) {
        self.has_callers_waiting = are_waiting;
    }

    /// How many calls wait for an answer.
    pub fn pending_calls(&self) -> usize {
        self.calls.len()
    }

    // ---- time, and the end

    /// When [`handle_timeout`](Session::handle_timeout) and [`expire`](Session::expire) have
    /// something to do, or the time for draining is over.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let times = [self.calls.next_deadline(), self.storm.poll_timeout(), self.phase.deadline()];
        times.into_iter().flatten().min()
    }

    /// Time has passed: there may be something to log.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<Notice> {
        self.storm.handle_timeout(now)
    }

    /// The input has ended. No answer can come any more: [`abandon`](Session::abandon) the calls.
    pub fn handle_end(&mut self, now: Instant) {
        self.phase.drain(Ending::Input, self.profile.drain_timeout, now);
    }

    /// Closes: what is under way is finished, but nothing new is begun. If a message asked for
    /// it, what came after that one is not begun either.
    pub fn close(&mut self, asked_by: Option<Key>, now: Instant, out: &mut impl Outlet) {
        self.phase.drain(Ending::Closing, self.profile.drain_timeout, now);
        if let Some(key) = asked_by {
            for job in self.schedule.drop_after(key) {
                // An answer that never comes must not keep the rest of its batch.
                if let Some(batch) = job.batch {
                    self.batches.settle(batch, out);
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
    pub fn handle_gone(&mut self) {
        self.phase = Phase::Closed;
        self.schedule.drop_all();
        self.batches = Batches::default();
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

    /// How many responses answered no call: late ones, second ones, strangers.
    pub fn unmatched_responses(&self) -> u64 {
        self.unmatched
    }

    /// Whether nothing is left of what has ended: no entry, no deadline, no token, no lane.
    pub fn is_clean(&self) -> bool {
        let calls = self.calls.len() + self.calls.left_behind();
        self.is_idle() && calls + self.schedule.left_behind() == 0
    }
}

impl<C> std::fmt::Debug for Session<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Session");
        shown.field("phase", &self.phase).field("schedule", &self.schedule);
        shown.field("pending_calls", &self.calls.len()).finish_non_exhaustive()
    }
}
