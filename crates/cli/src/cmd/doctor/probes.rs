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
        Sends::Call("system.echo", r#"["ä\n",[1,[],null]]"#),
        Expects::Like(r#"{"result":["ä\n",[1,[],null]]}"#),
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
    /// Compares an answer with what is expected.
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

    /// What is expected, in words.
    pub(super) fn expected(&self, version: Option<&str>) -> String {
        match self.expects {
            Expects::Like(pattern) => told(pattern, version),
            Expects::Methods => METHODS.to_owned(),
        }
    }
}

const METHODS: &str = "the methods of the profile";

/// Compares an answer with a text that has all that must be in it. The version in it is the one that
/// the program tells on the command line; if it tells none, any will do, as another check says so.
pub(super) fn compare(answer: &Value, pattern: &str, version: Option<&str>) -> Result<(), Finding> {
    let expected = serde_json::from_str(pattern).unwrap_or_default();
    let mut answer = answer.clone();
    if let Value::Array(entries) = &mut answer {
        // The answers to a batch may come in any order.
        entries.sort_by_key(|entry| entry.get("id").map(Value::to_string));
    }
    if !is_response(&answer) {
        let finding = Finding::new("what came is no answer as JSON-RPC 2.0 has it");
        return Err(finding.expected(&told(pattern, version)).saw(&answer.to_string()));
    }
    match difference(&answer, &expected, version) {
        None => Ok(()),
        Some(Difference { path, expected, seen }) => {
            let path: Vec<_> = path.into_iter().rev().collect();
            let place = if path.is_empty() { "" } else { " in " };
            let finding = Finding::new(format!("another answer{place}{}", path.join(".")));
            Err(finding.expected(&told(&expected.to_string(), version)).saw(&seen.to_string()))
        }
    }
}

fn told(pattern: &str, version: Option<&str>) -> String {
    pattern.replace("VERSION", version.unwrap_or("any version"))
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

/// Where an answer is not what is expected. Only that part is shown, as the whole may be long.
struct Difference<'a> {
    /// Names and places of members, the innermost first.
    path: Vec<String>,
    expected: &'a Value,
    seen: &'a Value,
}

fn difference<'a>(
    seen: &'a Value,
    expected: &'a Value,
    version: Option<&str>,
) -> Option<Difference<'a>> {
    let inside = |step: String, seen, expected| {
        let mut found = difference(seen, expected, version)?;
        found.path.push(step);
        Some(found)
    };
    let here = Difference { path: Vec::new(), expected, seen };
    match (seen, expected) {
        (Value::Object(members), Value::Object(pattern)) => {
            let mut pairs = pattern.iter().map(|(name, value)| (name, members.get(name), value));
            match pairs.clone().all(|(_, member, _)| member.is_some()) {
                true => {
                    pairs.find_map(|(name, member, value)| inside(name.clone(), member?, value))
                }
                false => Some(here),
            }
        }
        (Value::Array(entries), Value::Array(pattern)) if entries.len() == pattern.len() => {
            let mut pairs = entries.iter().zip(pattern).enumerate();
            pairs.find_map(|(place, (entry, value))| inside(place.to_string(), entry, value))
        }
        (Value::String(text), Value::String(pattern)) if pattern == "VERSION" => {
            version.is_some_and(|version| text != version).then_some(here)
        }
        _ => (seen != expected).then_some(here),
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
    let finding = |why: &str, saw: &str| Err(Finding::new(why).expected(METHODS).saw(saw));
    let Some(Value::Array(entries)) = answer.get("result") else {
        return finding("another answer", &answer.to_string());
    };
    let text = |entry: &Value, name: &str| {
        entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut seen: Vec<String> = entries.iter().map(|entry| text(entry, "name")).collect();
    let missing: Vec<_> =
        methods(profile).filter(|name| !seen.iter().any(|it| it == name)).collect();
    if !missing.is_empty() {
        return finding("methods are missing", &format!("none named {}", missing.join(", ")));
    }
    for name in methods(profile) {
        if let Some(place) = seen.iter().position(|it| it == name) {
            seen.swap_remove(place);
        }
    }
    if !seen.is_empty() {
        return finding("there are too many methods", &format!("also {}", seen.join(", ")));
    }
    match entries.iter().find(|entry| text(entry, "description").is_empty()) {
        Some(entry) => finding("a method has no description", &entry.to_string()),
        None => Ok(()),
    }
}
