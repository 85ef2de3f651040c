//! Writers of messages: JSON goes straight into the output, without a tree of values in between.
//!
//! They write the JSON text alone. [`write_frame`](crate::frame::write_frame) adds the frame.

use serde::Serialize;

use super::{ErrorObject, Id, IdRef};

/// Appends a response with a result that is JSON already.
///
/// ```
/// use duet_rpc_proto::message::{Id, write_raw_result};
///
/// let mut out = Vec::new();
/// write_raw_result(&mut out, &Id::from(7), "[1, 2]");
/// assert_eq!(out, br#"{"jsonrpc":"2.0","id":7,"result":[1, 2]}"#);
/// ```
pub fn write_raw_result<'i>(out: &mut Vec<u8>, id: impl Into<IdRef<'i>>, result: &str) {
    let id = id.into();
    // Reserve once: growing later would move the bytes of a large result.
    out.reserve(48 + id.as_bytes().len() + result.len());
    begin_response(out, id, RESULT);
    out.extend_from_slice(result.as_bytes());
    out.push(b'}');
}

/// Appends a response with a result of any type. If its `Serialize` fails, nothing is appended.
pub fn write_result<'i, T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    id: impl Into<IdRef<'i>>,
    result: &T,
) -> Result<(), serde_json::Error> {
    write_result_with(out, id, |out| serde_json::to_writer(out, result))
}

/// Appends a response. `result` writes the result: one JSON value. If it fails, nothing is
/// appended.
#[inline]
pub fn write_result_with<'i, E>(
    out: &mut Vec<u8>,
    id: impl Into<IdRef<'i>>,
    result: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    begin_response(out, id.into(), RESULT);
    let written = result(out);
    match &written {
        Ok(()) => out.push(b'}'),
        Err(_) => out.truncate(start),
    }
    written
}

/// Appends a response with an error. If its data cannot be serialised, an internal error goes out
/// instead: every request gets an answer.
pub fn write_error<'i>(out: &mut Vec<u8>, id: impl Into<IdRef<'i>>, error: &ErrorObject) {
    begin_response(out, id.into(), ERROR);
    let start = out.len();
    if error.write(out).is_err() {
        out.truncate(start);
        // This error has no data, so writing it never fails.
        let _ = ErrorObject::internal_error().write(out);
    }
    out.push(b'}');
}

/// Appends a request. `None` as params leaves the member out. Params must serialise to an object or
/// an array, or the remote refuses the request.
pub fn write_request<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    id: &Id,
    method: &str,
    params: Option<&T>,
) -> Result<(), serde_json::Error> {
    write_call(out, Some(id), method, params)
}

/// Appends a notification, with params as for [`write_request`].
pub fn write_notification<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    method: &str,
    params: Option<&T>,
) -> Result<(), serde_json::Error> {
    write_call(out, None, method, params)
}

fn write_call<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    id: Option<&Id>,
    method: &str,
    params: Option<&T>,
) -> Result<(), serde_json::Error> {
    let start = out.len();
    let mut write = || {
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",");
        if let Some(id) = id {
            out.extend_from_slice(b"\"id\":");
            out.extend_from_slice(id.as_bytes());
            out.push(b',');
        }
        out.extend_from_slice(b"\"method\":");
        serde_json::to_writer(&mut *out, method)?;
        if let Some(params) = params {
            out.extend_from_slice(b",\"params\":");
            serde_json::to_writer(&mut *out, params)?;
        }
        out.push(b'}');
        Ok(())
    };
    let written = write();
    if written.is_err() {
        out.truncate(start);
    }
    written
}

const RESULT: &[u8] = b",\"result\":";
const ERROR: &[u8] = b",\"error\":";

/// Appends a response up to the value of its last member.
#[inline(always)]
fn begin_response(out: &mut Vec<u8>, id: IdRef<'_>, last_member: &[u8]) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(last_member);
}
