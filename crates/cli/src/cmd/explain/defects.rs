//! Defects of a message: which member is wrong, and the expected value.
//!
//! | member | expected |
//! |---|---|
//! | `jsonrpc` | `"2.0"` |
//! | `id` | a string, a number or null; in a response it must be there |
//! | `method` | a string, unless there is `result` or `error` |
//! | `params` | an array, an object or null |
//! | `result`, `error` | one of them; an error is an object |
//!
//! `Incoming::classify` decides whether a message is valid. This file only names the reasons, and no content.

use duet_rpc::proto::Limits;
use duet_rpc::proto::text::{Kind, Member, Text};

const MEMBERS: [(Member, &str); 6] = [
    (Member::Jsonrpc, "jsonrpc"),
    (Member::Id, "id"),
    (Member::Method, "method"),
    (Member::Params, "params"),
    (Member::Result, "result"),
    (Member::Error, "error"),
];

/// The defects of a message, each as a sentence without an end.
pub(in crate::cmd) fn defects(text: &Text<'_>, limits: &Limits) -> Vec<String> {
    match text.kind() {
        Kind::Object => of_object(text),
        Kind::Array => of_batch(text, limits),
        Kind::Scalar => {
            let kind = kind_of(text.as_str().trim_start());
            vec![format!("it is {kind}, expected an object or a batch of objects")]
        }
    }
}

fn of_batch(text: &Text<'_>, limits: &Limits) -> Vec<String> {
    let most = limits.batch_entries;
    match text.elements().take(most.saturating_add(1)).count() {
        0 => vec!["the batch is empty, expected at least one message".to_owned()],
        count if count > most => vec![format!("the batch has more than {most} messages")],
        _ => Vec::new(),
    }
}

fn of_object(text: &Text<'_>) -> Vec<String> {
    let twice = MEMBERS.iter().filter(|(member, _)| text.given_twice(*member));
    let mut found: Vec<_> = twice.map(|(_, name)| format!("`{name}` is there twice")).collect();
    let mut find = |member, name: &str, expected: &str, is_right: &dyn Fn(&str) -> bool| match text
        .member(member)
    {
        None if is_right("") => {}
        None => found.push(format!("`{name}` is missing, expected {expected}")),
        Some(raw) if is_right(raw) => {}
        Some(raw) => {
            let is = if name == "jsonrpc" { version(raw) } else { kind_of(raw).to_owned() };
            found.push(format!("`{name}` is {is}, expected {expected}"));
        }
    };
    find(Member::Jsonrpc, "jsonrpc", "\"2.0\"", &|_| {
        text.string_member(Member::Jsonrpc).is_some_and(|version| version == "2.0")
    });
    let (result, error) = (text.member(Member::Result), text.member(Member::Error));
    let is_response =
        text.member(Member::Method).is_none() && (result.is_some() || error.is_some());
    find(Member::Id, "id", "a string, a number or null", &|raw| match raw.as_bytes().first() {
        None => !is_response,
        Some(first) => !b"{[tf".contains(first),
    });
    if is_response {
        match result.and(error) {
            Some(_) => {
                found.push("`result` and `error` are both there, expected one of them".to_owned());
            }
            None => {
                let is_right = |raw: &str| raw.is_empty() || raw.starts_with('{');
                find(Member::Error, "error", "an object", &is_right);
            }
        }
    } else {
        find(Member::Method, "method", "a string", &|raw| raw.starts_with('"'));
        find(Member::Params, "params", "an array or an object", &|raw| {
            raw.as_bytes().first().is_none_or(|first| b"[{n".contains(first))
        });
    }
    found
}

/// The value of `jsonrpc`, if it looks like a version. It is the only content that is shown.
fn version(raw: &str) -> String {
    let is_short = raw.len() <= 8 && raw.chars().all(|c| c.is_ascii_digit() || "\".".contains(c));
    if is_short { raw.to_owned() } else { kind_of(raw).to_owned() }
}

fn kind_of(raw: &str) -> &'static str {
    match raw.as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duet_rpc::proto::message::Incoming;
    use duet_rpc::proto::policy::BatchRule;

    #[test]
    fn c9_each_defect_names_the_member_and_the_expected_value() {
        let version = "`jsonrpc` is missing, expected \"2.0\"";
        #[rustfmt::skip]
        let rows: [(&str, &[&str]); 20] = [
            ("7", &["it is a number, expected an object or a batch of objects"]),
            (" \"x\"", &["it is a string, expected an object or a batch of objects"]),
            ("[]", &["the batch is empty, expected at least one message"]),
            ("{}", &[version, "`method` is missing, expected a string"]),
            (r#"{"id":1,"method":"m"}"#, &[version]),
            (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, &["`jsonrpc` is \"1.0\", expected \"2.0\""]),
            (r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#, &["`jsonrpc` is 2.0, expected \"2.0\""]),
            (r#"{"jsonrpc":"CANARY","id":1,"method":"m"}"#, &["`jsonrpc` is a string, expected \"2.0\""]),
            (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, &["`id` is an object, expected a string, a number or null"]),
            (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, &["`id` is a boolean, expected a string, a number or null"]),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, &["`method` is a number, expected a string"]),
            (r#"{"jsonrpc":"2.0","id":1,"method":null}"#, &["`method` is null, expected a string"]),
            (r#"{"jsonrpc":"2.0","id":1}"#, &["`method` is missing, expected a string"]),
            (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":"CANARY"}"#, &["`params` is a string, expected an array or an object"]),
            (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"m"}"#, &["`id` is there twice"]),
            (r#"{"jsonrpc":"2.0","id":1,"method":"m","method":"m"}"#, &["`method` is there twice"]),
            (r#"{"jsonrpc":"2.0","result":1}"#, &["`id` is missing, expected a string, a number or null"]),
            (r#"{"id":1,"result":1}"#, &[version]),
            (r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#, &["`result` and `error` are both there, expected one of them"]),
            (r#"{"jsonrpc":"2.0","id":[],"method":1}"#, &["`id` is an array, expected a string, a number or null", "`method` is a number, expected a string"]),
        ];
        let limits = Limits::default();
        for (json, expect) in rows {
            let text = Text::check(json.as_bytes(), 128).expect("JSON");
            assert_eq!(defects(&text, &limits), expect, "{json}");
            let incoming = Incoming::classify(&text, BatchRule::Allow, &limits);
            let is_invalid =
                matches!(incoming, Incoming::Invalid(_) | Incoming::InvalidResponse(_));
            assert!(is_invalid, "{json}: {incoming:?}");
        }
    }

    #[test]
    fn c9_a_valid_message_has_no_defect() {
        for json in [
            r#"{"jsonrpc":"2.0","method":"m"}"#,
            r#"{"jsonrpc":"\u0032.0","id":null,"method":"m","params":null}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"m","params":[],"x":1,"x":2}"#,
            r#"{"jsonrpc":"2.0","id":"a","result":null}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}"#,
            r#"[7]"#,
        ] {
            let text = Text::check(json.as_bytes(), 128).expect("JSON");
            assert_eq!(defects(&text, &Limits::default()), [""; 0], "{json}");
        }
        let batch = format!("[{}]", vec!["1"; 10_000].join(","));
        let text = Text::check(batch.as_bytes(), 128).expect("JSON");
        let mut limits = Limits::default();
        limits.batch_entries = 9_999;
        assert_eq!(defects(&text, &limits), ["the batch has more than 9999 messages"]);
    }
}
