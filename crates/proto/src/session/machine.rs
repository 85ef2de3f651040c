//! The session: all rules of one connection joined; here what comes in, and in `ends` how all that
//! is under way ends.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use super::batch::Batches;
use super::calls::Calls;
use super::cancel::{self, Word};
use super::schedule::{Admission, Found, Schedule};
use super::waiting::Waiting;
use super::{BatchKey, Job, Key, LaneOf, Message, Outlet, Phase, Storm, Treatment};
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
    pub(super) profile: Profile,
    pub(super) phase: Phase,
    pub(super) storm: Storm,
    pub(super) calls: Calls<C>,
    pub(super) schedule: Schedule,
    pub(super) batches: Batches,
    pub(super) others_fill_batches: Option<Asks>,
    pub(super) lane_of: Option<LaneOf>,
    pub(super) closes: Option<Closes>,
    pub(super) last_key: u64,
    pub(super) unmatched: u64,
}

/// Whether a method closes the connection.
pub type Closes = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Asks something outside of the session.
pub type Asks = Arc<dyn Fn() -> bool + Send + Sync>;

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
    /// Stop this handler: its request was cancelled, and answered if the dialect demands it. When the
    /// handler has ended, call [`Session::finish`].
    Stop(Key),
    /// Nothing: this request was cancelled before it began, and answered if the dialect demands it.
    Cancelled(Option<Id>),
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
            others_fill_batches: None,
            lane_of: None,
            closes: None,
            last_key: 0,
            unmatched: 0,
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

    /// Refuses requests of batches also while this says that the batches of other connections hold too much.
    pub fn set_others_fill_batches(&mut self, ask: Asks) {
        self.others_fill_batches = Some(ask);
    }

    /// The settings.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

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

    /// A request came that is begun at once, as nothing else is under way: here is its key. It is
    /// answered with its id and no more; if that is not at once, it becomes a
    /// [`job`](Session::job_of). `None` if it has to be [`handle`](Session::handle)d.
    #[inline]
    pub fn begin_at_once(&mut self) -> Option<Key> {
        let is_free = self.phase == Phase::Open && self.lane_of.is_none();
        if !is_free || !self.schedule.is_free_for_any() {
            return None;
        }
        self.storm.handle_good();
        self.last_key += 1;
        Some(Key(self.last_key))
    }

    /// The job of a request that was [begun at once](Session::begin_at_once).
    pub fn job_of(&mut self, key: Key, id: Id) -> Job {
        Job { key, id: Some(id), lane: self.schedule.lane(None), batch: None }
    }

    /// The next message has come over a transport that answers each one by itself, as HTTP does. No answer
    /// causes a message there, so bad ones cannot become a storm, and each is answered.
    pub fn begin_exchange(&mut self) {
        self.storm.handle_good();
    }

    /// A batch came: [`handle`](Session::handle) its entries with this key, then
    /// [`end_batch`](Session::end_batch).
    pub fn begin_batch(&mut self) -> BatchKey {
        self.batches.begin(self.phase.takes_work())
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
        let Request { id, method, params } = request;
        if !self.phase.takes_work() {
            if !self.is_owed(batch) {
                return Handled::Done;
            }
            let error = ErrorObject::invalid_request_because(Reason::ShuttingDown);
            return self.refuse(Reply { id, error }, batch, out);
        }
        if self.schedule.is_duplicate(&id) {
            let error = ErrorObject::invalid_request_because(Reason::DuplicateId);
            return self.refuse(Reply { id, error }, batch, out);
        }
        if let Some(error) = self.refusal_of(batch, &method) {
            return self.refuse(Reply { id, error }, batch, out);
        }
        let job = self.new_job(Some(id), batch, &method, &params);
        let mut admission = self.schedule.admit(&job, self.must_read_on());
        if let Admission::Busy(_) = admission
            && self.closes(&method)
        {
            admission = self.schedule.admit_over_limit(&job);
        }
        match (admission, job) {
            (Admission::Busy(limit), Job { id: Some(id), .. }) => {
                self.refuse(Reply { id, error: self.busy(limit) }, batch, out)
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
        match cancel::hear(&method, &params) {
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
                let id = job.id.clone();
                self.settle_cancelled(job, out);
                Handled::Cancelled(id)
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
                    self.settle_cancelled(job, out);
                }
                Handled::Stop(key)
            }
        }
    }

    /// Answers a request that was cancelled, or leaves it unanswered, as the dialect demands.
    fn settle_cancelled(&mut self, job: Job, out: &mut impl Outlet) {
        if self.profile.dialect.answers_cancelled() {
            self.answer_error(job, &ErrorObject::request_cancelled(), out);
        } else if let Some(batch) = job.batch {
            self.batches.settle(batch, out);
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

    /// How many bytes of answers wait for the rest of their batches.
    pub fn batch_bytes(&self) -> usize {
        self.batches.bytes()
    }

    /// Whether the answers to batches hold so much that no more of their requests should begin.
    pub fn is_full_of_batches(&self) -> bool {
        self.batches.bytes() >= self.profile.limits.batch_bytes
    }

    /// Why a request of a batch is not begun, if the answers to batches have got too large.
    pub(super) fn refusal_of(&self, batch: Option<BatchKey>, method: &str) -> Option<ErrorObject> {
        batch?;
        let others_fill = || self.others_fill_batches.as_ref().is_some_and(|ask| ask());
        let is_full = (self.is_full_of_batches() || others_fill()) && !self.closes(method);
        is_full.then(|| self.busy(self.profile.limits.batch_bytes))
    }

    fn closes(&self, method: &str) -> bool {
        self.closes.as_ref().is_some_and(|closes| closes(method))
    }

    /// The error that says which capacity limit is reached.
    fn busy(&self, limit: usize) -> ErrorObject {
        ErrorObject::server_busy(self.profile.busy_code, limit as u64)
    }

    /// An answer to a call of ours may stand behind what comes now.
    pub(super) fn must_read_on(&self) -> bool {
        !self.calls.is_empty()
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
            Treatment::Answer if !self.phase.takes_work() && !self.is_owed(batch) => Handled::Done,
            Treatment::Answer if self.schedule.delays_refusals(self.must_read_on()) => {
                // In a batch too: one with nothing else in it would be answered before its turn.
                let job = self.new_job(None, batch, "", &Params::Absent);
                if let Some(batch) = batch {
                    self.batches.expect(batch);
                }
                self.schedule.wait(job, Waiting::Refusal(reply.clone()));
                Handled::Refused(reply)
            }
            Treatment::Answer => self.refuse(reply, batch, out),
            Treatment::Report(notice) => Handled::Notice(notice),
            Treatment::Mute => Handled::Done,
        }
    }

    /// Whether an entry of a batch is answered even though nothing is begun any more.
    fn is_owed(&self, batch: Option<BatchKey>) -> bool {
        batch.is_some_and(|batch| self.batches.is_in_time(batch))
    }

    pub(super) fn refuse(
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

    pub(super) fn send<E>(
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
}

impl<C> std::fmt::Debug for Session<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Session");
        shown.field("phase", &self.phase).field("schedule", &self.schedule);
        shown.field("pending_calls", &self.calls.len()).finish_non_exhaustive()
    }
}
