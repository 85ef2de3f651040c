//! Log records of a connection, as events and spans of the `tracing` crate.
//!
//! Each connection has a span with its number, and each handler one inside of it with method and id, so
//! that what a handler logs itself belongs to its message.
//!
//! A record that is about a message has its `method` and its `id`, each if it is known. None holds
//! anything of what a message carries (G6): faults, notices and error objects of ours have fixed
//! texts, and of the errors of handlers only what [`Logged`] shows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use duet_rpc_proto::fault::Fault;
use duet_rpc_proto::frame::Partial;
use duet_rpc_proto::message::{Code, ErrorObject, Id, IdRef, ParamProblem, Reason, Subject};
use duet_rpc_proto::notice::{Notice, Severity};
use duet_rpc_proto::policy::Dialect;
use tracing::Span;
use tracing::field::display;
use tracing::level_filters::LevelFilter;

use crate::error::Failure;
use crate::error::{Error, ErrorKind, Logged};
use crate::panic_guard;

/// The target of the records of requests and responses, which are events at the level `debug`: a
/// subscriber can treat them apart from others.
pub const TRAFFIC: &str = "duet_rpc::traffic";

/// The target of the span of a connection. It has one field, `connection`: a number that no other
/// connection of the process has. All that is logged of the connection is inside of it.
pub const CONNECTION: &str = "duet_rpc::connection";

/// The target of the span of a message whose handler runs, at the level `info`, with the fields `method`
/// and `id`. What the handler logs is inside of it, and it is inside the span of its connection.
pub const REQUEST: &str = "duet_rpc::request";

/// The span of the next connection, whatever the level of the log.
pub(crate) fn connection() -> Span {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let connection = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    tracing::error_span!(target: CONNECTION, "connection", connection)
}

/// A frame has arrived.
#[inline]
pub(super) fn frame(bytes: usize) {
    tracing::debug!(bytes, "frame received");
}

/// Logs that a handler begins; returns its span, and the time if it was logged. `None` if nobody wants to
/// know, be it as a record or as a span.
#[inline]
pub(super) fn request(
    connection: &Span,
    method: &str,
    id: Option<IdRef<'_>>,
) -> Option<(Span, Option<Instant>)> {
    // Neither the span nor the records are wanted at this level: one comparison.
    if LevelFilter::current() < LevelFilter::INFO {
        return None;
    }
    let is_logged = tracing::enabled!(target: TRAFFIC, tracing::Level::DEBUG);
    if is_logged {
        log_beginning(method, id);
    }
    // The span itself is asked: a filter may want it by its name or its fields.
    let id = id.map(display);
    let span = tracing::info_span!(target: REQUEST, parent: connection, "request", method, id);
    let is_wanted = is_logged || !span.is_disabled();
    is_wanted.then(|| (span, is_logged.then(Instant::now)))
}

#[cold]
fn log_beginning(method: &str, id: Option<IdRef<'_>>) {
    match id {
        Some(id) => tracing::debug!(target: TRAFFIC, method, %id, "request"),
        None => tracing::debug!(target: TRAFFIC, method, "notification"),
    }
}

/// Logs that a handler has ended, if its beginning was logged.
#[inline]
pub(super) fn response(
    method: &str,
    id: Option<&Id>,
    logged_at: Option<Instant>,
    code: Option<Code>,
) {
    if let Some(begun) = logged_at {
        write_response(method, id, begun.elapsed(), code.map(|code| code.0));
    }
}

#[cold]
fn write_response(method: &str, id: Option<&Id>, took: Duration, error: Option<i64>) {
    let took_us = took.as_micros() as u64;
    match id {
        Some(id) => tracing::debug!(target: TRAFFIC, error, took_us, method, %id, "response"),
        None => tracing::debug!(target: TRAFFIC, error, took_us, method, "notification handled"),
    }
}

/// A request was cancelled. Whether it is answered is for the dialect to say.
pub(super) fn cancelled(method: Option<&str>, id: Option<&Id>, dialect: Dialect) {
    let (error, id) = (Code::REQUEST_CANCELLED.0, id.map(display));
    match dialect.answers_cancelled() {
        true => tracing::debug!(target: TRAFFIC, error, method, id, "response"),
        false => tracing::debug!(target: TRAFFIC, method, id, "request cancelled, no response"),
    }
}

/// A call of ours was answered.
pub(super) fn settled(id: &Id, is_ok: bool) {
    tracing::debug!(target: TRAFFIC, ok = is_ok, %id, "call answered");
}

/// Bytes came that hold no message.
pub(super) fn fault(fault: &Fault<'_>) {
    let subject = fault.body.as_ref().map(Subject::of).unwrap_or_default();
    let (method, id) = (subject.method.as_deref(), subject.id.map(display));
    tracing::warn!(%fault, method, id, "invalid input");
}

/// A frame took longer to arrive than it may (F6).
pub(super) fn late_frame(dropped: &Partial, timeout: Option<Duration>) {
    let (received, expected) = (dropped.received, dropped.expected);
    let after_ms = timeout.map(|timeout| timeout.as_millis() as u64);
    tracing::warn!(received, expected, after_ms, "message dropped: it took too long to arrive");
}

/// A message was answered with an error before any handler saw it.
pub(super) fn refused(error: &ErrorObject, subject: &Subject<'_>) {
    let (method, id) = (subject.method.as_deref(), subject.id.as_ref().map(display));
    let reason = error.reason().map(Reason::name);
    tracing::warn!(%error, reason, method, id, "message refused");
}

/// Logs unknown method. A receiver may ignore `$/` notifications, as the Language Server Protocol says of
/// those that depend on an implementation, such as `$/setTrace`.
pub(super) fn unknown_method(method: &str, id: Option<IdRef<'_>>) {
    let notice = Notice::UnknownNotification;
    match id {
        Some(id) => tracing::warn!(method, %id, "unknown method"),
        None if method.starts_with("$/") => tracing::debug!(method, "{notice}"),
        None => tracing::warn!(method, "{notice}"),
    }
}

/// The record names the parameter, which is a name of ours, and not what was sent for it. What the
/// application says of it is shown only on request, as it may quote what was sent (G6).
pub(super) fn wrong_params(
    error: &ErrorObject,
    method: &str,
    id: Option<IdRef<'_>>,
    shows_details: bool,
) {
    let problem = error.param_problem();
    let (param, expected) = (problem.map(ParamProblem::param), problem.map(ParamProblem::expected));
    let detail = problem.filter(|_| shows_details).and_then(ParamProblem::detail);
    match id {
        Some(id) => tracing::warn!(param, expected, detail, method, %id, "invalid params"),
        None => {
            // Nothing else will show it (M10).
            tracing::error!(param, expected, detail, method, "notification has invalid params");
        }
    }
}

pub(super) fn notice(notice: Notice, subject: &Subject<'_>) {
    let (method, id) = (subject.method.as_deref(), subject.id.as_ref().map(display));
    match notice.severity() {
        Severity::Warn => tracing::warn!(method, id, "{notice}"),
        Severity::Error => tracing::error!(method, id, "{notice}"),
    }
}

/// A handler failed. What the application meant to answer is the client's affair, and so is what went
/// wrong because of the client; all else is ours. The cause is the application's: how it is shown, and
/// how it is dropped, may panic.
pub(super) fn failed(failure: Failure, method: &str, id: Option<IdRef<'_>>) {
    let object = failure.object();
    let is_internal = object.code() == Code::INTERNAL_ERROR && !object.is_busy();
    // A text from the application's source cannot hold anything of the remote's (G6).
    let answer = object.static_message().filter(|_| !is_internal);
    let _ = panic_guard::catch(move || {
        let error = failure.into_error();
        let is_ours = is_internal && !is_theirs(&error);
        let (error, id) = (Logged(&error), id.map(display));
        match is_ours || id.is_none() {
            true => tracing::error!(%error, answer, method, id, "handler failed"),
            false => tracing::warn!(%error, answer, method, id, "handler failed"),
        }
    });
}

/// Returns `true` if the remote is the cause: it answered with an error, or not at all.
fn is_theirs(error: &Error) -> bool {
    let kinds = [
        ErrorKind::Remote,
        ErrorKind::Protocol,
        ErrorKind::Timeout,
        ErrorKind::Exchange,
        ErrorKind::Disconnected,
    ];
    error.remote().is_some() || kinds.contains(&error.kind())
}

/// Logs that a handler failed whose request was cancelled, and so answered, before.
pub(super) fn failed_after_cancel(failure: Failure, method: &str) {
    let _ = panic_guard::catch(move || {
        let error = failure.into_error();
        let error = Logged(&error);
        tracing::error!(%error, method, "handler failed after its request was cancelled");
    });
}

/// What a handler made cannot be sent.
pub(super) fn cannot_write(error: &Error, method: &str) {
    let (id, error) = (error.id().map(display), Logged(error));
    tracing::error!(%error, method, id, "cannot serialise the result");
}

pub(super) fn call_failed(id: &Id, error: &Error) {
    let error = Logged(error);
    tracing::warn!(%error, %id, "call failed");
}

pub(super) fn call_timed_out(id: &Id) {
    tracing::warn!(%id, "call timed out");
}

/// A connection is closed because its remote reads nothing.
pub(super) fn stalled(bytes: usize, after: Duration) {
    let after_ms = after.as_millis() as u64;
    tracing::warn!(
        bytes,
        after_ms,
        "connection closed: the remote reads nothing and memory is short"
    );
}
