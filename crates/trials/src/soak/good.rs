//! Requests and notifications that are well-formed, and what must be said to each.

use serde_json::{Value, json};

use super::config::Config;
use super::expect::{Due, Effect, Outcome};
use super::texts::{params, quoted};
use crate::random::Random;

/// A call: the method in quotes, the params, and what is due.
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) params: Option<String>,
    pub(super) kind: &'static str,
    pub(super) outcome: Outcome,
    pub(super) effect: Effect,
    /// The method whose name an error in the log will have, if there will be one.
    pub(super) error_of: Option<&'static str>,
    /// Whether it can be one of a batch, and called off.
    pub(super) is_plain: bool,
}

impl Asked {
    fn new(method: &str, params: Option<String>, kind: &'static str, outcome: Outcome) -> Self {
        let (method, effect) = (quoted(method), Effect::None);
        Asked { method, params, kind, outcome, effect, error_of: None, is_plain: true }
    }

    pub(super) fn due(&self, id: &str) -> Due {
        Due::new(self.kind, id, self.outcome.clone()).with(self.effect)
    }
}

fn result(value: &Value) -> Outcome {
    Outcome::Result(value.to_string())
}

/// Any request.
pub(super) fn any(random: &mut Random, config: Config, blanks: &[&str]) -> Asked {
    match random.below(100) {
        0..=24 => echo(random, config, blanks),
        25..=39 => plain(random, config),
        40..=54 => slow(random),
        55..=62 => unknown(random),
        63..=70 => wrong_params(random, config),
        71..=76 => failing(random),
        77..=79 => {
            let mut asked = Asked::new("test.panic", None, "test.panic", internal());
            (asked.error_of, asked.is_plain) = (Some("test.panic"), false);
            asked
        }
        80..=89 => big(random),
        _ => quick(config),
    }
}

fn internal() -> Outcome {
    Outcome::error(-32603, "Internal error")
}

/// One that is answered at once.
pub(super) fn quick(config: Config) -> Asked {
    match config.has_system() {
        true => Asked::new("system.ping", None, "system.ping", result(&json!("pong"))),
        false => version(None),
    }
}

fn version(params: Option<String>) -> Asked {
    Asked::new("version", params, "version", result(&json!({ "version": "0.1.0" })))
}

fn not_found(name: &str) -> Outcome {
    let name: String = name.chars().take(128).collect();
    Outcome::error(-32601, &format!("Method not found: {name}"))
}

fn echo(random: &mut Random, config: Config, blanks: &[&str]) -> Asked {
    let params = match random.below(10) {
        0 => None,
        1 => Some("null".to_owned()),
        _ => Some(params(random, blanks)),
    };
    let outcome = match config.has_system() {
        true => Outcome::Echo(crate::wire::squeezed(params.as_deref().unwrap_or("null"))),
        false => not_found("system.echo"),
    };
    // In a batch this would be one level too deep.
    let is_deepest = params.as_ref().is_some_and(|it| it.starts_with("[[[[["));
    let mut asked = Asked::new("system.echo", params, "system.echo", outcome);
    asked.is_plain = !is_deepest;
    asked
}

/// Methods without params, which take whatever params there are.
fn plain(random: &mut Random, config: Config) -> Asked {
    let params = [None, Some("null"), Some("{}"), Some("[]"), Some("[1,2]"), Some(r#"{"a":[]}"#)];
    let params = random.pick(&params).map(str::to_owned);
    let page = |name: &'static str| Asked::new(name, None, name, Outcome::Page(name));
    let mut asked = match random.below(6) {
        0 => {
            let info =
                r#"{"serverInfo":{"name":"duet-rpc","version":"0.1.0"},"protocolVersion":"2.0"}"#;
            Asked::new("initialize", None, "initialize", Outcome::Result(info.to_owned()))
        }
        1 => page("listMethods"),
        2 => page("describeMethods"),
        3 if config.has_system() => page("rpc.discover"),
        3 => Asked::new("rpc.discover", None, "rpc.discover", not_found("rpc.discover")),
        4 => quick(config),
        _ => version(None),
    };
    asked.params = params;
    asked
}

/// Handlers that take their time, in one way or another.
fn slow(random: &mut Random) -> Asked {
    let names = [
        "test.sleep",
        "test.sleep",
        "test.sleep",
        "test.block",
        "test.spin",
        "test.nap",
        "test.late",
        "test.jam",
    ];
    let (name, ms) = (*random.pick(&names), random.below(4));
    sleep(name, ms, random.once_in(3))
}

/// A handler that takes so long.
pub(super) fn sleep(name: &'static str, ms: usize, by_position: bool) -> Asked {
    let params = if by_position { format!("[{ms}]") } else { format!(r#"{{"ms":{ms}}}"#) };
    Asked::new(name, Some(params), name, result(&json!(ms)))
}

fn unknown(random: &mut Random) -> Asked {
    let name = match random.below(6) {
        0 => String::new(),
        1 => "é\u{1}\n\"☃".to_owned(),
        2 => "n".repeat(100 + random.below(100)),
        3 => "rpc.nothing".to_owned(),
        4 => "\u{202e}$/forged severity=error\r\n".to_owned(),
        _ => format!("nonsense.{}", random.below(1000)),
    };
    Asked::new(&name, None, "unknown methods", not_found(&name))
}

fn wrong_params(random: &mut Random, config: Config) -> Asked {
    let rows = [
        ("test.sleep", "{}", "ms", "missing", false),
        ("test.sleep", r#"{"ms":"secret"}"#, "ms", "string", false),
        ("test.sleep", r#"{"ms":-1}"#, "ms", "number", false),
        ("test.block", "[[]]", "ms", "array", false),
        ("test.big", r#"{"bytes":null}"#, "bytes", "null", false),
        ("test.fail", r#"{"code":1}"#, "message", "missing", false),
        ("test.emit", r#"{"count":true}"#, "count", "boolean", false),
        ("setLogLevel", r#"{"level":"loud"}"#, "level", "loud", true),
        ("setLogLevel", r#"{"level":7}"#, "level", "number", true),
        ("setLogLevel", "{}", "level", "missing", true),
        ("events.subscribe", r#"{"topics":["weather"]}"#, "topics[0]", "weather", true),
        ("events.unsubscribe", r#"{"topics":"log"}"#, "topics", "string", false),
        ("system.callback", r#"{"method":7}"#, "method", "number", false),
    ];
    let (name, params, param, received, is_listed) = *random.pick(&rows);
    let is_there = match name {
        "system.callback" => config.has_callback(),
        _ => !name.starts_with("events.") || config.has_events(),
    };
    let outcome = match is_there {
        true => Outcome::WrongParam { param, received: received.to_owned(), is_listed },
        false => not_found(name),
    };
    Asked::new(name, Some(params.to_owned()), "wrong parameters", outcome)
}

fn failing(random: &mut Random) -> Asked {
    let code = *random.pick(&[-32001_i64, -32099, 7, 0, 40_000, -1]);
    let message = *random.pick(&["", "no", "é \"quoted\"\n", "Parse error"]);
    let data = *random.pick(&[None, Some("{\"why\":[1,null]}"), Some("\"text\""), Some("0")]);
    let rest = data.map_or(String::new(), |data| format!(r#","data":{data}"#));
    let params = format!(r#"{{"code":{code},"message":{}{rest}}}"#, quoted(message));
    let data = data.and_then(|data| serde_json::from_str(data).ok());
    let outcome = Outcome::Error { code, message: message.to_owned(), data };
    let mut asked = Asked::new("test.fail", Some(params), "test.fail", outcome);
    asked.is_plain = false;
    asked
}

fn big(random: &mut Random) -> Asked {
    let most = *random.pick(&[10, 1000, 20_000, 20_000, 300_000]);
    big_of(random.below(most))
}

/// A string of so many bytes.
pub(super) fn big_of(bytes: usize) -> Asked {
    let params = Some(format!(r#"{{"bytes":{bytes}}}"#));
    Asked::new("test.big", params, "test.big", Outcome::Xs(bytes))
}

/// So many notifications, and then the answer.
pub(super) fn emit(count: usize) -> Asked {
    let params = Some(format!("[{count}]"));
    let mut asked = Asked::new("test.emit", params, "test.emit", result(&json!(count)));
    (asked.effect, asked.is_plain) = (Effect::Emitted(count as u64), false);
    asked
}

/// Sets the level of the log.
pub(super) fn log_level(random: &mut Random, level: &str) -> Asked {
    let written = if random.once_in(3) { level.to_uppercase() } else { level.to_owned() };
    let params = match random.once_in(2) {
        true => format!("[\"{written}\"]"),
        false => format!(r#"{{"level":"{written}"}}"#),
    };
    let outcome = Outcome::Result(format!(r#"{{"level":"{level}","success":true}}"#));
    let mut asked = Asked::new("setLogLevel", Some(params), "setLogLevel", outcome);
    asked.is_plain = false;
    asked
}

/// Changes what is subscribed to. `now` are the topics after it, as bits.
pub(super) fn subscription(verb: &str, topics: u8, now: u8) -> Asked {
    let names = |bits: u8| {
        let names: Vec<_> = [(1, "log"), (2, "stats")]
            .iter()
            .filter(|(bit, _)| bits & bit != 0)
            .map(|(_, name)| *name)
            .collect();
        json!(names).to_string()
    };
    let outcome = Outcome::Result(format!(r#"{{"topics":{}}}"#, names(now)));
    let params = Some(format!(r#"{{"topics":{}}}"#, names(topics)));
    let mut asked = Asked::new(&format!("events.{verb}"), params, "subscriptions", outcome);
    (asked.effect, asked.is_plain) = (Effect::Subscribed(now), false);
    asked
}

/// A notification: the method in quotes, the params, and the method of the error in the log that it makes.
pub(super) type Told = (String, Option<String>, Option<&'static str>);

/// Any notification. None is answered.
pub(super) fn notification(random: &mut Random) -> Told {
    let (name, params, error_of) = *random.pick(&[
        ("system.echo", Some("[1]"), None),
        ("version", None, None),
        ("initialized", Some("{}"), None),
        ("test.sleep", Some("[1]"), None),
        ("test.block", Some("[1]"), None),
        ("test.big", Some("[50000]"), None),
        ("test.sleep", Some("{}"), Some("test.sleep")),
        ("test.panic", None, Some("test.panic")),
        ("test.fail", Some(r#"[7,"no"]"#), Some("test.fail")),
        ("$/cancelRequest", Some(r#"{"id":"of nobody"}"#), None),
        ("$/cancelRequest", Some("[7]"), None),
        ("$/progress", Some(r#"{"token":1}"#), None),
    ]);
    (quoted(name), params.map(str::to_owned), error_of)
}
