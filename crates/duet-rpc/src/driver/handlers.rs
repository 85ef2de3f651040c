//! Handlers: how they are begun, in place or elsewhere, and how they fail.

use std::sync::Arc;
use std::task::Context as TaskContext;
use std::time::Instant;

use duet_rpc_proto::message::{Code, ErrorObject, Id, Params};
use duet_rpc_proto::session::{Job, Key, Phase};
use tracing::Instrument;

use super::core::Core;
use super::in_place::InPlace;
use super::records;
use super::tasks::{Elsewhere, Origin, Place};
use crate::context::{Context, Flag};
use crate::failure::Failure;
use crate::handler::{Shelf, Waiting};
use crate::pace::QUICK_POLL;
use crate::peer::{Handle, Peer};
use crate::router::Entry;

impl Core {
    pub(super) fn start(
        &mut self,
        job: Job,
        method: &str,
        params: &Params<'_>,
        cx: &mut TaskContext<'_>,
    ) {
        // Many messages in a row are of the same method.
        let entry = match self.latest.take() {
            Some(latest) if *latest.name == *method => latest,
            _ => match self.router.find(method) {
                Some(entry) => Arc::clone(entry),
                None => return self.refuse_unknown(job, method),
            },
        };
        self.run(&entry, job, params, cx);
        self.latest = Some(entry);
    }

    fn run(&mut self, entry: &Arc<Entry>, job: Job, params: &Params<'_>, cx: &mut TaskContext<'_>) {
        let method = &*entry.name;
        let logged_at = records::begin(method, job.id());
        let logged_id = logged_at.and_then(|_| job.id().cloned());
        if entry.closes {
            self.close(job.key());
        }
        // A handler that is not known to be quick runs elsewhere, if there is an elsewhere for it;
        // if not, it must at least not keep finished answers from leaving.
        let is_quick = entry.pace.is_quick();
        let elsewhere = if is_quick { None } else { self.threads.for_handler(entry) };
        if !is_quick && elsewhere.is_none() && !self.outbox.is_empty() {
            // An error shows again when the turn ends.
            self.has_sent_all &= self.send(cx, super::now()).is_ok();
        }
        let is_watched = elsewhere.is_none()
            && (self.outbox.is_empty() || self.watchful > 0)
            && entry.pace.is_measured();
        let begun = is_watched.then(Instant::now);
        let mut shelf = self.take_shelf(entry.index);
        let key = job.key();
        let span = records::request(&self.shared.span, method, job.id());
        let mut host = InPlace { core: self, job: Some(job), key, method, flag: None, error: None };
        let in_place = elsewhere.is_none();
        let start = || entry.route.start(in_place, params, &mut shelf, &mut host);
        let waiting = span.in_scope(start);
        let (job, flag, error) = (host.job.take(), host.flag, host.error);
        self.put_back(entry.index, shelf);
        if let Some(begun) = begun {
            entry.pace.record(begun.elapsed());
        }
        if let (Some(waiting), Some(job)) = (waiting, job) {
            let origin = Origin { entry: Arc::clone(entry), logged_at };
            let waiting = match span.is_disabled() {
                true => waiting,
                false => Box::pin(waiting.instrument(span)),
            };
            self.wait_for(job, waiting, flag, origin, elsewhere);
        } else {
            records::end(method, logged_id.as_ref(), logged_at, error);
        }
    }

    /// Lets a handler go on as a task, here or elsewhere.
    pub(super) fn wait_for(
        &mut self,
        job: Job,
        waiting: Waiting,
        flag: Option<Arc<Flag>>,
        origin: Origin,
        elsewhere: Option<Place>,
    ) {
        let may_be_busy = job.is_in_batch() && !origin.entry.closes;
        let key = self.session.park(job);
        let elsewhere = elsewhere.map(|threads| {
            let is_trial = origin.entry.pace.claim_trial();
            if is_trial {
                self.trial = Some(super::now() + QUICK_POLL);
            }
            Elsewhere { threads, may_be_busy, is_trial }
        });
        self.tasks.spawn(key, waiting, flag, &self.shared, origin, elsewhere);
    }

    /// The circumstances of a message.
    pub(super) fn context(
        &mut self,
        id: Option<Id>,
        key: Key,
        flag: &mut Option<Arc<Flag>>,
    ) -> Context {
        let Core { handle, shared, .. } = &*self;
        // The last handle may be gone while what had come before is still worked on.
        let handle = handle.upgrade().unwrap_or_else(|| Arc::new(Handle(Arc::clone(shared))));
        let request = self.is_exchange.then(|| Arc::clone(self.request.get_or_insert_default()));
        let flag = Arc::clone(flag.get_or_insert_default());
        Context::new(Peer::of(handle, request), id, key, flag)
    }

    /// Another message has come over a transport that carries requests and their answers alone: the
    /// message before it is answered, and what handlers kept for that is let go. Whoever sent this one may
    /// be somebody else.
    #[inline]
    pub(super) fn begin_exchange(&mut self) {
        if self.is_exchange {
            self.end_exchange();
            self.session.begin_exchange();
        }
    }

    /// Lets go what handlers kept for a request. Tasks that outlive it find nothing of the next.
    pub(super) fn end_exchange(&mut self) {
        if let Some(request) = self.request.take() {
            request.close();
        }
    }

    /// Answers a request whose params are wrong, and returns the code.
    pub(super) fn refuse_params(&mut self, job: Job, object: &ErrorObject, method: &str) -> Code {
        records::wrong_params(object, method, job.id(), self.shared.profile.log_details);
        self.session.answer_error(job, object, &mut self.outbox);
        object.code()
    }

    /// What a handler keeps here.
    #[inline]
    pub(super) fn take_shelf(&mut self, index: usize) -> Shelf {
        self.shelves.get_mut(index).and_then(Option::take)
    }

    /// Keeps a shelf until its handler begins again.
    #[inline]
    pub(super) fn put_back(&mut self, index: usize, shelf: Shelf) {
        if index >= self.shelves.len() {
            self.shelves.resize_with(index + 1, || None);
        }
        self.shelves[index] = shelf;
    }

    /// A message came that closes the connection.
    pub(super) fn close(&mut self, key: Key) {
        if self.session.phase() == Phase::Open
            && let Some(on_close) = self.shared.on_close.get()
        {
            on_close(Some(key));
        }
        self.session.close(Some(key), super::now(), &mut self.outbox);
        self.publish_phase();
    }

    #[cold]
    fn refuse_unknown(&mut self, job: Job, method: &str) {
        let Some(id) = job.id() else {
            return records::unknown_notification(method);
        };
        records::unknown_method(method, id);
        let error = ErrorObject::method_not_found(method);
        self.session.answer_error(job, &error, &mut self.outbox);
    }

    /// Answers what a handler failed with, and returns its code.
    pub(super) fn fail(&mut self, job: Job, failure: Failure, method: &str) -> Code {
        let object = failure.object().clone();
        records::failed(failure, method, job.id());
        self.session.answer_error(job, &object, &mut self.outbox);
        object.code()
    }
}
