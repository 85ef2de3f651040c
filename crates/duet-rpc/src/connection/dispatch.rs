//! Dispatch: runs the handler of a message, and answers with its outcome.
//!
//! | the method is | its handler runs |
//! |---|---|
//! | known to be quick | inline, on the connection's thread; as a task once it waits |
//! | slow or new, and there are workers | on the worker pool |
//! | new or closing, and all workers are blocked | as a task on the connection's thread |
//! | slow, and there are no workers | inline, after finished answers have left |
//!
//! The module `pace` knows whether a method is quick. While a new method runs for the first time, no other
//! handler begins until its first poll is over, or [`QUICK_POLL`] has passed. Otherwise a burst of calls to a
//! quick method would fill the pool, and the in-flight limit would refuse the rest.
//!
//! Every outcome goes through [`Connection::answer`], inline or not.

use std::sync::{Arc, Weak};
use std::task::Context as TaskContext;
use std::time::{Duration, Instant};

use duet_rpc_proto::message::{Code, ErrorObject, IdRef, Params, write_result_with};
use duet_rpc_proto::session::{Job, Key};
use rustc_hash::FxHashMap;
use tokio::runtime::RuntimeFlavor;
use tracing::{Instrument, Span};

use super::inline_host::InlineHost;
use super::tasks::{Running, Task};
use super::worker_pool::WorkerPool;
use super::{Connection, log};
use crate::context::Flag;
use crate::error::{ConnectionState, Error, ErrorKind};
use crate::handler::{Answer, Slot, Waiting};
use crate::panic_guard;
use crate::peer::Handle;
use crate::router::{End, Entry, QUICK_POLL, Router, Stopwatch};

/// A longer turn may contain a handler that is not quick.
const LONG_TURN: Duration = Duration::from_millis(1);

/// The number of turns after a long one in which every inline handler is timed, and not only the first of
/// a turn.
const WATCHFUL_TURNS: u8 = 255;

pub(super) struct Dispatch {
    pub(super) router: Router,
    /// The method that was called last, because a burst calls the same method.
    latest: Option<Arc<Entry>>,
    /// The slots of the handlers, by index.
    slots: Vec<Slot>,
    pub(super) handle: Weak<Handle>,
    /// The handlers that run as tasks. The keys are ours, so no remote can make them collide.
    pub(super) tasks: FxHashMap<Key, Task>,
    /// The workers for handlers that may block. If such a handler ran inline, nothing else would be read.
    pub(super) pool: Option<Arc<WorkerPool>>,
    watchful_turns: u8,
    /// Set while a method runs for the first time.
    pub(super) trial_ends: Option<Instant>,
    /// Measures the handlers that begin now, from the last time that was read from the clock.
    pub(super) stopwatch: Stopwatch,
    /// A flag for the next context. Most handlers drop their context when they return, so the flag is reused.
    spare_flag: Option<Arc<Flag>>,
    /// `true` if the driver was polled.
    pub(super) has_begun: bool,
}

impl Dispatch {
    pub(super) fn new(router: Router, handle: Weak<Handle>) -> Self {
        Dispatch {
            router,
            latest: None,
            slots: Vec::new(),
            handle,
            tasks: FxHashMap::default(),
            pool: None,
            watchful_turns: 0,
            trial_ends: None,
            stopwatch: Stopwatch::new(super::now()),
            spare_flag: None,
            has_begun: false,
        }
    }

    /// Records the duration of a turn. If a handler was slow, the next turns time each handler.
    pub(super) fn note_turn(&mut self, took: Duration) {
        self.watchful_turns = match took >= LONG_TURN {
            true => WATCHFUL_TURNS,
            false => self.watchful_turns.saturating_sub(1),
        };
    }

    pub(super) fn shrink(&mut self) {
        self.slots = Vec::new();
    }

    pub(super) fn take_flag(&mut self) -> Arc<Flag> {
        self.spare_flag.take().unwrap_or_default()
    }

    /// Keeps the flag of a handler that is done, unless the handler has kept its context.
    #[inline(never)]
    fn put_flag(&mut self, mut flag: Arc<Flag>) {
        if Arc::get_mut(&mut flag).is_some_and(|flag| !flag.initialized()) {
            self.spare_flag = Some(flag);
        }
    }

    #[inline]
    fn take_slot(&mut self, index: usize) -> Slot {
        self.slots.get_mut(index).and_then(Option::take)
    }

    #[inline(always)]
    fn put_slot(&mut self, index: usize, slot: Slot) {
        match self.slots.get_mut(index) {
            Some(place) => *place = slot,
            None => {
                self.slots.resize_with(index, || None);
                self.slots.push(slot);
            }
        }
    }
}

impl Connection {
    /// Called when the driver is polled for the first time: only then is the runtime known.
    #[inline]
    pub(super) fn begin(&mut self) {
        if !std::mem::replace(&mut self.dispatch.has_begun, true) {
            let runtime = || tokio::runtime::Handle::current().runtime_flavor();
            if self.dispatch.pool.is_none() && runtime() == RuntimeFlavor::MultiThread {
                self.dispatch.pool = Some(WorkerPool::of_process());
            }
            if !self.kind.is_exchange() {
                self.shared.state.set(ConnectionState::Connected);
            }
        }
    }

    /// Starts the handler of a message.
    #[inline(always)]
    pub(super) fn start(
        &mut self,
        job: Job<'_>,
        method: &str,
        params: &Params<'_>,
        cx: &mut TaskContext<'_>,
    ) {
        if job.id().is_none() && self.shared.subscriptions.has(method) {
            return self.start_subscribed(job, method, params, cx);
        }
        let entry = match self.dispatch.latest.take() {
            Some(latest) if *latest.name == *method => latest,
            _ => match self.dispatch.router.find(method) {
                Some(entry) => Arc::clone(entry),
                None => {
                    match self.dispatch.router.find_unregistered(method) {
                        Some(entry) => self.run_handler(&entry, job, params, cx),
                        None => {
                            self.answer(job, Answer::UnknownMethod, method);
                        }
                    }
                    return;
                }
            },
        };
        self.run_handler(&entry, job, params, cx);
        self.dispatch.latest = Some(entry);
    }

    /// Hands a notification to its subscriptions after its guards, and starts its handler if it has one.
    #[cold]
    #[inline(never)]
    fn start_subscribed(
        &mut self,
        job: Job<'_>,
        method: &str,
        params: &Params<'_>,
        cx: &mut TaskContext<'_>,
    ) {
        let shared = Arc::clone(&self.shared);
        let deliver =
            move |method: &str, params: &Params<'_>| shared.subscriptions.deliver(method, params);
        match self.dispatch.router.find_subscribed(method, deliver) {
            Ok(entry) => self.run_handler(&entry, job, params, cx),
            // Without middleware and handler, only the subscriptions get the notification.
            Err(deliver) => deliver(method, params),
        }
    }

    #[inline(always)]
    fn run_handler(
        &mut self,
        entry: &Arc<Entry>,
        job: Job<'_>,
        params: &Params<'_>,
        cx: &mut TaskContext<'_>,
    ) {
        let (method, key, id) = (&*entry.name, job.key(), job.id());
        let traced = log::request(&self.shared.span, method, id);
        if entry.closes {
            self.close_for(key);
        }
        let pool = if entry.pace.is_quick() { None } else { self.find_pool(entry, cx) };
        let is_inline = pool.is_none();
        let is_timed = is_inline
            && entry.pace.is_measured()
            && (self.outbox.is_empty() || self.dispatch.watchful_turns > 0);
        let begun = is_timed.then(Instant::now);
        let mut slot = self.dispatch.take_slot(entry.index);
        let mut host = InlineHost {
            connection: self,
            job: Some(job),
            end: End::Result,
            method: &entry.name,
            flag: None,
        };
        let waiting = match &traced {
            None => host.run(entry, is_inline, params, &mut slot),
            Some((span, _)) => span.in_scope(|| host.run(entry, is_inline, params, &mut slot)),
        };
        let InlineHost { job, end, flag, .. } = host;
        // The only message of an exchange needs no slot for the next one.
        if !self.kind.is_exchange() {
            self.dispatch.put_slot(entry.index, slot);
        }
        if let Some(begun) = begun {
            entry.pace.record(begun.elapsed());
        }
        if let (Some(waiting), Some(job)) = (waiting, job) {
            return self.wait_for(entry, job, waiting, flag, traced, pool);
        }
        if let Some(flag) = flag {
            self.dispatch.put_flag(flag);
        }
        if let Some((_, logged_at)) = traced {
            let id = id.map(IdRef::to_id);
            log::response(method, id.as_ref(), logged_at, end);
        }
    }

    /// The pool for a handler that may block its thread. Without a pool, the handler runs inline, after
    /// finished answers have been sent.
    #[cold]
    fn find_pool(&mut self, entry: &Entry, cx: &mut TaskContext<'_>) -> Option<Arc<WorkerPool>> {
        let pool = self.dispatch.pool.clone().filter(|pool| pool.takes(&entry.pace));
        if pool.is_none() && !self.outbox.is_empty() && self.stage.can_write() {
            // An error is ignored here. The flush at the end of the turn reports it, after all received messages are
            // handled.
            self.is_flushed &= self.send(cx, super::now()).is_ok();
        }
        pool
    }

    /// Continues a handler as a task, here or on the pool.
    #[inline(never)]
    fn wait_for(
        &mut self,
        entry: &Arc<Entry>,
        job: Job<'_>,
        mut waiting: Waiting,
        mut flag: Option<Arc<Flag>>,
        traced: Option<(Span, Option<Instant>)>,
        pool: Option<Arc<WorkerPool>>,
    ) {
        if let Some(hooks) = &entry.hooks {
            let (id, begun) = (job.id().map(IdRef::to_id), self.dispatch.stopwatch.begun());
            let flag = || Arc::clone(flag.get_or_insert_default());
            waiting = hooks.watch(waiting, &entry.name, id, begun, flag);
        }
        let may_be_busy = job.is_in_batch() && !entry.closes;
        let key = self.session.park(job);
        let logged_at = traced.as_ref().and_then(|(_, logged_at)| *logged_at);
        if let Some((span, _)) = traced.filter(|(span, _)| !span.is_disabled()) {
            waiting = Box::pin(waiting.instrument(span));
        }
        let mut running = Running::new(key, waiting, entry, &self.shared);
        let mut task = Task { flag, abort: None, entry: Arc::clone(entry), logged_at };
        match pool {
            None => task.abort = Some(running.spawn()),
            Some(pool) => {
                running.may_be_busy = may_be_busy;
                // A method that is new, or closes the connection, never waits for a worker.
                let may_queue = entry.pace.is_slow() && !entry.closes;
                running.is_trial = entry.pace.claim_trial();
                if running.is_trial {
                    self.dispatch.trial_ends = Some(super::now() + QUICK_POLL);
                }
                running.spawn_on(&pool, may_queue, task.flag.get_or_insert_default());
            }
        }
        self.dispatch.tasks.insert(key, task);
    }

    /// Stops the handlers of a connection that is gone, in the order of their messages, so that every run of
    /// a simulation is the same.
    pub(super) fn stop_tasks(&mut self) {
        let mut tasks: Vec<_> = self.dispatch.tasks.iter().collect();
        tasks.sort_unstable_by_key(|(key, _)| **key);
        tasks.into_iter().for_each(|(_, task)| task.abort());
    }

    /// Handles the end of a handler that ran as a task. There is no answer to a notification, or if the
    /// request was cancelled meanwhile.
    pub(super) fn finish(&mut self, key: Key, answer: Answer<'_>) {
        let task = self.dispatch.tasks.remove(&key);
        let method = task.as_ref().map_or("", |task| &*task.entry.name);
        let is_request = self.session.id_of(key).is_some();
        let Some(job) = self.session.finish(key) else {
            return match answer {
                Answer::Failed(failure) if is_request => log::failed_after_cancel(failure, method),
                Answer::Failed(failure) => log::failed(failure, method, None),
                _ => {}
            };
        };
        let end = self.answer(job.borrow(), answer, method);
        let logged_at = task.as_ref().and_then(|task| task.logged_at);
        log::response(method, job.id(), logged_at, end);
    }

    /// Answers a job: the only way from the outcome of a handler to the outbox.
    #[inline(always)]
    pub(super) fn answer(&mut self, job: Job<'_>, answer: Answer<'_>, method: &str) -> End {
        let (session, outbox) = (&mut self.session, &mut self.outbox);
        let mut is_panic = false;
        let error = match answer {
            Answer::Result(write) => {
                let written = session.answer(job, outbox, |out, id| {
                    // A panic while the result is written counts as a panic of the handler.
                    let written = panic_guard::catch(|| write_result_with(out, id, write));
                    let failed = |error| Error::new(ErrorKind::Handler).caused_by(error);
                    let written = written.and_then(|written| written.map_err(failed));
                    written.map_err(|error| error.of_request(id.to_id()))
                });
                return match written {
                    Ok(()) => End::Result,
                    Err(error) => {
                        log::cannot_write(&error, method);
                        match error.kind() {
                            ErrorKind::Panic => End::Panic,
                            _ => End::Failure(Code::INTERNAL_ERROR.0),
                        }
                    }
                };
            }
            Answer::Response(text) => {
                session.answer_text(job, text, outbox);
                return End::Result;
            }
            Answer::Failed(failure) => {
                is_panic = failure.is_panic();
                let error = failure.object().clone();
                log::failed(failure, method, job.id());
                error
            }
            Answer::WrongParams(error) => {
                log::wrong_params(&error, method, job.id(), self.shared.profile.log_details);
                error
            }
            Answer::UnknownMethod => {
                log::unknown_method(method, job.id());
                ErrorObject::method_not_found(method)
            }
            // Its runtime is shutting down.
            Answer::Dropped => ErrorObject::internal_error(),
        };
        session.answer_error(job, &error, outbox);
        if is_panic { End::Panic } else { End::Failure(error.code().0) }
    }
}
