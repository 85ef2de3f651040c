//! What is said of a call that went wrong: what happened, why, and what to do.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use duet_rpc::proto::frame::Framing;
use duet_rpc::proto::message::{WhyStray, is_obeyed};
use duet_rpc::transport::{Address, Refused};
use duet_rpc::{CloseReason, Disconnect, RemoteError, UnusableAnswer};

use crate::json;

/// Why a server cannot be started.
pub(super) fn not_started(program: &OsStr, error: &io::Error) -> String {
    let is_path = Path::new(program).components().count() > 1;
    let advice = match error.kind() {
        io::ErrorKind::NotFound if is_path => "; is the path right, and its interpreter installed?",
        io::ErrorKind::NotFound => "; is it installed and on PATH?",
        io::ErrorKind::PermissionDenied => "; is it a program, and may you execute it?",
        _ => "",
    };
    format!("{}{advice}", plain(&error.to_string()))
}

/// Why a server cannot be reached.
pub(super) fn not_reached(address: &Address, error: &io::Error) -> String {
    let advice = match (error.kind(), address) {
        (io::ErrorKind::NotFound, Address::Unix(_)) => "; does the server run?",
        (io::ErrorKind::ConnectionRefused, _) => "; does the server run, and is the address right?",
        (io::ErrorKind::PermissionDenied, Address::Unix(_)) => "; is the server yours?",
        _ => advice_of_refusal(error),
    };
    format!("cannot reach {address}: {}{advice}", plain(&error.to_string()))
}

pub(super) fn not_reached_within(address: &Address, timeout: Duration) -> String {
    format!("cannot reach {address} within {} s", timeout.as_secs_f64())
}

/// What to do about a server that turned us away, if it said so in the words of HTTP.
fn advice_of_refusal(error: &(dyn std::error::Error + 'static)) -> &'static str {
    match find_refusal(error).map(Refused::status) {
        Some(401) => "; `--token-file` shows it a token",
        Some(403) => "; does it know itself by the name in the address?",
        Some(404) => "; is the path of the address right?",
        Some(413) => "; the server takes no message of this size",
        Some(status @ 500..) if Refused::new(status).is_temporary() => "; try again later",
        _ => "",
    }
}

fn find_refusal<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Refused> {
    let mut error = Some(error);
    while let Some(this) = error {
        let refused = match this.downcast_ref::<io::Error>() {
            Some(error) => Refused::from_error(error),
            None => this.downcast_ref::<Refused>(),
        };
        if refused.is_some() {
            return refused;
        }
        error = this.source();
    }
    None
}

/// The server turned us away, if it did.
pub(super) fn refused(end: &Disconnect) -> Option<String> {
    let failure = end.failure()?;
    let refused = find_refusal(failure)?;
    Some(format!("{refused}{}", advice_of_refusal(failure)))
}

/// The error that a server answered with.
pub(super) fn error_answer(error: &RemoteError) -> String {
    let RemoteError { code, message, data, .. } = error;
    let colon = if message.is_empty() { "" } else { ": " };
    let message = plain(message);
    let mut text = format!("the server answered with an error{colon}{message} ({code})");
    if let Some(data) = data {
        text.push_str("\ndata: ");
        text.push_str(&json::tame(&json::compact(data.get())));
    }
    text
}

pub(super) fn no_answer_within(timeout: Duration, clue: Clue) -> String {
    let timeout = timeout.as_secs_f64();
    let advice = match clue {
        Clue::Silence(Via::Stdout(framing) | Via::Socket(framing)) => {
            format!(": is `--framing {framing}` right for it? `--timeout` waits longer")
        }
        Clue::Silence(Via::Messages) => ": `--timeout` waits longer".to_owned(),
        _ => String::new(),
    };
    format!("no answer within {timeout} s; {clue}{advice}")
}

pub(super) fn not_read_within(timeout: Duration) -> String {
    let timeout = timeout.as_secs_f64();
    format!("the server did not read the notification within {timeout} s")
}

pub(super) fn broken_answer(why: &dyn std::error::Error) -> String {
    let why = why.source().map(|why| format!(": {}", plain(&why.to_string()))).unwrap_or_default();
    format!("the server's answer cannot be used{why}")
}

/// The request or its answer was lost on the way, as over HTTP.
pub(super) fn failed_exchange(error: &(dyn std::error::Error + 'static)) -> String {
    let why =
        error.source().map(|why| format!(": {}", plain(&why.to_string()))).unwrap_or_default();
    format!("no answer{why}{}", advice_of_refusal(error))
}

/// The server answered, and its answer cannot be used.
pub(super) fn unusable(why: UnusableAnswer, via: Via) -> String {
    let what = match why {
        UnusableAnswer::Empty => "has neither `result` nor `error`",
        UnusableAnswer::Malformed(WhyStray::ResultAndError) => {
            "has both `result` and `error`: the one that does not apply must be left out, not null"
        }
        UnusableAnswer::Malformed(WhyStray::BadId) => "does not have the `id` of the request",
        UnusableAnswer::Malformed(WhyStray::BadVersion) => "does not have `\"jsonrpc\": \"2.0\"`",
        UnusableAnswer::Malformed(WhyStray::MemberTwice) => "has a member twice",
        UnusableAnswer::Oversize(limit) => return oversize(limit, via),
        // One that this version does not know.
        _ => return format!("the server's answer cannot be used: {why}"),
    };
    format!("the server's answer {what}")
}

fn oversize(limit: usize, via: Via) -> String {
    let limit = limit.div_ceil(1024 * 1024);
    let advice = match via {
        // Where anything but a length stands, most of the time that is a large number.
        Via::Stdout(Framing::Length) | Via::Socket(Framing::Length) => {
            ": is `--framing length` right for it?"
        }
        _ => "",
    };
    format!("the server sent a message over the limit of {limit} MiB{advice}")
}

/// The server is gone.
pub(super) fn gone(end: &Disconnect, clue: Clue) -> String {
    // Why a connection of messages ended says enough, and may be about bytes that no clue counts.
    if matches!(clue, Clue::Silence(Via::Messages))
        && let Some(why) = end.failure().and_then(std::error::Error::source)
    {
        return format!("no answer: {}", plain(&why.to_string()));
    }
    let died_of_signal = end.exit_report().exit.is_none_or(|exit| exit.signal().is_some());
    let had_to_be_stopped = died_of_signal && !end.exit_report().stopped.is_empty();
    let what = match (had_to_be_stopped, end.reason()) {
        (true, CloseReason::WriteFailed) => {
            "closed its stdin without an answer, and had to be stopped".to_owned()
        }
        (true, _) => "closed its stdout without an answer, and had to be stopped".to_owned(),
        (false, _) => match end.exit_report().exit {
            Some(exit) => format!("ended without an answer, with {exit}"),
            None => match end.failure().and_then(std::error::Error::source) {
                None => "closed the connection without an answer".to_owned(),
                Some(why) => {
                    format!("is gone without an answer ({})", plain(&why.to_string()))
                }
            },
        },
    };
    format!("the server {what}; {clue}")
}

/// The processes of the server that did not end by themselves, if there are any.
pub(super) fn stopped(end: &Disconnect) -> Option<String> {
    let stopped: Vec<_> =
        end.exit_report().stopped.iter().map(|process| plain(&process.to_string())).collect();
    let list = stopped.join(", ");
    (!list.is_empty())
        .then(|| format!("stopped processes that did not exit when stdin was closed: {list}"))
}

/// Says that the server failed after a notification was sent. Whether it had read the notification is not
/// known.
pub(super) fn failed(end: &Disconnect) -> Option<String> {
    let exit = end.exit_report().exit.filter(|exit| !exit.success())?;
    Some(format!("the notification was sent, and the server ended with {exit}"))
}

/// The server was gone before a notification was on its way.
pub(super) fn gone_before_sent(end: &Disconnect) -> String {
    let how = end.exit_report().exit.map(|exit| format!(", with {exit}")).unwrap_or_default();
    format!("the server ended before it had read the notification{how}")
}

/// Says why an HTTP server may not have received a notification.
pub(super) fn not_delivered(failure: &(dyn std::error::Error + 'static)) -> String {
    let why = failure.source().unwrap_or(failure);
    plain(&why.to_string())
}

/// How a server speaks to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    /// On its stdout.
    Stdout(Framing),
    /// On a connection.
    Socket(Framing),
    /// On a connection of whole messages.
    Messages,
}

/// What came from the server tells about why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clue {
    /// There was something that is no message.
    Garbage(Via),
    /// There was an answer to something else.
    OtherAnswer,
    /// There were messages, and no answer among them.
    OtherMessages,
    /// There was a part of a message.
    Part(Via),
    /// There was nothing.
    Silence(Via),
}

impl fmt::Display for Clue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Clue::Garbage(Via::Messages) => f.write_str("it sent something that is no message"),
            Clue::Garbage(Via::Socket(framing)) => write!(
                f,
                "it sent something that is no message: is `--framing {framing}` right for it?"
            ),
            Clue::Garbage(Via::Stdout(framing)) => write!(
                f,
                "it wrote something to stdout that is no message: \
                 does it print there, or is `--framing {framing}` not right for it?"
            ),
            Clue::OtherAnswer => f.write_str(
                "it answered something that was not asked: \
                 does its answer have the `id` of the request?",
            ),
            Clue::OtherMessages => f.write_str("it sent messages, but no answer to this one"),
            Clue::Part(Via::Messages) => f.write_str("it began a message and did not end it"),
            Clue::Part(Via::Stdout(framing) | Via::Socket(framing)) => write!(
                f,
                "it began a message and did not end it: {}",
                match framing {
                    Framing::Ndjson => "is there a newline behind it?",
                    Framing::Lsp | Framing::Length => "is the length right that it begins with?",
                }
            ),
            Clue::Silence(Via::Stdout(_)) => f.write_str("it wrote nothing to stdout"),
            Clue::Silence(_) => f.write_str("it sent nothing"),
        }
    }
}

/// Somebody else's text on a line of ours, which it cannot end, and so that it cannot play with the
/// terminal.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match is_obeyed(char) {
            true => out.extend(char.escape_default()),
            false => out.push(char),
        }
    }
    out
}
