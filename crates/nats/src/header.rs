//! Headers of the messages between callers and workers (N2).
//!
//! The payload is the JSON-RPC message as it is. A plain request of a caller has no header, because its reply subject tells
//! the rest; see `subject.rs`. Other clients need none either.
//!
//! | header | of | value |
//! |---|---|---|
//! | `Duet-Deadline` | a request of another client | the milliseconds after which the worker drops the handler |
//! | `traceparent` | a request or notification | the W3C trace context, for [`Remote::trace_context`](duet_rpc::Remote::trace_context) |
//! | `Duet-Accepted` | a sign | the worker's name: it has the request, and still works on it |
//! | `Duet-Busy` | an answer | the limit of a worker that did not begin the request |
//! | `Duet-Cancel` | a message to a worker | `1`: cancel the request, or only the call of a batch that the payload names |
//! | `Nats-Service-Error-Code`, `Nats-Service-Error` | an answer with an error | the code and the message, for tools of NATS |

use std::time::Duration;

use async_nats::header::{HeaderMap, HeaderName, IntoHeaderValue};

pub(crate) const DEADLINE: HeaderName = HeaderName::from_static("Duet-Deadline");
pub(crate) const ACCEPTED: HeaderName = HeaderName::from_static("Duet-Accepted");
/// The trace context of W3C, which other programs send and read, too.
pub(crate) const TRACE: HeaderName = HeaderName::from_static("traceparent");
pub(crate) const BUSY: HeaderName = HeaderName::from_static("Duet-Busy");
pub(crate) const CANCEL: HeaderName = HeaderName::from_static("Duet-Cancel");
const ERROR_CODE: HeaderName = HeaderName::from_static("Nats-Service-Error-Code");
const ERROR: HeaderName = HeaderName::from_static("Nats-Service-Error");

/// The longest message of an error in a header.
const LONGEST: usize = 200;

/// One header.
pub(crate) fn one(name: HeaderName, value: impl IntoHeaderValue) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(name, value);
    headers
}

/// The value of a header, if it is there.
pub(crate) fn value(headers: Option<&HeaderMap>, name: HeaderName) -> Option<&str> {
    headers?.get(name).map(|value| value.as_str())
}

/// The time that the request of another client has left; `None` if it has no deadline, or one that is not a number.
pub(crate) fn deadline(headers: Option<&HeaderMap>) -> Option<Duration> {
    value(headers, DEADLINE)?.trim().parse().ok().map(Duration::from_millis)
}

/// Adds the headers of an error.
pub(crate) fn add_error(headers: &mut HeaderMap, code: i64, message: &str) {
    // A header is one line.
    let plain = |character: char| if character.is_control() { ' ' } else { character };
    headers.insert(ERROR_CODE, code.to_string());
    headers.insert(ERROR, message.chars().take(LONGEST).map(plain).collect::<String>());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n2_deadline_is_a_number_of_milliseconds() {
        for (text, expected) in [
            ("250", Some(Duration::from_millis(250))),
            (" 7 ", Some(Duration::from_millis(7))),
            ("0", Some(Duration::ZERO)),
            ("-1", None),
            ("soon", None),
            ("", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(deadline(Some(&one(DEADLINE, text))), expected, "{text:?}");
        }
        assert_eq!(deadline(None), None);
    }

    #[test]
    fn n2_error_in_a_header_is_one_short_line() {
        let mut headers = HeaderMap::new();
        add_error(&mut headers, -32601, &format!("a\r\nb{}", "x".repeat(500)));
        let message = value(Some(&headers), ERROR).expect("a message");
        assert!(message.starts_with("a  bxx") && message.chars().count() == LONGEST, "{message}");
        assert_eq!(value(Some(&headers), ERROR_CODE), Some("-32601"));
    }
}
