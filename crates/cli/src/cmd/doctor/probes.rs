//! What a daemon must answer, as data: what is sent, and what has to come back.

use duet_rpc::proto::frame::Framing;
use serde_json::Value;

use super::child::Combination;
use super::report::{Check, Finding};
use crate::args::ProfileName;

/// One question to a daemon.
pub(super) struct Probe {
    pub(super) check: Check,
    pub(super) name: &'static str,
    pub(super) applies: fn(Combination) -> bool,
    pub(super) sends: Sends,
    expects: Expects,
}

#[derive(Clone, Copy)]
pub(super) enum Sends {
    /// A request: its method and its params.
    Call(&'static str, &'static str),
    /// A request that is answered only when the daemon's own is.
    Callback,
    /// A text in a frame that is as it should be.
    Text(&'static str),
    /// The beginning of a message that is longer than the profile allows, and no more of it.
    Oversize,
    /// Bytes that belong to no frame.
    Garbage,
}

#[derive(Clone, Copy)]
enum Expects {
    /// An answer that has all of this in it; it may have more.
    Like(&'static str),
    /// The methods of the profile, and no others.
    Methods,
}

/// All questions, in the order in which they are put to one and the same process.
pub(super) const PROBES: &[Probe] = &[
    probe(
        (Check::Answers, "first answer", ALL),
        Sends::Call("initialize", "{}"),
        Expects::Like(
            r#"{"result":{"serverInfo":{"name":"duet-rpc","version":"VERSION"},"protocolVersion":"2.0"}}"#,
        ),
    ),
    probe(
        (Check::Answers, "version", ALL),
        Sends::Call("version", "null"),
        Expects::Like(r#"{"result":{"version":"VERSION"}}"#),
    ),
    probe((Check::Methods, "listMethods", ALL), Sends::Call("listMethods", "[]"), Expects::Methods),
    probe(
        (Check::Methods, "ping", NOT_EDITOR),
        Sends::Call("system.ping", "null"),
        Expects::Like(r#"{"result":"pong"}"#),
    ),
    probe(
        (Check::Methods, "echo", NOT_EDITOR),
        Sends::Call("system.echo", r#"{"text":"ä\n","list":[1,[],null]}"#),
        Expects::Like(r#"{"result":{"text":"ä\n","list":[1,[],null]}}"#),
    ),
    probe(
        (Check::Methods, "callback", |it| it.profile == ProfileName::Agent),
        Sends::Callback,
        Expects::Like(r#"{"result":{"answer":42}}"#),
    ),
    probe(
        (Check::Methods, "unknown method", ALL),
        Sends::Call("doctor.unknown", "null"),
        Expects::Like(r#"{"error":{"code":-32601}}"#),
    ),
    probe(
        (Check::Methods, "wrong params", ALL),
        Sends::Call("setLogLevel", r#"{"level":"loud"}"#),
        Expects::Like(
            r#"{"error":{"code":-32602,"data":{"accepted":["debug","info","warn","error"]}}}"#,
        ),
    ),
    probe(
        (Check::Methods, "batch refused", |it| it.profile == ProfileName::Editor),
        Sends::Text(BATCH),
        Expects::Like(
            r#"{"id":null,"error":{"code":-32600,"data":{"reason":"batch-not-supported"}}}"#,
        ),
    ),
    probe(
        (Check::Methods, "batch", NOT_EDITOR),
        Sends::Text(BATCH),
        Expects::Like(
            r#"[{"id":"a","result":{"version":"VERSION"}},{"id":"b","error":{"code":-32601}}]"#,
        ),
    ),
    probe(
        (Check::Survives, "not JSON", ALL),
        Sends::Text(r#"{"jsonrpc":"2.0","id":1,"method":"#),
        Expects::Like(r#"{"id":null,"error":{"code":-32700}}"#),
    ),
    probe(
        (Check::Survives, "oversize", ALL),
        Sends::Oversize,
        Expects::Like(r#"{"id":null,"error":{"code":-32600,"data":{"reason":"oversize"}}}"#),
    ),
    probe(
        // Where a message is a line, a line of garbage is a message that is not JSON.
        (Check::Survives, "garbage before a frame", |it| it.spoken != Framing::Ndjson),
        Sends::Garbage,
        Expects::Like(r#"{"id":null,"error":{"code":-32700}}"#),
    ),
];

const ALL: fn(Combination) -> bool = |_| true;
const NOT_EDITOR: fn(Combination) -> bool = |it| it.profile != ProfileName::Editor;
const BATCH: &str = r#"[{"jsonrpc":"2.0","id":"a","method":"version"},{"jsonrpc":"2.0","id":"b","method":"doctor.unknown"}]"#;

const fn probe(
    (check, name, applies): (Check, &'static str, fn(Combination) -> bool),
    sends: Sends,
    expects: Expects,
) -> Probe {
    Probe { check, name, applies, sends, expects }
}

impl Probe {
    /// Compares an answer with what is expected. The version is the one that the program tells on
    /// the command line; if it tells none, any will do here, as another check says so.
    pub(super) fn compare(
        &self,
        answer: &Value,
        profile: ProfileName,
        version: Option<&str>,
    ) -> Result<(), Finding> {
        match self.expects {
            Expects::Like(pattern) => compare(answer, pattern, version),
            Expects::Methods => compare_methods(answer, profile),
        }
    }
}

/// Compares an answer with a text that has all that must be in it.
pub(super) fn compare(answer: &Value, pattern: &str, version: Option<&str>) -> Result<(), Finding> {
    let expected = serde_json::from_str(pattern).unwrap_or_default();
    let mut answer = answer.clone();
    if let Value::Array(entries) = &mut answer {
        // The answers to a batch may come in any order.
        entries.sort_by_key(|entry| entry.get("id").map(Value::to_string));
    }
    if is_response(&answer) && is_like(&answer, &expected, version) {
        return Ok(());
    }
    let told = pattern.replace("VERSION", version.unwrap_or("a version"));
    Err(Finding::new("another answer").expected(&told).saw(&answer.to_string()))
}

/// Whether it is made as the contract says (M8), apart from what it carries.
fn is_response(answer: &Value) -> bool {
    match answer {
        Value::Array(entries) => entries.iter().all(is_response),
        _ => {
            let has = |name| answer.get(name).is_some();
            answer.get("jsonrpc").is_some_and(|version| version == "2.0")
                && has("id")
                && has("result") != has("error")
        }
    }
}

fn is_like(seen: &Value, expected: &Value, version: Option<&str>) -> bool {
    match (seen, expected) {
        (Value::Object(seen), Value::Object(expected)) => expected.iter().all(|(name, value)| {
            seen.get(name).is_some_and(|member| is_like(member, value, version))
        }),
        (Value::Array(seen), Value::Array(expected)) => {
            let mut pairs = seen.iter().zip(expected);
            seen.len() == expected.len() && pairs.all(|(one, other)| is_like(one, other, version))
        }
        (Value::String(seen), Value::String(expected)) if expected == "VERSION" => {
            version.is_none_or(|version| seen == version)
        }
        _ => seen == expected,
    }
}

/// The methods of a profile, as the contract has them.
fn methods(profile: ProfileName) -> impl Iterator<Item = &'static str> {
    const EDITOR: [&str; 6] =
        ["initialize", "listMethods", "describeMethods", "version", "setLogLevel", "shutdown"];
    const DESKTOP: [&str; 5] =
        ["system.ping", "system.echo", "events.subscribe", "events.unsubscribe", "rpc.discover"];
    const AGENT: [&str; 1] = ["system.callback"];
    let (desktop, agent): (&[_], &[_]) = match profile {
        ProfileName::Editor => (&[], &[]),
        ProfileName::Desktop => (&DESKTOP, &[]),
        ProfileName::Agent => (&DESKTOP, &AGENT),
    };
    EDITOR.iter().chain(desktop).chain(agent).copied()
}

fn compare_methods(answer: &Value, profile: ProfileName) -> Result<(), Finding> {
    let expected = format!("the methods of the {} profile", profile.name());
    let Some(Value::Array(entries)) = answer.get("result") else {
        return Err(Finding::new("another answer").expected(&expected).saw(&answer.to_string()));
    };
    let text = |entry: &Value, name: &str| {
        entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut seen: Vec<String> = entries.iter().map(|entry| text(entry, "name")).collect();
    let missing: Vec<_> =
        methods(profile).filter(|name| !seen.iter().any(|it| it == name)).collect();
    if !missing.is_empty() {
        let saw = format!("none named {}", missing.join(", "));
        return Err(Finding::new("a method is missing").expected(&expected).saw(&saw));
    }
    for name in methods(profile) {
        if let Some(place) = seen.iter().position(|it| it == name) {
            seen.swap_remove(place);
        }
    }
    if !seen.is_empty() {
        let saw = format!("also {}", seen.join(", "));
        return Err(Finding::new("there are too many methods").expected(&expected).saw(&saw));
    }
    match entries.iter().find(|entry| text(entry, "description").is_empty()) {
        Some(entry) => {
            let finding = Finding::new("a method has no description");
            Err(finding.expected("name and description").saw(&entry.to_string()))
        }
        None => Ok(()),
    }
}
