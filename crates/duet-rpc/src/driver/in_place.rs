//! Outcomes of handlers that were ready at once, and what is said in the log.

use duet_rpc_proto::message::{ErrorObject, Id, Settled, write_result_with};
use duet_rpc_proto::notice::{Notice, Severity};
use duet_rpc_proto::session::Job;

use super::core::Core;
use crate::error::{Error, ErrorKind, Logged, RemoteError};
use crate::failure::Failure;
use crate::fence;
use crate::handler::{Sink, Write};
use crate::shared::Caller;

/// Takes the outcome of a handler that was ready at once, and writes the answer straight to where
/// it is sent from.
pub(super) struct InPlace<'a> {
    pub(super) core: &'a mut Core,
    pub(super) job: Option<Job>,
    pub(super) method: &'a str,
}

impl InPlace<'_> {
    /// What the handler has sent goes before its answer.
    fn take_job(&mut self) -> Option<Job> {
        if self.core.shared.has_mail() {
            self.core.take_mail(super::now());
        }
        self.job.take()
    }
}

impl Sink for InPlace<'_> {
    fn result(&mut self, write: Write<'_>) {
        let Some(job) = self.take_job() else { return };
        let answer = self.core.session.answer(job, &mut self.core.outbox, |out, id| {
            // A panic while writing is the handler's too.
            fence::call(|| write_result_with(out, id, write)).and_then(|written| {
                written.map_err(|error| Error::new(ErrorKind::Handler).caused_by(error))
            })
        });
        if let Err(error) = answer {
            let error = Logged(&error);
            tracing::error!(method = self.method, %error, "a result cannot be written");
        }
    }

    fn failed(&mut self, failure: Failure) {
        if let Some(job) = self.take_job() {
            self.core.fail(job, failure);
        }
    }

    fn refused(&mut self, object: ErrorObject) {
        let Some(job) = self.take_job() else { return };
        match job.id() {
            None => log(Notice::NotificationParams),
            Some(id) => tracing::warn!(method = self.method, %id, "wrong parameters"),
        }
        self.core.session.answer_error(job, &object, &mut self.core.outbox);
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
    tracing::debug!(%id, ok = answer.is_ok(), "answered");
    let _ = caller.send(answer);
}

/// Logs why a handler failed. Its cause is the application's: how it is shown, and how it is
/// dropped, may panic.
pub(super) fn log_error(failure: Failure, log: impl FnOnce(Logged<'_>)) {
    let _ = fence::call(move || log(Logged(&failure.into_error())));
}

pub(super) fn log(notice: Notice) {
    match notice.severity() {
        Severity::Warn => tracing::warn!("{notice}"),
        Severity::Error => tracing::error!("{notice}"),
    }
}
