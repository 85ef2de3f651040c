//! Dialogues as data: what is said to a server, and what it says. They hold over every transport, to the
//! byte, and for every server that has the methods of the test bed.

mod answers;
mod both_ways;

/// A dialogue. It leaves the connection as it was, so the next one can follow on it.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    pub(crate) steps: Vec<Step>,
}

/// What a transport must be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// To answer one request after the other.
    Answers,
    /// To carry messages both ways at any time.
    WayBack,
    /// This is what a server says where it has no way back.
    NoWayBack,
}

#[derive(Debug)]
pub(crate) enum Step {
    /// This is sent.
    Send(Vec<u8>),
    /// This is the next message that comes. `$CALL` in it is the id of the last call that came.
    Back(String),
    /// These are the next messages, in any order.
    Both([String; 2]),
    /// The next message is an array of these, in any order.
    Batch(Vec<String>),
    /// The next message is a call with an id of the server's choice, and these behind it.
    Call(&'static str),
    /// The call is answered with this.
    Settle(&'static str),
    /// The next message is an event of this topic.
    Event(&'static str),
    /// Behind any number of events, this comes.
    BehindEvents(String),
    /// An answer comes that is an error, whatever its words.
    Refused(u64),
}

use Step::{Back, BehindEvents, Event};

/// Longer than any test waits.
const LONG: &str = r#"{"ms":3600000}"#;
const INVALID: &str = r#"{"code":-32600,"message":"Invalid Request"}"#;
const PARSE: &str = r#"{"code":-32700,"message":"Parse error"}"#;
const CANCELLED: &str = r#"{"code":-32800,"message":"Request cancelled"}"#;

fn row(name: &'static str, steps: Vec<Step>) -> Row {
    Row { name, needs: Needs::Answers, steps }
}

fn with_way_back(name: &'static str, steps: Vec<Step>) -> Row {
    Row { name, needs: Needs::WayBack, steps: steps.into_iter().chain(ping()).collect() }
}

fn send(text: impl Into<Vec<u8>>) -> Step {
    Step::Send(text.into())
}

/// A request, without params if they are empty.
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

/// That nothing else comes shows in what comes next.
fn ping() -> [Step; 2] {
    [request(r#""ping""#, "system.ping", ""), Back(result(r#""ping""#, r#""pong""#))]
}

/// What any server says that has the methods.
pub(crate) fn rows() -> Vec<Row> {
    answers::rows().into_iter().chain(both_ways::rows()).collect()
}

/// What the daemon says beyond that.
pub(crate) fn daemon_rows() -> Vec<Row> {
    let initialized =
        r#"{"serverInfo":{"name":"duet-rpc","version":"0.1.0"},"protocolVersion":"2.0"}"#;
    let level = r#"{"code":-32602,"message":"Invalid params","data":{"param":"level","expected":"one of the accepted values","received":"loud","accepted":["debug","info","warn","error"]}}"#;
    vec![
        row(
            "its methods are served without a handshake",
            vec![
                request("1", "version", ""),
                Back(result("1", r#"{"version":"0.1.0"}"#)),
                request("2", "initialize", "{}"),
                Back(result("2", initialized)),
                request("3", "setLogLevel", r#"["loud"]"#),
                Back(error("3", level)),
            ],
        ),
        with_way_back(
            "events come to whoever has subscribed",
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
