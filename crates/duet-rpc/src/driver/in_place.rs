//! Handlers that run in place, and the outcomes of those that were ready at once.

use std::sync::Arc;

use duet_rpc_proto::message::{Code, ErrorObject, Id, Settled, write_result_with};
use duet_rpc_proto::session::{Job, Key};

use super::core::Core;
use super::records;
use crate::context::{Context, Flag};
use crate::error::{Error, ErrorKind, RemoteError};
use crate::failure::Failure;
use crate::handler::{Host, Write};
use crate::panic_guard;
use crate::shared::Caller;

/// Where a handler begins. The answer of one that is ready at once is written straight to where it
/// is sent from.
pub(super) struct InPlace<'a> {
    pub(super) core: &'a mut Core,
    pub(super) job: Option<Job>,
    pub(super) key: Key,
    pub(super) method: &'a str,
    /// There once the handler has asked for its context.
    pub(super) flag: Option<Arc<Flag>>,
    /// The code that it was answered with, if it was one.
    pub(super) error: Option<i64>,
}

impl InPlace<'_> {
    /// What the handler has sent goes before its answer.
    #[inline]
    fn take_job(&mut self) -> Option<Job> {
        if self.core.shared.has_mail() {
            self.core.take_mail(super::now());
        }
        self.job.take()
    }
}

impl Host for InPlace<'_> {
    fn context(&mut self) -> Context {
        let id = self.id();
        self.core.context(id, self.key, &mut self.flag)
    }

    fn id(&self) -> Option<Id> {
        self.job.as_ref().and_then(|job| job.id().cloned())
    }

    fn result(&mut self, write: Write<'_>) {
        let Some(job) = self.take_job() else { return };
        let answer = self.core.session.answer(job, &mut self.core.outbox, |out, id| {
            // A panic while writing is the handler's too.
            let written = panic_guard::catch(|| write_result_with(out, id, write));
            let written = written.and_then(|written| {
                written.map_err(|error| Error::new(ErrorKind::Handler).caused_by(error))
            });
            written.map_err(|error| error.of_request(id.clone()))
        });
        if let Err(error) = answer {
            records::cannot_write(&error, Some(self.method));
            self.error = Some(Code::INTERNAL_ERROR.0);
        }
    }

    fn failed(&mut self, failure: Failure) {
        if let Some(job) = self.take_job() {
            self.error = Some(self.core.fail(job, failure, self.method).0);
        }
    }

    fn refused(&mut self, object: ErrorObject) {
        if let Some(job) = self.take_job() {
            self.error = Some(self.core.refuse_params(job, &object, self.method).0);
        }
    }
}

pub(super) fn settle(id: &Id, caller: Caller, settled: Settled<'_>) {
    let answer = match settled {
        Settled::Result(result) => Ok(result.to_owned()),
        Settled::Error(_) => Err(match settled.error() {
            Some(error) => Error::new(ErrorKind::Remote).caused_by(RemoteError::new(error)),
            None => Error::new(ErrorKind::Protocol).caused_by("the error is no object"),
        }),
    };
    records::settled(id, answer.is_ok());
    let _ = caller.send(answer);
}
