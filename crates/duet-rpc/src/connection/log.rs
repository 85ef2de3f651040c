//! Log records of a connection, as events and spans of the `tracing` crate.
//!
//! Each connection has a span with its number. Each handler has a span inside it, with method and id, so
//! that the records of a handler belong to its message.
//!
//! A record about a message has its `method` and its `id`, if they are known. No record contains contents
//! of a message (G6): our faults, notices and error objects have fixed texts, and [`Logged`] filters the
//! errors of handlers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use duet_rpc_proto::fault::Fault;
use duet_rpc_proto::frame::Partial;
use duet_rpc_proto::message::{Code, ErrorObject, Id, IdRef, LogFields, ParamProblem, Reason};
use duet_rpc_proto::notice::{Notice, Severity};
use duet_rpc_proto::policy::Dialect;
use tracing::Span;
use tracing::field::display;
use tracing::level_filters::LevelFilter;

use crate::error::Failure;
use crate::error::{Error, ErrorKind, Logged};
use crate::panic_guard;
use crate::router::End;
use crate::stderr_log;

/// The target of the records of requests and responses, which are events at the level `debug`. A
/// subscriber can treat them separately.
pub const TRAFFIC: &str = "duet_rpc::traffic";

/// The target of the span of a connection. It has one field, `connection`: a number that is unique in the
/// process. All records of the connection are inside it.
pub const CONNECTION: &str = "duet_rpc::connection";

/// The target of the span of a message whose handler runs, at the level `info`, with the fields `method`
/// and `id`. Records of the handler are inside it, and it is inside the span of its connection.
pub const REQUEST: &str = "duet_rpc::request";

/// The span of the next connection, at every log level.
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

/// Logs that a handler begins; returns its span, and the time if it was logged. `None` if neither the
/// record nor the span is enabled.
#[inline]
pub(super) fn request(
    connection: &Span,
    method: &str,
    id: Option<IdRef<'_>>,
) -> Option<(Span, Option<Instant>)> {
    // At this level neither the span nor the records are enabled: one comparison.
    if LevelFilter::current() < LevelFilter::INFO {
        return None;
    }
    let is_logged = tracing::enabled!(target: TRAFFIC, tracing::Level::DEBUG);
    if is_logged {
        log_beginning(method, id);
    }
    // The span itself knows: a filter may enable it by its name or its fields.
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
pub(super) fn response(method: &str, id: Option<&Id>, logged_at: Option<Instant>, end: End) {
    if let Some(begun) = logged_at {
        write_response(method, id, begun.elapsed(), end.code());
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

/// Logs a cancelled request. The dialect decides whether it is answered.
pub(super) fn cancelled(method: Option<&str>, id: Option<&Id>, dialect: Dialect) {
    let (error, id) = (Code::REQUEST_CANCELLED.0, id.map(display));
    match dialect.answers_cancelled() {
        true => tracing::debug!(target: TRAFFIC, error, method, id, "response"),
        false => tracing::debug!(target: TRAFFIC, method, id, "request cancelled, no response"),
    }
}

/// Logs the answer to a call of ours.
pub(super) fn settled(id: &Id, is_ok: bool) {
    tracing::debug!(target: TRAFFIC, ok = is_ok, %id, "call answered");
}

/// Logs bytes that are not a message.
pub(super) fn fault(fault: &Fault<'_>) {
    let fields = fault.body.as_ref().map(LogFields::from_text).unwrap_or_default();
    let (method, id) = (fields.method.as_deref(), fields.id.map(display));
    tracing::warn!(%fault, method, id, "invalid input");
}

/// Logs a frame that took too long to arrive (F6).
pub(super) fn late_frame(dropped: &Partial, timeout: Option<Duration>) {
    let (received, expected) = (dropped.received, dropped.expected);
    let after_ms = timeout.map(|timeout| timeout.as_millis() as u64);
    tracing::warn!(received, expected, after_ms, "message dropped: it took too long to arrive");
}

/// Logs a message that was answered with an error before any handler saw it.
pub(super) fn refused(error: &ErrorObject, fields: &LogFields<'_>) {
    let (method, id) = (fields.method.as_deref(), fields.id.as_ref().map(display));
    let reason = error.reason().map(Reason::name);
    tracing::warn!(%error, reason, method, id, "message refused");
}

/// Logs an unknown method. The Language Server Protocol lets a receiver ignore `$/` notifications that depend
/// on an implementation, such as `$/setTrace`.
pub(super) fn unknown_method(method: &str, id: Option<IdRef<'_>>) {
    let notice = Notice::UnknownNotification;
    match id {
        Some(id) => tracing::warn!(method, %id, "unknown method"),
        None if method.starts_with("$/") => tracing::debug!(method, "{notice}"),
        None => tracing::warn!(method, "{notice}"),
    }
}

/// Logs invalid params. The record contains the name of the parameter, which the remote did not choose, and
/// not its value. It shows the application's detail only on request, because the detail may quote the value
/// (G6).
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
            // A notification has no answer that could show the problem (M10).
            tracing::error!(param, expected, detail, method, "notification has invalid params");
        }
    }
}

pub(super) fn notice(notice: Notice, fields: &LogFields<'_>) {
    let (method, id) = (fields.method.as_deref(), fields.id.as_ref().map(display));
    match notice.severity() {
        Severity::Warn => tracing::warn!(method, id, "{notice}"),
        Severity::Error => tracing::error!(method, id, "{notice}"),
    }
}

/// Logs a handler that failed. It is a warning if the client gets an answer, and either the application chose
/// the error code or the client is the cause. Otherwise it is an error. The application made the cause, so
/// `Display` and drop of the cause may panic.
pub(super) fn failed(failure: Failure, method: &str, id: Option<IdRef<'_>>) {
    let object = failure.object();
    let is_internal = object.code() == Code::INTERNAL_ERROR && !object.is_busy();
    // A static text comes from the application's source, so it quotes nothing that the remote sent (G6).
    let answer = object.static_message().filter(|_| !is_internal);
    let _ = panic_guard::catch(move || {
        let error = failure.into_error();
        let is_ours = is_internal && !is_theirs(&error);
        let (error, id) = (Logged(&error), id.map(display));
        // The client sees every other failure in the answer.
        if is_internal || id.is_none() {
            stderr_log::handler_failed(method, id.as_ref().map(|id| id as _), &error);
        }
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

/// Logs a handler that failed after its request was cancelled. The cancellation was its answer.
pub(super) fn failed_after_cancel(failure: Failure, method: &str) {
    let _ = panic_guard::catch(move || {
        let error = failure.into_error();
        let error = Logged(&error);
        stderr_log::handler_failed(method, None, &error);
        tracing::error!(%error, method, "handler failed after its request was cancelled");
    });
}

/// Logs a result that cannot be serialised.
pub(super) fn cannot_write(error: &Error, method: &str) {
    let (id, error) = (error.id().map(display), Logged(error));
    stderr_log::handler_failed(method, id.as_ref().map(|id| id as _), &error);
    tracing::error!(%error, method, id, "cannot serialise the result");
}

pub(super) fn call_failed(id: &Id, error: &Error) {
    let error = Logged(error);
    tracing::warn!(%error, %id, "call failed");
}

pub(super) fn call_timed_out(id: &Id) {
    tracing::warn!(%id, "call timed out");
}

/// Logs a connection that is closed because its remote reads nothing.
pub(super) fn stalled(bytes: usize, after: Duration) {
    let after_ms = after.as_millis() as u64;
    tracing::warn!(
        bytes,
        after_ms,
        "connection closed: the remote reads nothing and memory is short"
    );
}
