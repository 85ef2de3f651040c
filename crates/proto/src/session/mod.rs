//! The session: one connection as a pure state machine.
//!
//! A [`Session`] has no tasks, no I/O and no clock: time is an argument, and a driver runs the
//! handlers. It has three kinds of methods, and a driver calls them in this order:
//!
//! 1. `handle_*` takes input: faults, messages, time, the end of the input. It returns the action
//!    to take, as a [`Handled`] or a notice.
//! 2. Plain verbs are commands: [`answer`](Session::answer), [`park`](Session::park),
//!    [`finish`](Session::finish), [`call`](Session::call), [`cancel`](Session::cancel),
//!    [`close`](Session::close).
//! 3. `next_*` and `poll_*` return output. After every command or cancellation, ask
//!    [`next_ready`](Session::next_ready) for messages whose turn has come. Before you wait, ask
//!    [`poll_timeout`](Session::poll_timeout).
//!
//! | file | state machine |
//! |---|---|
//! | `admission` | messages that run or wait to run: orders, limits, cancellation |
//! | `answer` | answers to incoming messages, alone or in a batch |
//! | `batch` | batches, answered as a whole |
//! | `calls` | our pending calls, each ended exactly once |
//! | `phase` | open, draining, closed |
//! | `fault_limit` | cap on answered bad messages in a row |
//! | `events` | event streams that drop events and count them |

mod admission;
mod answer;
mod batch;
mod calls;
mod cancel;
mod events;
mod fault_limit;
mod ids;
mod job;
mod phase;
mod sink;
mod waiting;

use std::sync::Arc;
use std::time::Instant;

pub use self::admission::LaneOf;
use self::admission::{Admission, CancelTarget, Verdict};
pub use self::batch::BatchKey;
use self::batch::Batches;
use self::calls::Calls;
pub use self::calls::{CallOptions, Progress};
use self::cancel::Meaning;
pub use self::events::{EventQueue, Priority, QueuedEvent};
pub use self::fault_limit::{FaultAction, FaultLimit};
pub use self::ids::Ids;
pub use self::job::{Job, Key, OwnedJob};
pub use self::phase::{Draining, Ending, Phase};
pub use self::sink::Sink;
pub use self::waiting::Message;
use self::waiting::Waiting;
use crate::fault::Fault;
use crate::message::{
    ErrorObject, Id, IdRef, Incoming, Notification, Params, Reason, Reply, Request,
};
use crate::notice::Notice;
use crate::policy::Profile;

/// One connection. `C` identifies the caller that waits for a response.
///
/// The driver passes all input to a `handle_*` method, which returns the action to take. If the
/// handler is ready immediately, [`answer`](Session::answer) the job. If it has to wait,
/// [`park`](Session::park) the job, and answer it after [`finish`](Session::finish).
///
/// ```
/// use std::convert::Infallible;
/// use std::time::Instant;
/// use duet_rpc_proto::{Limits, Profile, message::{Incoming, write_raw_result}, text::Text};
/// use duet_rpc_proto::session::{Handled, Session};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (mut session, mut out) = (Session::<()>::new(&Profile::agent()), Vec::new());
/// let text = Text::check(br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#, 128)?;
/// let message = Incoming::classify(&text, session.profile().batch, &Limits::default());
/// let Handled::Start(job) = session.handle(&message, None, Instant::now(), &mut out)
/// else { panic!("it can start") };
/// session.answer(job, &mut out, |out, id| -> Result<(), Infallible> {
///     write_raw_result(out, id, r#""pong""#);
///     Ok(())
/// })?;
/// assert_eq!(out, [br#"{"jsonrpc":"2.0","id":7,"result":"pong"}"#]);
/// # Ok(())
/// # }
/// ```
pub struct Session<C> {
    profile: Profile,
    phase: Phase,
    fault_limit: FaultLimit,
    ignores_noise: bool,
    calls: Calls<C>,
    admission: Admission,
    batches: Batches,
    others_fill_batches: Option<Asks>,
    lane_of: Option<LaneOf>,
    closes: Option<Closes>,
    last_key: u64,
    unmatched: u64,
}

/// Returns true for a method that closes the connection.
pub type Closes = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Returns true or false about a state outside the session.
pub type Asks = Arc<dyn Fn() -> bool + Send + Sync>;

/// The action that a message requires.
#[derive(Debug)]
pub enum Handled<'m, C> {
    /// Run the message's handler now, then answer or park the job.
    Start(Job<'m>),
    /// Nothing: the message waits for its turn.
    Waits(Key),
    /// Nothing: the message was answered with this error, or will be when its turn comes. A session that
    /// [ignores noise](Session::ignore_noise) does not send an error without an id.
    Refused(Reply),
    /// Pass the response to this caller.
    Settled(C),
    /// Stop this handler. Its request was cancelled, and answered if the dialect demands it. Call
    /// [`Session::finish`] when the handler has ended.
    Stop(Key),
    /// Nothing: this request was cancelled before it started, and answered if the dialect demands
    /// it.
    Cancelled(Option<Id>),
    /// It cancels a request that this session does not have: it is answered, or came on another connection.
    CancelledElsewhere(Id),
    /// Log this.
    Notice(Notice),
    /// Nothing.
    Done,
}

impl<C> Session<C> {
    /// An open session.
    pub fn new(profile: &Profile) -> Self {
        let profile = Profile { limits: profile.limits.usable(), ..*profile };
        Session {
            profile,
            phase: Phase::Open,
            fault_limit: FaultLimit::new(&profile.limits),
            ignores_noise: false,
            calls: Calls::default(),
            admission: Admission::new(profile.order, profile.limits),
            batches: Batches::default(),
            others_fill_batches: None,
            lane_of: None,
            closes: None,
            last_key: 0,
            unmatched: 0,
        }
    }

    /// Sets the function that finds the lane of a message, for
    /// [`Order::ByKey`](crate::policy::Order::ByKey).
    pub fn set_lanes(&mut self, lane_of: LaneOf) {
        self.lane_of = Some(lane_of);
    }

    /// Sets the methods that close the connection. Capacity limits never refuse them: otherwise a
    /// busy connection could not be closed.
    pub fn set_closing(&mut self, closes: Closes) {
        self.closes = Some(closes);
    }

    /// Sets a function that returns true while the batches of other connections hold too much. This
    /// session then refuses requests of batches too.
    pub fn set_others_fill_batches(&mut self, ask: Asks) {
        self.others_fill_batches = Some(ask);
    }

    /// Sets whether faults and invalid messages without an id are left without an answer. For a remote that is a child
    /// process: they are usually prints, and the answer, an error with `id: null`, makes some servers exit.
    pub fn ignore_noise(&mut self, ignores_noise: bool) {
        self.ignores_noise = ignores_noise;
    }

    /// The settings.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    // ---- input

    /// Handles a fault of the decoder.
    pub fn handle_fault(
        &mut self,
        fault: &Fault<'_>,
        now: Instant,
        out: &mut impl Sink,
    ) -> Handled<'static, C> {
        self.refuse_bad(Reply::to_fault(fault), None, now, out)
    }

    /// Handles a message, alone or as an entry of a batch. For the batch itself see
    /// [`begin_batch`](Session::begin_batch).
    #[inline(always)]
    pub fn handle<'m>(
        &mut self,
        message: &Incoming<'m>,
        batch: Option<BatchKey>,
        now: Instant,
        out: &mut impl Sink,
    ) -> Handled<'m, C> {
        match message {
            Incoming::Request(request) => self.handle_request(request, batch, out),
            Incoming::Notification(notification) => {
                self.handle_notification(notification, now, out)
            }
            Incoming::Response(response) => {
                self.fault_limit.handle_good();
                match self.calls.end(&response.id) {
                    Some(caller) => Handled::Settled(caller),
                    None => {
                        self.unmatched += 1;
                        Handled::Notice(Notice::UnmatchedResponse)
                    }
                }
            }
            Incoming::Invalid(reply) => self.refuse_bad(reply.clone(), batch, now, out),
            Incoming::InvalidResponse(response) => match self.fault_limit.handle_bad(now) {
                FaultAction::Answer => Handled::Notice(Notice::InvalidResponse(response.why)),
                FaultAction::Report(notice) => Handled::Notice(notice),
                FaultAction::Mute => Handled::Done,
            },
            Incoming::Batch(_) => Handled::Done,
        }
    }

    /// Begins a batch: [`handle`](Session::handle) its entries with this key, then
    /// [`end_batch`](Session::end_batch).
    pub fn begin_batch(&mut self) -> BatchKey {
        self.batches.begin(self.phase.takes_work())
    }

    /// Ends a batch whose entries have all been handled. It is answered after its last request.
    pub fn end_batch(&mut self, batch: BatchKey, out: &mut impl Sink) {
        self.batches.end(batch, out);
    }

    #[inline(always)]
    fn handle_request<'m>(
        &mut self,
        request: &Request<'m>,
        batch: Option<BatchKey>,
        out: &mut impl Sink,
    ) -> Handled<'m, C> {
        self.fault_limit.handle_good();
        let Request { id, method, params } = request;
        if let Err(error) = self.check_request(*id, batch, method) {
            return match error {
                Some(error) => self.refuse(Reply { id: id.to_id(), error }, batch, out),
                None => Handled::Done,
            };
        }
        let job = self.new_job(Some(*id), batch, method, params);
        let mut verdict = self.admission.admit(&job, self.must_read_on());
        if let Verdict::Busy(_) = verdict
            && self.closes(method)
        {
            verdict = self.admission.admit_over_limit(&job);
        }
        if let Verdict::Busy(limit) = verdict {
            let reply = Reply { id: id.to_id(), error: self.busy(limit) };
            return self.refuse(reply, batch, out);
        }
        if let Some(batch) = batch {
            self.batches.expect(batch);
        }
        match verdict {
            Verdict::Start => Handled::Start(job),
            _ => self.wait(&job, method, params),
        }
    }

    /// Refuses a request that must not start, with an error or without an answer.
    #[inline(always)]
    fn check_request(
        &self,
        id: IdRef<'_>,
        batch: Option<BatchKey>,
        method: &str,
    ) -> Result<(), Option<ErrorObject>> {
        let refused = |reason| Err(Some(ErrorObject::invalid_request_because(reason)));
        if !self.phase.takes_work() {
            return if self.is_owed(batch) { refused(Reason::ShuttingDown) } else { Err(None) };
        }
        if self.admission.is_duplicate(id) {
            return refused(Reason::DuplicateId);
        }
        self.refusal_of(batch, method).map_or(Ok(()), |error| Err(Some(error)))
    }

    fn wait<'m>(&mut self, job: &Job<'m>, method: &str, params: &Params<'m>) -> Handled<'m, C> {
        self.admission.wait(job.to_owned(), Waiting::Message(Message::new(method, params)));
        Handled::Waits(job.key())
    }

    fn handle_notification<'m>(
        &mut self,
        notification: &Notification<'m>,
        now: Instant,
        out: &mut impl Sink,
    ) -> Handled<'m, C> {
        self.fault_limit.handle_good();
        let Notification { method, params } = notification;
        match cancel::parse(method, params) {
            Some(Meaning::Cancel(id)) => return self.handle_cancel(id, out),
            Some(Meaning::Malformed) => return Handled::Notice(Notice::BadCancellation),
            Some(Meaning::Progress(token)) => self.calls.restart(&token, now),
            None => {}
        }
        if !self.phase.takes_work() {
            return Handled::Done;
        }
        let job = self.new_job(None, None, method, params);
        match self.admission.admit(&job, self.must_read_on()) {
            Verdict::Start => Handled::Start(job),
            Verdict::Wait => self.wait(&job, method, params),
            Verdict::Busy(_) | Verdict::Drop => Handled::Notice(Notice::NotificationDropped),
        }
    }

    /// Cancels the request of the remote with this id. A cancellation that arrives as a message does the same; this is
    /// for one that arrived elsewhere.
    pub fn handle_cancel(&mut self, id: Id, out: &mut impl Sink) -> Handled<'static, C> {
        match self.admission.cancel(&id) {
            // The request has just been answered, or another connection has it.
            None => Handled::CancelledElsewhere(id),
            Some(CancelTarget::Waiting(job)) => {
                self.answer_cancelled(&job, out);
                Handled::Cancelled(job.into_id())
            }
            // The job stays until its handler has ended; only its answer leaves now.
            Some(CancelTarget::Running(job)) => {
                self.answer_cancelled(&job, out);
                Handled::Stop(job.key())
            }
        }
    }

    #[inline(always)]
    fn new_job<'m>(
        &mut self,
        id: Option<IdRef<'m>>,
        batch: Option<BatchKey>,
        method: &str,
        params: &Params<'_>,
    ) -> Job<'m> {
        self.last_key += 1;
        let lane = self.lane_of.as_ref().and_then(|lane_of| lane_of(method, params));
        Job { key: Key(self.last_key), id, lane: self.admission.lane(lane), batch }
    }

    fn closes(&self, method: &str) -> bool {
        self.closes.as_ref().is_some_and(|closes| closes(method))
    }

    /// True if a response to a call of ours may be among the unread bytes.
    fn must_read_on(&self) -> bool {
        !self.calls.is_empty()
    }

    // ---- state

    /// True if the driver should read now. False if too much waits, so that the remote has to wait too,
    /// or if the connection is closing and needs nothing more.
    #[inline]
    pub fn wants_input(&self) -> bool {
        match self.phase {
            Phase::Open => !self.admission.is_full() || self.must_read_on(),
            Phase::Draining(draining) if draining.ending == Ending::Input => {
                !self.admission.is_full()
            }
            Phase::Draining(_) => self.must_read_on(),
            Phase::Closed => false,
        }
    }

    /// True if every incoming message has been dealt with.
    pub fn is_idle(&self) -> bool {
        self.admission.running() == 0 && self.admission.waiting() == 0 && self.batches.is_empty()
    }

    /// The number of parked handlers.
    pub fn running(&self) -> usize {
        self.admission.running()
    }

    /// The number of messages that wait for their turn.
    pub fn waiting(&self) -> usize {
        self.admission.waiting()
    }

    /// The number of responses that match no call: late, duplicate, or with an unknown id.
    pub fn unmatched_responses(&self) -> u64 {
        self.unmatched
    }

    /// True if nothing is left of ended messages and calls: no entry, deadline, token or lane.
    pub fn is_clean(&self) -> bool {
        let left = [self.calls.len(), self.calls.left_behind(), self.admission.left_behind()];
        self.is_idle() && left == [0; 3]
    }
}

impl<C> std::fmt::Debug for Session<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Session");
        shown.field("phase", &self.phase).field("admission", &self.admission);
        shown.field("pending_calls", &self.calls.len()).finish_non_exhaustive()
    }
}

/// The earlier of two times; if only one is set, that one.
#[inline]
fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
