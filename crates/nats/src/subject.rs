//! Subjects: the names under which the broker carries messages (N1).
//!
//! | subject | messages |
//! |---|---|
//! | `rpc.SERVICE.METHOD` | requests and notifications, each to one worker of the service |
//! | `rpc.SERVICE.=batch` | batches, each to one worker |
//! | `INBOX.=MS.NUMBER` of a caller | the answer to the call of this number, and signs of its worker |
//! | `INBOX.=.call` of a caller | requests and notifications of a worker to its caller |
//! | `INBOX.NUMBER` of a worker | cancellations of the request of this number, and answers to calls of its handler |
//!
//! A method is one token of a subject, so every byte outside `A-Z a-z 0-9 _ -` is written as `=HH`.
//!
//! The token `=MS` of a caller says that it understands signs and takes calls, and gives the milliseconds that the call
//! has left; `=` alone means that it has no deadline. A header for this would cost either end several allocations, and
//! the broker its slower form of a message. Inboxes of other clients have no such token.

use std::fmt::Write;
use std::time::Duration;

/// The last token of the subject of batches. No method has it, because two hexadecimal digits follow each `=`.
const BATCH: &str = "=batch";

/// The end of the subject on which a caller takes calls.
const CALLBACK: &str = "=.call";

/// The number in the reply subject of a notification. Only the broker uses it: to say that there is no worker.
pub(crate) const NOTIFICATION: u64 = 0;

/// The subject of a method of a service.
pub(crate) fn of_method(service: &str, method: &str) -> String {
    let mut subject = format!("rpc.{service}.");
    for &byte in method.as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => subject.push(byte.into()),
            // Writing to a string cannot fail.
            _ => drop(write!(subject, "={byte:02X}")),
        }
    }
    // A token cannot be empty.
    if method.is_empty() {
        subject.push('=');
    }
    subject
}

/// The subject of the batches of a service.
pub(crate) fn of_batch(service: &str) -> String {
    format!("rpc.{service}.{BATCH}")
}

/// The subject of everything that the workers of a service take.
pub(crate) fn of_service(service: &str) -> String {
    format!("rpc.{service}.*")
}

/// Returns `true` for the name of a service: letters, digits, `-` and `_`.
pub(crate) fn is_service(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !name.is_empty() && name.bytes().all(is_plain)
}

/// Everything that a caller takes at its inbox.
pub(crate) fn of_caller(inbox: &str) -> String {
    format!("{inbox}.*.*")
}

/// Writes the reply subject of a call. The time that it has left is rounded up: the caller gives up first, and knows better
/// why there is no answer.
pub(crate) fn write_reply(out: &mut String, inbox: &str, left: Option<Duration>, number: u64) {
    out.clear();
    // Writing to a string cannot fail.
    let _ = match left.map(|left| left.as_micros().div_ceil(1000)) {
        None => write!(out, "{inbox}.=.{number}"),
        Some(ms) => write!(out, "{inbox}.={ms}.{number}"),
    };
}

/// A caller that understands signs and takes calls, as the reply subject of its call names it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Caller<'a> {
    inbox: &'a str,
    /// The time that the call has left; `None` if it has no deadline, or one that is not a number.
    pub(crate) left: Option<Duration>,
}

impl<'a> Caller<'a> {
    /// Reads a reply subject; `None` for that of another client.
    pub(crate) fn read(reply: &'a str) -> Option<Self> {
        let (rest, _number) = reply.rsplit_once('.')?;
        let (inbox, token) = rest.rsplit_once('.')?;
        let left = token.strip_prefix('=')?.parse().ok().map(Duration::from_millis);
        Some(Caller { inbox, left })
    }

    /// The subject on which it takes calls.
    pub(crate) fn callback(&self) -> String {
        format!("{}.{CALLBACK}", self.inbox)
    }
}

/// Returns `true` for the subject on which a caller takes calls.
pub(crate) fn is_callback(subject: &str) -> bool {
    subject.strip_suffix(CALLBACK).is_some_and(|inbox| inbox.ends_with('.'))
}

/// The last token of a subject, if it is a number.
pub(crate) fn number(subject: &str) -> Option<u64> {
    last_token(subject).parse().ok()
}

/// The last token of a subject.
pub(crate) fn last_token(subject: &str) -> &str {
    subject.rsplit('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n1_a_method_is_one_token_of_its_subject() {
        for (method, subject) in [
            ("add", "rpc.math.add"),
            ("Add_2-x", "rpc.math.Add_2-x"),
            ("system.echo", "rpc.math.system=2Eecho"),
            ("textDocument/hover", "rpc.math.textDocument=2Fhover"),
            ("$/progress", "rpc.math.=24=2Fprogress"),
            ("a b*>=", "rpc.math.a=20b=2A=3E=3D"),
            ("ü", "rpc.math.=C3=BC"),
            ("", "rpc.math.="),
        ] {
            assert_eq!(of_method("math", method), subject);
        }
    }

    #[test]
    fn n1_no_method_has_the_subject_of_another_one_or_of_a_batch() {
        let names = ["", "=", "=3D", "batch", "=batch", "a.b", "a=2Eb", "a/b", " ", "*", ">"];
        let mut subjects: Vec<_> = names.iter().map(|name| of_method("s", name)).collect();
        subjects.push(of_batch("s"));
        for (at, subject) in subjects.iter().enumerate() {
            assert_eq!(subjects.iter().position(|it| it == subject), Some(at), "{subject}");
            assert_eq!(subject.split('.').count(), 3, "{subject}");
        }
    }

    #[test]
    fn n1_a_service_has_letters_digits_hyphens_and_underscores() {
        for (name, is_valid) in [
            ("math", true),
            ("a-b_2", true),
            ("", false),
            ("a.b", false),
            ("a b", false),
            ("*", false),
        ] {
            assert_eq!(is_service(name), is_valid, "{name:?}");
        }
    }

    #[test]
    fn n1_the_last_token_of_an_inbox_names_the_call() {
        for (subject, expected, takes_calls) in [
            ("_INBOX.x.=9.17", Some(17), false),
            ("_INBOX.x.=.call", None, true),
            ("_INBOX.x.=9.call", None, false),
            ("_INBOX.x.=.other", None, false),
            ("_INBOX.x=.call", None, false),
            ("7", Some(7), false),
            ("", None, false),
        ] {
            assert_eq!(number(subject), expected, "{subject:?}");
            assert_eq!(is_callback(subject), takes_calls, "{subject:?}");
        }
    }

    #[test]
    fn n2_a_reply_subject_names_the_caller_and_its_deadline() {
        let mut reply = String::new();
        for (micros, token) in [
            (None, "="),
            (Some(0), "=0"),
            (Some(1), "=1"),
            (Some(1000), "=1"),
            (Some(1001), "=2"),
            (Some(30_000_000), "=30000"),
        ] {
            write_reply(&mut reply, "_INBOX.x", micros.map(Duration::from_micros), 7);
            assert_eq!(reply, format!("_INBOX.x.{token}.7"));
            let caller = Caller::read(&reply).expect("a caller");
            let ms = micros.map(|micros| Duration::from_millis(micros.div_ceil(1000)));
            assert_eq!((caller.left, &*caller.callback()), (ms, "_INBOX.x.=.call"));
        }
    }

    #[test]
    fn n2_reply_subjects_of_other_clients_name_no_caller() {
        for reply in
            ["", "a", "a.b", "_INBOX.x.17", "_INBOX.a=.7", "=5.1", "_INBOX.=5", "..", "a..1"]
        {
            assert_eq!(Caller::read(reply), None, "{reply}");
        }
        for (reply, left) in [
            ("a.=5.1", Some(5)),
            ("a.=-1.1", None),
            ("a.=soon.1", None),
            ("a.=99999999999999999999.1", None),
            ("a.=18446744073709551615.1", Some(u64::MAX)),
        ] {
            let left = left.map(Duration::from_millis);
            assert_eq!(Caller::read(reply), Some(Caller { inbox: "a", left }), "{reply}");
        }
    }
}
