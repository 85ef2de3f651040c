//! Dialogues as data: messages to a server, and its messages. They are identical over every transport, byte
//! for byte, and for every server with the methods of the test bed.

mod answers;
mod both_ways;

/// A dialogue. It leaves the connection as it was, so that the next one can follow on it.
#[derive(Debug)]
pub(crate) struct Dialogue {
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    pub(crate) steps: Vec<Step>,
}

/// Requirement for the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Responses, one after the other.
    Answers,
    /// Messages in both directions at any time.
    Push,
    /// No server push: the dialogue shows the errors without it.
    NoPush,
}

#[derive(Debug)]
pub(crate) enum Step {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Expects this message. `$CALL` in it stands for the id of the last call.
    Back(String),
    /// Expects these messages, in any order.
    Both([String; 2]),
    /// Expects an array of these, in any order.
    Batch(Vec<String>),
    /// Expects a call with any id, followed by this text.
    Call(&'static str),
    /// Answers the call.
    Settle(&'static str),
    /// Expects an event of this topic.
    Event(&'static str),
    /// Expects this message, after any number of events.
    BehindEvents(String),
    /// Expects an error with any text.
    Refused(u64),
}

use Step::{Back, BehindEvents, Event};

/// Longer than any test waits.
const LONG: &str = r#"{"ms":3600000}"#;
const INVALID: &str = r#"{"code":-32600,"message":"Invalid Request"}"#;
const PARSE: &str = r#"{"code":-32700,"message":"Parse error"}"#;
const CANCELLED: &str = r#"{"code":-32800,"message":"Request cancelled"}"#;

fn row(name: &'static str, steps: Vec<Step>) -> Dialogue {
    Dialogue { name, needs: Needs::Answers, steps }
}

fn with_push(name: &'static str, steps: Vec<Step>) -> Dialogue {
    Dialogue { name, needs: Needs::Push, steps: steps.into_iter().chain(ping()).collect() }
}

fn send(text: impl Into<Vec<u8>>) -> Step {
    Step::Send(text.into())
}

/// A request; without params if they are empty.
fn request(id: &str, method: &str, params: &str) -> Step {
    let params = if params.is_empty() { String::new() } else { format!(r#","params":{params}"#) };
    send(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"{params}}}"#))
}

fn notification(method: &str, params: &str) -> Step {
    send(format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#))
}

fn result(id: &str, value: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{value}}}"#)
}

fn error(id: &str, value: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{value}}}"#)
}

/// A ping. Its answer shows that nothing else was sent before.
fn ping() -> [Step; 2] {
    [request(r#""ping""#, "system.ping", ""), Back(result(r#""ping""#, r#""pong""#))]
}

/// Dialogues for any server with the methods of the test bed.
pub(crate) fn rows() -> Vec<Dialogue> {
    answers::rows().into_iter().chain(both_ways::rows()).collect()
}

/// Further dialogues for the daemon.
pub(crate) fn daemon_rows() -> Vec<Dialogue> {
    let initialized =
        r#"{"serverInfo":{"name":"duet-rpc","version":"0.1.0"},"protocolVersion":"2.0"}"#;
    let level = r#"{"code":-32602,"message":"Invalid params","data":{"param":"level","expected":"one of the accepted values","received":"loud","accepted":["debug","info","warn","error"]}}"#;
    vec![
        row(
            "methods are served without a handshake",
            vec![
                request("1", "version", ""),
                Back(result("1", r#"{"version":"0.1.0"}"#)),
                request("2", "initialize", "{}"),
                Back(result("2", initialized)),
                request("3", "setLogLevel", r#"["loud"]"#),
                Back(error("3", level)),
            ],
        ),
        with_push(
            "events come to subscribers",
            vec![
                request("1", "events.subscribe", r#"{"topics":["log"]}"#),
                Back(result("1", r#"{"topics":["log"]}"#)),
                notification("no.such.method", "[]"),
                Event("log"),
                notification("no.such.method", "[]"),
                request("2", "events.unsubscribe", r#"{"topics":["log"]}"#),
                BehindEvents(result("2", r#"{"topics":[]}"#)),
            ],
        ),
    ]
}
