//! Inline host: provides the context for a handler that begins, and answers if the handler is ready
//! immediately.

use std::sync::Arc;

use duet_rpc_proto::message::{IdRef, Params};
use duet_rpc_proto::session::Job;

use super::Connection;
use crate::context::{Context, Flag};
use crate::handler::{Answer, Host, Message, Slot, Waiting};
use crate::peer::{Handle, Peer};
use crate::remote::Remote;
use crate::router::{End, Entry};

pub(super) struct InlineHost<'c, 'm> {
    pub(super) connection: &'c mut Connection,
    /// `None` once the message is answered.
    pub(super) job: Option<Job<'m>>,
    /// The kind of the answer.
    pub(super) end: End,
    pub(super) method: &'c Arc<str>,
    /// Set once the handler has asked for its context.
    pub(super) flag: Option<Arc<Flag>>,
}

impl InlineHost<'_, '_> {
    /// Runs the handler, after its hooks. Returns it if it waits.
    #[inline(always)]
    pub(super) fn run(
        &mut self,
        entry: &Entry,
        is_inline: bool,
        params: &Params<'_>,
        slot: &mut Slot,
    ) -> Option<Waiting> {
        let stopwatch = &mut self.connection.dispatch.stopwatch;
        let Some(hooks) = &entry.hooks else {
            stopwatch.skip();
            return entry.route.start(is_inline, None, params, slot, self);
        };
        let (run, id) = (hooks.begin(stopwatch), self.job.as_ref().and_then(Job::id));
        let waiting = entry.route.start(is_inline, Some(&run), params, slot, self);
        if waiting.is_none() {
            run.end(self.method, id, self.end, &mut self.connection.dispatch.stopwatch);
        }
        waiting
    }

    fn flag(&mut self) -> Arc<Flag> {
        let dispatch = &mut self.connection.dispatch;
        Arc::clone(self.flag.get_or_insert_with(|| dispatch.take_flag()))
    }
}

impl Message for InlineHost<'_, '_> {
    fn method(&self) -> &Arc<str> {
        self.method
    }

    fn context(&mut self) -> Context {
        let (id, key) = (self.id().map(IdRef::to_id), self.job.as_ref().map(Job::key));
        Context::new(self.peer(), id, key, self.flag())
    }
}

impl Host for InlineHost<'_, '_> {
    fn id(&self) -> Option<IdRef<'_>> {
        self.job.as_ref().and_then(Job::id)
    }

    fn peer(&self) -> Peer {
        let Connection { shared, dispatch, .. } = &*self.connection;
        // The last handle may be gone while earlier messages are still handled.
        let handle = dispatch.handle.upgrade();
        Peer::from_handle(handle.unwrap_or_else(|| Arc::new(Handle(Arc::clone(shared)))))
    }

    fn remote(&self) -> &Remote {
        &self.connection.shared.remote
    }

    #[inline]
    fn answer(&mut self, answer: Answer<'_>) {
        // Messages that the handler has sent leave before its answer.
        if self.connection.shared.mailbox.has_commands() {
            self.connection.handle_commands(super::now());
        }
        // A route answers once.
        if let Some(job) = self.job.take() {
            self.end = self.connection.answer(job, answer, self.method);
        }
    }
}
