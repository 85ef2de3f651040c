//! Well-formed requests and notifications, each with its answer.

use super::prelude::*;
use super::texts::params;
use crate::harness::message::squeezed;

/// A request: the quoted method, the params, and the answer.
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) params: Option<String>,
    /// Counter for the answer.
    kind: &'static str,
    outcome: Outcome,
    effect: Effect,
    /// Method that an error in the log will name, if the request causes one.
    pub(super) error_of: Option<&'static str>,
    /// True if it may be in a batch, and be cancelled.
    pub(super) is_plain: bool,
}

impl Asked {
    fn new(method: &'static str, params: Option<String>, outcome: Outcome) -> Self {
        let (kind, method, effect) = (method, quoted(method), Effect::None);
        Asked { method, params, kind, outcome, effect, error_of: None, is_plain: true }
    }

    /// Excludes the request from batches and cancellation.
    fn alone(self) -> Self {
        Asked { is_plain: false, ..self }
    }

    pub(super) fn due(&self, id: &str) -> Due {
        Due { effect: self.effect, ..Due::new(self.kind, id, self.outcome.clone()) }
    }
}

/// Any request.
pub(super) fn any(random: &mut Random, config: Config) -> Asked {
    match random.below(100) {
        0..=24 => echo(random, config),
        25..=39 => plain(random, config),
        40..=54 => slow(random),
        55..=62 => unknown(random),
        63..=70 => wrong_params(random, config),
        71..=76 => failing(random),
        77..=79 => {
            let internal = Outcome::error(-32603, "Internal error");
            let asked = Asked::new("test.panic", None, internal).alone();
            Asked { error_of: Some("test.panic"), ..asked }
        }
        80..=89 => {
            let most = *random.pick(&[10, 1000, 20_000, 20_000, 300_000]);
            big(random.below(most))
        }
        _ => quick(config),
    }
}

/// A request that is answered immediately.
pub(super) fn quick(config: Config) -> Asked {
    match config.has_system() {
        true => Asked::new("system.ping", None, Outcome::result(&json!("pong"))),
        false => version(),
    }
}

fn version() -> Asked {
    let version = json!({ "version": env!("CARGO_PKG_VERSION") });
    Asked::new("version", None, Outcome::result(&version))
}

fn not_found(name: &str) -> Outcome {
    let name: String = name.chars().take(128).collect();
    Outcome::error(-32601, &format!("Method not found: {name}"))
}

fn echo(random: &mut Random, config: Config) -> Asked {
    let params = match random.below(10) {
        0 => None,
        1 => Some("null".to_owned()),
        _ => Some(params(random, config.blanks())),
    };
    let outcome = match config.has_system() {
        true => Outcome::Echo(squeezed(params.as_deref().unwrap_or("null"))),
        false => not_found("system.echo"),
    };
    // Inside a batch, this would be one level too deep.
    let is_deepest = params.as_ref().is_some_and(|it| it.starts_with("[[[[["));
    Asked { is_plain: !is_deepest, ..Asked::new("system.echo", params, outcome) }
}

/// Methods without params, which accept any params.
fn plain(random: &mut Random, config: Config) -> Asked {
    let params = [None, Some("null"), Some("{}"), Some("[]"), Some("[1,2]"), Some(r#"{"a":[]}"#)];
    let params = random.pick(&params).map(str::to_owned);
    let page = |name: &'static str| Asked::new(name, None, Outcome::Page(name));
    let asked = match random.below(6) {
        0 => {
            let server = json!({"name": "duet-rpc", "version": env!("CARGO_PKG_VERSION")});
            let info = format!(r#"{{"serverInfo":{server},"protocolVersion":"2.0"}}"#);
            Asked::new("initialize", None, Outcome::Result(info))
        }
        1 => page("listMethods"),
        2 => page("describeMethods"),
        3 if config.has_system() => page("rpc.discover"),
        3 => Asked::new("rpc.discover", None, not_found("rpc.discover")),
        4 => quick(config),
        _ => version(),
    };
    Asked { params, ..asked }
}

/// Handlers that take some time, in different ways.
fn slow(random: &mut Random) -> Asked {
    let names = ["test.block", "test.spin", "test.nap", "test.late", "test.jam"];
    let name = if random.once_in(2) { "test.sleep" } else { *random.pick(&names) };
    sleep(name, random.below(4), random.once_in(3))
}

/// A handler that takes this time.
pub(super) fn sleep(name: &'static str, ms: usize, by_position: bool) -> Asked {
    let params = if by_position { format!("[{ms}]") } else { format!(r#"{{"ms":{ms}}}"#) };
    Asked::new(name, Some(params), Outcome::result(&json!(ms)))
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
    Asked { method: quoted(&name), ..Asked::new("unknown methods", None, not_found(&name)) }
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
        true => Outcome::WrongParam { param, received, is_listed },
        false => not_found(name),
    };
    Asked { kind: "wrong parameters", ..Asked::new(name, Some(params.to_owned()), outcome) }
}

fn failing(random: &mut Random) -> Asked {
    let code = *random.pick(&[-32001_i64, -32099, 7, 0, 40_000, -1]);
    let message = (*random.pick(&["", "no", "é \"quoted\"\n", "Parse error"])).to_owned();
    let data = [None, Some(json!({"why": [1, null]})), Some(json!("text")), Some(json!(0))];
    let data: Option<Value> = random.pick(&data).clone();
    let rest = data.as_ref().map_or(String::new(), |data| format!(r#","data":{data}"#));
    let params = format!(r#"{{"code":{code},"message":{}{rest}}}"#, quoted(&message));
    Asked::new("test.fail", Some(params), Outcome::Error { code, message, data }).alone()
}

/// A request for a string of this many bytes.
pub(super) fn big(bytes: usize) -> Asked {
    Asked::new("test.big", Some(format!(r#"{{"bytes":{bytes}}}"#)), Outcome::Xs(bytes))
}

/// A request for this many notifications before the answer.
pub(super) fn emit(count: usize) -> Asked {
    let effect = Effect::Emitted(count as u64);
    let outcome = Outcome::result(&json!(count));
    Asked { effect, ..Asked::new("test.emit", Some(format!("[{count}]")), outcome).alone() }
}

/// Sets the level of the log.
pub(super) fn log_level(random: &mut Random, level: &str) -> Asked {
    let written = if random.once_in(3) { level.to_uppercase() } else { level.to_owned() };
    let params = match random.once_in(2) {
        true => format!("[\"{written}\"]"),
        false => format!(r#"{{"level":"{written}"}}"#),
    };
    let outcome = Outcome::Result(format!(r#"{{"level":"{level}","success":true}}"#));
    Asked::new("setLogLevel", Some(params), outcome).alone()
}

/// Changes the subscriptions. `now` holds the topics afterwards, as bits.
pub(super) fn subscription(is_more: bool, topics: u8, now: u8) -> Asked {
    let names = |bits: u8| {
        let names = [(1, "log"), (2, "stats")].into_iter().filter(|(bit, _)| bits & bit != 0);
        json!({"topics": names.map(|(_, name)| name).collect::<Vec<_>>()})
    };
    let (params, outcome) = (Some(names(topics).to_string()), Outcome::result(&names(now)));
    let method = quoted(if is_more { "events.subscribe" } else { "events.unsubscribe" });
    let asked = Asked::new("subscriptions", params, outcome).alone();
    Asked { method, effect: Effect::Subscribed(now), ..asked }
}

/// A notification: the quoted method, the params, and the method of the log error that it causes.
pub(super) type Told = (String, Option<&'static str>, Option<&'static str>);

/// Any notification. It is never answered.
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
    (quoted(name), params, error_of)
}
