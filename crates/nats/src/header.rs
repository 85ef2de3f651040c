//! Headers of the messages between callers and workers (N2).
//!
//! The payload is the JSON-RPC message as it is, so everything else is in headers. Other clients need none of them: a
//! request without headers is answered once, and nothing else is sent to its reply subject.
//!
//! | header | of | value |
//! |---|---|---|
//! | `Duet-Caller` | a request or notification | the subject on which its sender takes calls; the sender also understands signs. After a space, the deadline |
//! | `Duet-Deadline` | a request of a sender that takes no calls | the milliseconds after which the worker drops the handler |
//! | `traceparent` | a request or notification | the W3C trace context, for [`Remote::trace_context`](duet_rpc::Remote::trace_context) |
//! | `Duet-Accepted` | a sign | the worker's name: it has the request, and still works on it |
//! | `Duet-Busy` | an answer | the limit of a worker that did not begin the request |
//! | `Duet-Cancel` | a message to a worker | `1`: cancel the request |
//! | `Nats-Service-Error-Code`, `Nats-Service-Error` | an answer with an error | the code and the message, for tools of NATS |

use std::time::Duration;

use async_nats::header::{HeaderMap, HeaderName, IntoHeaderValue};

pub(crate) const CALLER: HeaderName = HeaderName::from_static("Duet-Caller");
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

/// The headers of a request or notification: the subject on which its sender takes calls, and the time that it has left.
/// They are one header, because each costs three allocations at either end. The time is rounded up: the caller gives up
/// first, and knows better why there is no answer.
pub(crate) fn of_caller(subject: &str, left: Option<Duration>) -> HeaderMap {
    match left.map(|left| left.as_micros().div_ceil(1000)) {
        None => one(CALLER, subject),
        Some(milliseconds) => one(CALLER, format!("{subject} {milliseconds}")),
    }
}

/// The subject on which the sender takes calls.
pub(crate) fn caller(headers: Option<&HeaderMap>) -> Option<&str> {
    value(headers, CALLER)?.split(' ').next()
}

/// The time that a request has left; `None` if it has no deadline, or one that is not a number.
pub(crate) fn deadline(headers: Option<&HeaderMap>) -> Option<Duration> {
    let with_caller = value(headers, CALLER).and_then(|it| it.split_once(' ')).map(|it| it.1);
    let text = with_caller.or_else(|| value(headers, DEADLINE))?;
    text.trim().parse().ok().map(Duration::from_millis)
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
            let with_caller = one(CALLER, format!("c.call {text}"));
            assert_eq!(deadline(Some(&with_caller)), expected, "{text:?}");
            assert_eq!(caller(Some(&with_caller)), Some("c.call"));
        }
        assert_eq!(deadline(None), None);
        assert_eq!(deadline(Some(&one(CALLER, "c.call"))), None);
    }

    #[test]
    fn n2_deadline_is_rounded_up() {
        for (micros, ms) in [(0, 0), (1, 1), (1000, 1), (1001, 2), (30_000_000, 30_000)] {
            let headers = of_caller("c.call", Some(Duration::from_micros(micros)));
            assert_eq!(caller(Some(&headers)), Some("c.call"));
            assert_eq!(deadline(Some(&headers)), Some(Duration::from_millis(ms)), "{micros}");
        }
        assert_eq!(deadline(Some(&of_caller("c.call", None))), None);
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
