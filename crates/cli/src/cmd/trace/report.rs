//! The reports of `trace check`: text, JSON, JUnit and SARIF.

use std::fmt::Write as _;

use duet_rpc_trace::{Finding, Rule, shown_time};
use serde_json::json;

use super::check::Findings;
use super::timeline::clean;
use crate::cmd::ci_report;

pub(super) fn text(found: &Findings, file: &str, in_color: bool) -> String {
    let (red, bold, plain) =
        if in_color { ("\x1b[31m", "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
    let mut out = String::new();
    for Finding { rule, seq, at, line, text, .. } in &found.shown {
        let (name, at, text) = (rule.name(), shown_time(*at), clean(text));
        // Writing to a string does not fail.
        let _ = writeln!(out, "{file}:{line}: {red}{name}{plain}: {text} (record {seq}, {at})");
    }
    let explained = found.explained.iter().map(|it| ("made by the tap, ", it));
    for (cause, it) in found.pending.iter().map(|it| ("", it)).chain(explained) {
        let Finding { seq, at, line, text, .. } = it;
        let (at, text) = (shown_time(*at), clean(text));
        let _ = writeln!(out, "{file}:{line}: note: {text} ({cause}record {seq}, {at})");
    }
    let mut rules: Vec<_> = found.shown.iter().map(|finding| finding.rule).collect();
    rules.sort();
    rules.dedup();
    for rule in &rules {
        // A command in an advice can be copied.
        let advice = rule.advice().replace(" FILE", &format!(" {}", shell_word(file)));
        let _ = writeln!(out, "  {bold}{}{plain}: {advice}", rule.name());
    }
    if found.made > 0 {
        let (made, what) = (found.made, if found.made == 1 { "fault" } else { "faults" });
        let _ = writeln!(out, "  the tap made {made} {what} on purpose: see `--where kind:fault`");
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
    let as_json = |it: &Finding| {
        json!({
            "rule": it.rule.name(), "seq": it.seq, "at": it.at, "line": it.line, "text": it.text,
        })
    };
    let findings: Vec<_> = found.shown.iter().map(as_json).collect();
    let pending: Vec<_> = found.pending.iter().map(as_json).collect();
    let mut report =
        json!({"file": file, "count": found.count, "findings": findings, "pending": pending});
    if found.made > 0 {
        report["made"] = found.made.into();
        report["explained"] = found.explained.iter().map(as_json).collect();
    }
    format!("{report}\n")
}

/// A word of a shell command.
fn shell_word(text: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_./:@%+=,".contains(it);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// A suite for each trace, with one test for each rule. A rule with findings is a failure.
pub(super) fn junit(traces: &[(String, Findings)], rules: &[Rule]) -> String {
    let text = |it: &Finding| format!("line {}, record {}: {}", it.line, it.seq, it.text);
    let tests = |found: &Findings| {
        let of = |rule: Rule| found.shown.iter().filter(move |finding| finding.rule == rule);
        let case = |rule: &Rule| (rule.name().to_owned(), of(*rule).map(text).collect());
        rules.iter().map(case).collect()
    };
    ci_report::junit(traces.iter().map(|(file, found)| (&**file, tests(found))).collect())
}

pub(super) fn sarif(traces: &[(String, Findings)]) -> String {
    let rules = Rule::ALL.map(|rule| {
        json!({
            "id": rule.name(),
            "shortDescription": {"text": rule.summary()},
            "help": {"text": rule.advice()},
        })
    });
    let all = traces.iter().flat_map(|(file, found)| {
        let faults = found.shown.iter().map(move |it| (file, "error", it));
        let notes = found.pending.iter().chain(&found.explained);
        faults.chain(notes.map(move |it| (file, "note", it)))
    });
    let results = all.map(|(file, level, it)| {
        json!({
            "ruleId": it.rule.name(),
            "ruleIndex": Rule::ALL.iter().position(|rule| *rule == it.rule),
            "level": level,
            "message": {"text": it.text},
            "locations": [{"physicalLocation": {
                "artifactLocation": {"uri": ci_report::uri(file)},
                "region": {"startLine": it.line.max(1)},
            }}],
        })
    });
    ci_report::sarif(rules.to_vec(), results.collect())
}
