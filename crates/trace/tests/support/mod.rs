//! Traces written by hand, for tests: one line for each record.

use duet_rpc_trace::{Body, Dir, Kind, Record, Wire};

/// Makes the records of a script. Each line is a time in milliseconds, a direction, and JSON or a
/// kind with its values:
///
/// ```text
/// 0 > {"jsonrpc":"2.0","id":1,"method":"initialize"}
/// 3 < {"jsonrpc":"2.0","id":1,"result":{}}
/// 4 ! a line on stderr
/// 5 < noise hello
/// 6 > eof
/// 7 . exit code=0
/// ```
pub(crate) fn records(script: &str) -> Vec<Record<'static>> {
    let lines = script.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.enumerate().map(|(number, line)| record(number as u64 + 1, line)).collect()
}

fn record(seq: u64, line: &str) -> Record<'static> {
    let mut parts = line.splitn(3, ' ');
    let mut part = || parts.next().unwrap_or_else(|| panic!("too short: {line}"));
    let (at, dir, rest) = (part(), part(), part().to_owned());
    let at = at.parse::<u64>().expect("a time") * 1_000;
    let dir = match dir {
        ">" => Dir::C2s,
        "<" => Dir::S2c,
        "!" => Dir::Err,
        _ => Dir::Tap,
    };
    if dir == Dir::Err {
        let mut record = Record::new(seq, at, dir, Kind::Stderr);
        (record.wire, record.size) = (Some(Wire::Line), Some(rest.len() as u64));
        record.body = Some(Body::Text(rest.into()));
        return record;
    }
    if rest.starts_with(['{', '[']) {
        return message(seq, at, dir, rest);
    }
    let (kind, value) = rest.split_once(' ').unwrap_or((&rest, ""));
    let kinds = [Kind::Noise, Kind::Broken, Kind::Invalid, Kind::Loss, Kind::Eof, Kind::Signal];
    let mut all = kinds.into_iter().chain([Kind::Exit, Kind::End]);
    let kind = all.find(|it| it.name() == kind).unwrap_or_else(|| panic!("a kind: {line}"));
    let mut record = Record::new(seq, at, dir, kind);
    let number = |name: &str| {
        let mut words = value.split(' ').filter_map(|word| word.split_once('='));
        words
            .find(|(key, _)| *key == name)
            .map(|(_, number)| number.parse::<i32>().expect("a number"))
    };
    (record.code, record.signal) = (number("code"), number("signal"));
    record.left = number("left").map(|left| left as u64);
    if matches!(kind, Kind::Noise | Kind::Broken | Kind::Invalid) {
        record.size = Some(value.len() as u64);
        record.body = Some(Body::Text(value.to_owned().into()));
    }
    record
}

fn message(seq: u64, at: u64, dir: Dir, json: String) -> Record<'static> {
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let kind = match &value {
        serde_json::Value::Array(_) => Kind::Batch,
        it if it.get("method").is_some() && it.get("id").is_some() => Kind::Request,
        it if it.get("method").is_some() => Kind::Notification,
        it if it.get("error").is_some() => Kind::Error,
        _ => Kind::Response,
    };
    let mut record = Record::new(seq, at, dir, kind);
    record.id = value.get("id").map(|id| id.to_string().into());
    record.method = value.get("method").and_then(|it| it.as_str()).map(|it| it.to_owned().into());
    (record.wire, record.size) = (Some(Wire::Lsp), Some(json.len() as u64));
    record.body = Some(Body::from_json(json));
    record
}
