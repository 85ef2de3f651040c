//! Short forms of messages, so that a test is rows of words.
//!
//! | word | message |
//! |---|---|
//! | `name#7`, `name#a` | a request with id 7, or `"a"` |
//! | `name` | a notification |
//! | `7=` | a response to call 7, with a result |
//! | `7!` | a response to call 7, with an error |
//! | `~7` | the cancellation of request 7 |
//! | `%7` | progress with token 7 |
//! | `[a#1 b 7=]` | a batch of these |
//! | `{…}`, `12` | the JSON itself |
//!
//! Sent messages are shown in the same words, with the result after `=`, and the code of an error,
//! its reason and its limit after `!`: `7=ok`, `7!-32600:duplicate-id`, `7!-32000:4`.

use duet_rpc_proto::policy::Dialect;
use serde_json::Value;

/// The JSON of a word.
pub fn text(word: &str, dialect: Dialect) -> String {
    if let Some(entries) = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let entries: Vec<_> = entries.split_whitespace().map(|word| text(word, dialect)).collect();
        return format!("[{}]", entries.join(","));
    }
    let raw_id = |id: &str| {
        let is_raw = id.parse::<f64>().is_ok() || id == "null";
        if is_raw { id.to_owned() } else { format!("{id:?}") }
    };
    let [cancel, id_name, progress, token_name] = names(dialect);
    if let Some(id) = word.strip_prefix('~') {
        let id = raw_id(id);
        return format!(r#"{{"jsonrpc":"2.0","method":"{cancel}","params":{{"{id_name}":{id}}}}}"#);
    }
    if let Some(token) = word.strip_prefix('%') {
        let token = raw_id(token);
        let params = format!(r#"{{"{token_name}":{token}}}"#);
        return format!(r#"{{"jsonrpc":"2.0","method":"{progress}","params":{params}}}"#);
    }
    if let Some(id) = word.strip_suffix('=') {
        return format!(r#"{{"jsonrpc":"2.0","id":{},"result":"ok"}}"#, raw_id(id));
    }
    if let Some(id) = word.strip_suffix('!') {
        let error = r#"{"code":-32001,"message":"no"}"#;
        return format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, raw_id(id));
    }
    match word.split_once('#') {
        _ if !word.starts_with(|first: char| first.is_ascii_alphabetic()) => word.to_owned(),
        Some((method, id)) => {
            format!(r#"{{"jsonrpc":"2.0","id":{},"method":"{method}"}}"#, raw_id(id))
        }
        None => format!(r#"{{"jsonrpc":"2.0","method":"{word}"}}"#),
    }
}

/// The short form of a message.
pub fn short(text: &[u8], dialect: Dialect) -> String {
    show(&serde_json::from_slice(text).expect("a sent message is JSON"), dialect)
}

fn show(message: &Value, dialect: Dialect) -> String {
    if let Some(entries) = message.as_array() {
        let entries: Vec<_> = entries.iter().map(|entry| show(entry, dialect)).collect();
        return format!("[{}]", entries.join(" "));
    }
    assert_eq!(message["jsonrpc"], "2.0", "{message}");
    let id = bare(&message["id"]);
    if let Some(result) = message.get("result") {
        return format!("{id}={}", bare(result).chars().take(10).collect::<String>());
    }
    if let Some(error) = message.get("error") {
        let data = [&error["data"]["reason"], &error["data"]["limit"]];
        let data = data.into_iter().rfind(|member| !member.is_null());
        let data = data.map_or(String::new(), |member| format!(":{}", bare(member)));
        return format!("{id}!{}{data}", error["code"]);
    }
    let [cancel, id_name, ..] = names(dialect);
    let method = bare(&message["method"]);
    match message.get("id") {
        Some(_) => format!("{method}#{id}"),
        None if method == cancel => format!("~{}", bare(&message["params"][id_name])),
        None => method,
    }
}

fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The ids that a message answers. A null id answers no request.
pub fn answered(text: &[u8]) -> Vec<String> {
    let message: Value = serde_json::from_slice(text).expect("a sent message is JSON");
    let entries = match message {
        Value::Array(entries) => entries,
        message => vec![message],
    };
    let is_answer = |entry: &Value| entry.get("method").is_none() && !entry["id"].is_null();
    entries.iter().filter(|entry| is_answer(entry)).map(|entry| entry["id"].to_string()).collect()
}

/// True if a notification of this name cancels a request.
pub fn cancels(method: &str) -> bool {
    [Dialect::Dollar, Dialect::Notifications].iter().any(|&dialect| method == names(dialect)[0])
}

fn names(dialect: Dialect) -> [&'static str; 4] {
    match dialect {
        Dialect::Dollar | Dialect::None => ["$/cancelRequest", "id", "$/progress", "token"],
        Dialect::Notifications => {
            ["notifications/cancelled", "requestId", "notifications/progress", "progressToken"]
        }
        other => panic!("no words for {other:?}"),
    }
}
