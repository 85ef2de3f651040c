//! The reports of `trace check`: text, JSON, JUnit and SARIF.

use std::fmt::Write as _;

use duet_rpc_trace::{Finding, Rule, shown_time};
use serde_json::json;

use super::check::Findings;
use super::timeline::clean;

pub(super) fn text(found: &Findings, file: &str, in_color: bool) -> String {
    let (red, bold, plain) =
        if in_color { ("\x1b[31m", "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
    let mut out = String::new();
    for Finding { rule, seq, at, line, text, .. } in &found.shown {
        let (name, at, text) = (rule.name(), shown_time(*at), clean(text));
        // Writing to a string does not fail.
        let _ = writeln!(out, "{file}:{line}: {red}{name}{plain}: {text} (record {seq}, {at})");
    }
    let mut rules: Vec<_> = found.shown.iter().map(|finding| finding.rule).collect();
    rules.sort();
    rules.dedup();
    for rule in &rules {
        let _ = writeln!(out, "  {bold}{}{plain}: {}", rule.name(), rule.advice());
    }
    let _ = match (found.count, found.shown.len() as u64) {
        (0, _) => writeln!(out, "{file}: no faults"),
        (1, _) => writeln!(out, "{file}: 1 fault"),
        (count, shown) if count == shown => writeln!(out, "{file}: {count} faults"),
        (count, shown) => writeln!(out, "{file}: {count} faults, the first {shown} are shown"),
    };
    out
}

pub(super) fn json(found: &Findings, file: &str) -> String {
    let findings: Vec<_> = found
        .shown
        .iter()
        .map(|it| {
            json!({
                "rule": it.rule.name(), "seq": it.seq, "at": it.at, "line": it.line, "text": it.text,
            })
        })
        .collect();
    let report = json!({"file": file, "count": found.count, "findings": findings});
    format!("{report}\n")
}

/// One test for each rule. A rule with findings is a failure.
pub(super) fn junit(found: &Findings, file: &str, rules: &[Rule]) -> String {
    let of = |rule: Rule| found.shown.iter().filter(move |finding| finding.rule == rule);
    let failures = rules.iter().filter(|rule| of(**rule).next().is_some()).count();
    let tests = rules.len();
    let file_name = xml(file);
    let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"0\"");
    let _ = writeln!(out, "<testsuites {counts}>");
    let _ = writeln!(out, "  <testsuite name=\"{file_name}\" {counts}>");
    for rule in rules {
        let name = rule.name();
        let mut texts =
            of(*rule).map(|it| format!("line {}, record {}: {}", it.line, it.seq, it.text));
        let Some(first) = texts.next() else {
            let _ = writeln!(out, "    <testcase classname=\"{file_name}\" name=\"{name}\"/>");
            continue;
        };
        let all: Vec<_> = std::iter::once(first.clone()).chain(texts).collect();
        let _ = writeln!(out, "    <testcase classname=\"{file_name}\" name=\"{name}\">");
        let (message, all) = (xml(&first), xml(&all.join("\n")));
        let _ = writeln!(out, "      <failure message=\"{message}\">{all}</failure>");
        let _ = writeln!(out, "    </testcase>");
    }
    out + "  </testsuite>\n</testsuites>\n"
}

pub(super) fn sarif(found: &Findings, file: &str) -> String {
    let rules = Rule::ALL.map(|rule| {
        json!({
            "id": rule.name(),
            "shortDescription": {"text": rule.summary()},
            "help": {"text": rule.advice()},
        })
    });
    let results: Vec<_> = found
        .shown
        .iter()
        .map(|it| {
            json!({
                "ruleId": it.rule.name(),
                "ruleIndex": Rule::ALL.iter().position(|rule| *rule == it.rule),
                "level": "error",
                "message": {"text": it.text},
                "locations": [{"physicalLocation": {
                    "artifactLocation": {"uri": uri(file)},
                    "region": {"startLine": it.line.max(1)},
                }}],
            })
        })
        .collect();
    let driver = json!({
        "name": "duet-rpc",
        "version": env!("CARGO_PKG_VERSION"),
        "rules": rules,
    });
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    });
    format!("{log}\n")
}

/// Text for XML 1.0, which has no control characters.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(letter),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ if letter.is_control() => out.push('\u{fffd}'),
            _ => out.push(letter),
        }
    }
    out
}

/// A path as a relative or absolute URI reference.
fn uri(path: &str) -> String {
    let mut out = if path.starts_with('/') { "file://".to_owned() } else { String::new() };
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => out.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => out.push(byte.into()),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}
