//! The short way for a request of the method that was called last, when nothing else is under way.
//!
//! That is every request of a burst but the first, if their handlers are ready at once. Nothing is
//! made for them that would only be taken apart again: no message, no job, no copy of the id. All
//! that is not so plain goes the usual way, and both end the same.

use std::sync::Arc;

use duet_rpc_proto::message::{ErrorObject, Id, PlainRequest, write_result_to};
use duet_rpc_proto::session::{Job, Key, Outlet};
use duet_rpc_proto::text::Text;

use super::core::Core;
use super::records;
use super::tasks::Origin;
use crate::context::{Context, Flag};
use crate::error::{Error, ErrorKind};
use crate::failure::Failure;
use crate::handler::{Host, Write};
use crate::panic_guard;

impl Core {
    /// Serves a request, if it can go this way; if not, nothing was done.
    #[inline]
    pub(super) fn express(&mut self, text: &Text<'_>) -> bool {
        if self.is_crowded() || records::concern_requests() {
            return false;
        }
        // The first handler of a turn is watched, and so are all if one was slow.
        let watches = self.outbox.is_empty() || self.watchful > 0;
        let Some(request) = PlainRequest::of(text) else { return false };
        let Some(entry) = self.latest.take_if(|latest| {
            *latest.name == *request.method
                && latest.pace.is_quick()
                && !(watches && latest.pace.is_measured())
                && !latest.closes
        }) else {
            return false;
        };
        let Some(key) = self.session.begin_at_once() else {
            self.latest = Some(entry);
            return false;
        };
        self.tally.messages += 1;
        let mut shelf = self.take_shelf(entry.index);
        let mut host = Express { core: self, request, key, flag: None, is_done: false };
        let waiting = entry.route.start(true, &request.params, &mut shelf, &mut host);
        let flag = host.flag;
        self.put_back(entry.index, shelf);
        if let Some(waiting) = waiting {
            let job = self.session.job_of(key, request.id());
            let origin = Origin { entry: Arc::clone(&entry), logged_at: None };
            self.wait_for(job, waiting, flag, origin, None);
        }
        self.latest = Some(entry);
        true
    }
}

/// Where such a handler begins.
struct Express<'a> {
    core: &'a mut Core,
    request: PlainRequest<'a>,
    key: Key,
    /// There once the handler has asked for its context.
    flag: Option<Arc<Flag>>,
    is_done: bool,
}

impl Express<'_> {
    /// Once: that the request may be answered now, after what the handler has sent.
    #[inline]
    fn may_answer(&mut self) -> bool {
        if self.core.shared.has_mail() {
            self.core.take_mail(super::now());
        }
        !std::mem::replace(&mut self.is_done, true)
    }

    fn job(&mut self) -> Job {
        self.core.session.job_of(self.key, self.request.id())
    }

    #[cold]
    fn cannot_write(&mut self, error: Error) {
        let error = error.of_request(self.request.id());
        records::cannot_write(&error, Some(self.request.method));
        let job = self.job();
        let instead = ErrorObject::internal_error();
        self.core.session.answer_error(job, &instead, &mut self.core.outbox);
    }
}

impl Host for Express<'_> {
    fn context(&mut self) -> Context {
        self.core.context(Some(self.request.id()), self.key, &mut self.flag)
    }

    fn id(&self) -> Option<Id> {
        Some(self.request.id())
    }

    fn result(&mut self, write: Write<'_>) {
        if !self.may_answer() {
            return;
        }
        let id = self.request.raw_id().as_bytes();
        let written = self.core.outbox.send(|out| {
            // A panic while writing is the handler's too.
            let written = panic_guard::catch(|| write_result_to(out, id, write))?;
            written.map_err(|error| Error::new(ErrorKind::Handler).caused_by(error))
        });
        if let Err(error) = written {
            self.cannot_write(error);
        }
    }

    fn failed(&mut self, failure: Failure) {
        if self.may_answer() {
            let job = self.job();
            self.core.fail(job, failure, self.request.method);
        }
    }

    fn refused(&mut self, object: ErrorObject) {
        if self.may_answer() {
            let job = self.job();
            self.core.refuse_params(job, &object, self.request.method);
        }
    }
}
