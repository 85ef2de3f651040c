//! Messages for a failed call: the failure, its cause, and the next step.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use duet_rpc::proto::frame::Framing;
use duet_rpc::proto::message::{InvalidResponseReason, is_obeyed};
use duet_rpc::transport::TlsError;
use duet_rpc::{CloseReason, Disconnect, RemoteError, UnusableAnswer};

use super::address::{advice_of_refusal, advice_of_tls};
use super::first_bytes::FirstSign;
use crate::args::ProtocolName;
use crate::exit::{Exit, Problem};
use crate::json;
use crate::sys::processes;

/// Message for a server that cannot be started.
pub(in crate::cmd) fn not_started(program: &OsStr, error: &io::Error) -> String {
    let is_path = Path::new(program).components().count() > 1;
    let advice = match error.kind() {
        io::ErrorKind::NotFound if is_path => "; is the path right, and its interpreter installed?",
        io::ErrorKind::NotFound => "; is it installed and on PATH?",
        io::ErrorKind::PermissionDenied => "; is it a program, and may you execute it?",
        _ => "",
    };
    format!("{}{advice}", plain(&error.to_string()))
}

/// Returns `true` if this error response without an id refuses the connection.
pub(super) fn is_refusal(error: &RemoteError) -> bool {
    #[derive(serde::Deserialize)]
    struct Data<'a> {
        #[serde(borrow)]
        reason: Cow<'a, str>,
    }
    let data =
        error.data.as_ref().and_then(|data| serde_json::from_str::<Data<'_>>(data.get()).ok());
    data.is_some_and(|data| matches!(&*data.reason, "overloaded" | "user-not-allowed"))
}

/// Message for an error response.
pub(super) fn error_answer(error: &RemoteError) -> String {
    let RemoteError { code, message, data, .. } = error;
    let colon = if message.is_empty() { "" } else { ": " };
    let message = plain(message);
    // The library reads a missing code as 0.
    let code = if *code == 0 { "code missing or 0".to_owned() } else { code.to_string() };
    let mut text = format!("the server answered with an error{colon}{message} ({code})");
    if let Some(data) = data {
        text.push_str("\ndata: ");
        text.push_str(&json::escape_for_terminal(&json::compact(data.get())));
    }
    text
}

pub(super) fn no_answer_within(timeout: Duration, clue: &Clue) -> String {
    let timeout = timeout.as_secs_f64();
    let advice = match clue {
        Clue::Silence(Via::Stdout(framing)) => format!(
            ": is `--framing {framing}` right for it, and does it flush stdout? `--timeout` waits longer"
        ),
        Clue::Silence(Via::Socket(framing)) => {
            format!(": is `--framing {framing}` right for it? `--timeout` waits longer")
        }
        Clue::Silence(Via::Messages) => ": `--timeout` waits longer".to_owned(),
        _ => String::new(),
    };
    format!("no answer within {timeout} s; {clue}{advice}")
}

/// Message for a server whose first bytes show that it will not answer.
pub(super) fn hopeless(sign: FirstSign) -> String {
    let (what, framing) = match sign {
        FirstSign::Echo => {
            return "the server sends our own message back, as `cat` does: is it a JSON-RPC server?"
                .to_owned();
        }
        FirstSign::OtherFraming(framing) => match framing {
            Framing::Lsp => ("it begins messages with `Content-Length`", framing),
            Framing::Ndjson => ("it writes one message per line", framing),
            Framing::Length => ("it writes a length of four bytes before messages", framing),
        },
    };
    format!("the server speaks another framing: {what}; use `--framing {framing}`")
}

/// Advice for a failed call of a method that belongs to a protocol whose sessions begin with a handshake.
pub(super) fn missing_handshake(method: &str, problem: &Problem) -> Option<&'static str> {
    let may_be_the_cause = match problem.exit {
        Exit::Timeout | Exit::BrokenProtocol => true,
        // The errors of servers that are not initialized.
        Exit::ErrorAnswer => ["nitialize", "(-32002)", "(-32600)", "(-32602)"]
            .iter()
            .any(|sign| problem.message.contains(sign)),
        _ => false,
    };
    if !may_be_the_cause {
        return None;
    }
    const LSP: [&str; 10] = [
        "textDocument/",
        "workspace/",
        "window/",
        "notebookDocument/",
        "completionItem/",
        "codeLens/",
        "codeAction/",
        "callHierarchy/",
        "typeHierarchy/",
        "inlayHint/",
    ];
    const MCP: [&str; 5] = ["tools/", "resources/", "prompts/", "completion/", "logging/"];
    let is_of = |prefixes: &[&str]| prefixes.iter().any(|prefix| method.starts_with(prefix));
    if is_of(&LSP) {
        return Some(
            "is it a language server? It expects `initialize` first: `--handshake lsp` sends it, \
             in the framing of language servers",
        );
    }
    is_of(&MCP)
        .then_some("is it an MCP server? It expects `initialize` first: `--handshake mcp` sends it")
}

/// Advice for a handshake without an answer: the server may expect the other one.
pub(super) fn other_handshake(protocol: ProtocolName, problem: &Problem) -> Option<&'static str> {
    if !matches!(problem.exit, Exit::Timeout | Exit::BrokenProtocol) {
        return None;
    }
    Some(match protocol {
        ProtocolName::Lsp => {
            "is it an MCP server? Then use `--handshake mcp`; `duet-rpc doctor -- COMMAND` finds out"
        }
        ProtocolName::Mcp => {
            "is it a language server? Then use `--handshake lsp`; `duet-rpc doctor -- COMMAND` finds out"
        }
    })
}

/// Advice for a language server that refused the params of a call about a document: it may need a file, or a place in one.
/// `has_place` is `None` without `--open`.
pub(super) fn missing_document(
    method: &str,
    problem: &Problem,
    has_place: Option<bool>,
) -> Option<&'static str> {
    if problem.exit != Exit::ErrorAnswer || !method.starts_with("textDocument/") {
        return None;
    }
    match has_place {
        Some(true) => None,
        Some(false) => Some("does it need a place in the file? Give `--open FILE:LINE:COLUMN`"),
        None => Some(
            "does it need a file? `--open FILE:LINE:COLUMN` opens one, and adds it to the params",
        ),
    }
}

pub(super) fn not_read_within(timeout: Duration) -> String {
    let timeout = timeout.as_secs_f64();
    format!("the server did not read the notification within {timeout} s")
}

pub(super) fn broken_answer(why: &dyn std::error::Error) -> String {
    let why = why.source().map(|why| format!(": {}", plain(&why.to_string()))).unwrap_or_default();
    format!("the server's answer cannot be used{why}")
}

/// Message for a request or answer that was lost on the way, which only HTTP reports.
pub(super) fn failed_exchange(error: &(dyn std::error::Error + 'static)) -> String {
    if let Some(refused) = TlsError::from_error(error) {
        return format!("no answer: {}{}", plain(&refused.to_string()), advice_of_tls(error));
    }
    let why =
        error.source().map(|why| format!(": {}", plain(&why.to_string()))).unwrap_or_default();
    format!("no answer{why}{}", advice_of_refusal(error))
}

/// Message for an answer that cannot be used.
pub(super) fn unusable(why: UnusableAnswer, via: Via) -> String {
    let what = match why {
        UnusableAnswer::Empty => "has neither `result` nor `error`",
        UnusableAnswer::Malformed(InvalidResponseReason::ResultAndError) => {
            "has both `result` and `error`: the one that does not apply must be left out, not null"
        }
        UnusableAnswer::Malformed(InvalidResponseReason::BadId) => {
            "does not have the `id` of the request"
        }
        UnusableAnswer::Malformed(InvalidResponseReason::BadVersion) => {
            "does not have `\"jsonrpc\": \"2.0\"`"
        }
        UnusableAnswer::Malformed(InvalidResponseReason::MemberTwice) => "has a member twice",
        UnusableAnswer::Oversize(limit) => return oversize(limit, via),
        // A kind of fault that this version does not know.
        _ => return format!("the server's answer cannot be used: {why}"),
    };
    format!("the server's answer {what}")
}

fn oversize(limit: usize, via: Via) -> String {
    let limit = limit.div_ceil(1024 * 1024);
    let advice = match via {
        // Bytes of another framing, read as a length, usually give a large number.
        Via::Stdout(Framing::Length) | Via::Socket(Framing::Length) => {
            ": is `--framing length` right for it?"
        }
        _ => "",
    };
    format!("the server sent a message over the limit of {limit} MiB{advice}")
}

/// Message for a server that closed the connection or exited.
pub(super) fn gone(end: &Disconnect, clue: &Clue) -> String {
    // A message transport gives its own reason for the end. The clue may be wrong: the server may have sent bytes
    // that were not counted.
    if matches!(clue, Clue::Silence(Via::Messages))
        && let Some(why) = end.failure().and_then(std::error::Error::source)
    {
        return format!("no answer: {}", plain(&why.to_string()));
    }
    let died_of_signal =
        end.exit_report().exit.is_none_or(|exit| processes::signal_of(exit).is_some());
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

/// Message that lists the server processes that did not exit by themselves; `None` if all did.
pub(super) fn stopped(end: &Disconnect) -> Option<String> {
    let stopped: Vec<_> =
        end.exit_report().stopped.iter().map(|process| plain(&process.to_string())).collect();
    let list = stopped.join(", ");
    (!list.is_empty())
        .then(|| format!("stopped processes that did not exit when stdin was closed: {list}"))
}

/// Message for a server that failed after it was sent a notification. It may have read the notification or
/// not.
pub(super) fn failed(end: &Disconnect) -> Option<String> {
    let exit = end.exit_report().exit.filter(|exit| !exit.success())?;
    Some(format!("the notification was sent, and the server ended with {exit}"))
}

/// Message for a server that ended before it read a notification.
pub(super) fn gone_before_sent(end: &Disconnect) -> String {
    let how = end.exit_report().exit.map(|exit| format!(", with {exit}")).unwrap_or_default();
    format!("the server ended before it had read the notification{how}")
}

/// Message for an HTTP notification that may not have arrived.
pub(super) fn not_delivered(failure: &(dyn std::error::Error + 'static)) -> String {
    let why = failure.source().unwrap_or(failure);
    plain(&why.to_string())
}

/// Channel from the server to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    /// The server's stdout.
    Stdout(Framing),
    /// A stream socket.
    Socket(Framing),
    /// A connection that carries whole messages.
    Messages,
}

/// Received data that hints at the reason for a missing answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Clue {
    /// Bytes that are not a message, and their first line, if they were the first bytes.
    Garbage(Via, Option<String>),
    /// An answer to another request.
    OtherAnswer,
    /// Messages, without an answer among them.
    OtherMessages,
    /// Part of a message.
    Part(Via),
    /// Nothing.
    Silence(Via),
}

impl fmt::Display for Clue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Clue::Garbage(via, line) => {
                f.write_str(match via {
                    Via::Stdout(_) => "it wrote something to stdout that is not a message",
                    Via::Socket(_) | Via::Messages => "it sent something that is not a message",
                })?;
                if let Some(line) = line.as_deref().filter(|line| !line.is_empty()) {
                    write!(f, " (\"{}\")", plain(line))?;
                }
                match via {
                    Via::Stdout(framing) => write!(
                        f,
                        ": does it print there, or is `--framing {framing}` not right for it?"
                    ),
                    Via::Socket(framing) => {
                        write!(f, ": is `--framing {framing}` right for it?")
                    }
                    Via::Messages => Ok(()),
                }
            }
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
                    Framing::Ndjson => "does a newline follow it?",
                    Framing::Lsp | Framing::Length => "is the length before it right?",
                }
            ),
            Clue::Silence(Via::Stdout(_)) => f.write_str("it wrote nothing to stdout"),
            Clue::Silence(_) => f.write_str("it sent nothing"),
        }
    }
}

/// Escapes text from outside, so that it can neither end our line nor control the terminal.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c6_refused_params_of_a_document_name_the_option_that_is_missing() {
        for (exit, method, has_place, expect) in [
            (Exit::ErrorAnswer, "textDocument/hover", None, Some("need a file?")),
            (Exit::ErrorAnswer, "textDocument/hover", Some(false), Some("need a place")),
            (Exit::ErrorAnswer, "textDocument/hover", Some(true), None),
            (Exit::ErrorAnswer, "workspace/symbol", None, None),
            (Exit::Timeout, "textDocument/hover", None, None),
        ] {
            let problem = Problem { exit, message: String::new() };
            let advice = missing_document(method, &problem, has_place);
            match expect {
                Some(words) => assert!(advice.is_some_and(|it| it.contains(words)), "{advice:?}"),
                None => assert_eq!(advice, None, "{method} {has_place:?}"),
            }
        }
    }
}
