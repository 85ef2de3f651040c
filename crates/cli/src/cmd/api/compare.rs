//! `api check` and `api diff`: two versions of an API.

use std::fmt::Write as _;
use std::io::stdout;

use duet_rpc_api::{Change, ChangeRule, Comparison, compare};
use serde_json::{Value, json};

use super::CannotGoOn;
use super::source::{self, ReadDocument};
use crate::args::{ApiCheckArgs, ApiDiffArgs, Global, ReportFormat, ServerArgs};
use crate::cmd::ci_report;
use crate::cmd::trace::timeline::clean;
use crate::console;
use crate::exit::Exit;
use crate::json;

/// Prints the breaking changes (A4).
pub(super) fn check(args: &ApiCheckArgs, global: &Global) -> Result<Exit, CannotGoOn> {
    let (old, new) = read(&args.old, args.new.as_deref(), &args.server, global)?;
    let comparison = compare(&old.document, &new.document);
    let in_color = console::may_color(&stdout(), global.no_color);
    let report = match args.format {
        ReportFormat::Text => text(&comparison, &new.name, in_color),
        ReportFormat::Json => as_json(&comparison, &old.name, &new.name),
        ReportFormat::Junit => junit(&comparison, &new.name),
        ReportFormat::Sarif => sarif(&comparison, &new.name),
    };
    Ok(match (console::print(&report), comparison.breaking().next()) {
        (Exit::Success, Some(_)) => Exit::Failed,
        (exit, _) => exit,
    })
}

/// Prints a changelog (A5).
pub(super) fn diff(args: &ApiDiffArgs, global: &Global) -> Result<Exit, CannotGoOn> {
    let (old, new) = read(&args.old, args.new.as_deref(), &args.server, global)?;
    let comparison = compare(&old.document, &new.document);
    let changelog = comparison.changelog(&old.document, &new.document);
    Ok(console::print(&json::escape_for_terminal(&changelog)))
}

fn read(
    old: &std::path::Path,
    new: Option<&std::path::Path>,
    server: &ServerArgs,
    global: &Global,
) -> Result<(ReadDocument, ReadDocument), CannotGoOn> {
    Ok((source::read_file(old)?, source::read(new, server, global)?))
}

/// Place of a change: the method, then the path in it.
fn place(change: &Change) -> String {
    let side = if change.is_client_method { "client method " } else { "" };
    match change.path.as_str() {
        "" => format!("{side}{}", change.method),
        path => format!("{side}{} {path}", change.method),
    }
}

fn text(comparison: &Comparison, file: &str, in_color: bool) -> String {
    let (red, bold, plain) =
        if in_color { ("\x1b[31m", "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
    let mut out = String::new();
    for change in comparison.breaking() {
        let (place, text) = (clean(&place(change)), clean(&change.text));
        // Writing to a string does not fail.
        let _ = writeln!(out, "{file}: {red}{place}{plain}: {text} ({})", change.rule.name());
    }
    let mut rules: Vec<_> = comparison.breaking().map(|change| change.rule).collect();
    rules.sort();
    rules.dedup();
    for rule in rules {
        let _ = writeln!(out, "  {bold}{}{plain}: {}", rule.name(), rule.advice());
    }
    let breaking = comparison.breaking().count();
    let others = comparison.changes.len() - breaking;
    let others = match others {
        0 => String::new(),
        1 => ", 1 compatible change".to_owned(),
        count => format!(", {count} compatible changes"),
    };
    let _ = match breaking {
        0 => writeln!(out, "{file}: no breaking changes{others}"),
        1 => writeln!(out, "{file}: 1 breaking change{others}"),
        count => writeln!(out, "{file}: {count} breaking changes{others}"),
    };
    if comparison.omitted > 0 {
        let _ = writeln!(out, "{file}: {} more changes are left out", comparison.omitted);
    }
    out
}

fn as_json(comparison: &Comparison, old: &str, new: &str) -> String {
    let change = |it: &Change| {
        json!({
            "rule": it.rule.name(), "method": it.method, "clientMethod": it.is_client_method,
            "path": it.path, "breaking": it.is_breaking, "text": it.text,
        })
    };
    let report = json!({
        "old": old, "new": new,
        "breaking": comparison.breaking().count(),
        "changes": comparison.changes.iter().map(change).collect::<Vec<_>>(),
        "omitted": comparison.omitted,
    });
    format!("{report}\n")
}

/// One test for each rule.
fn junit(comparison: &Comparison, file: &str) -> String {
    let text = |it: &Change| format!("{}: {}", place(it), it.text);
    let case = |rule: ChangeRule| {
        let found = comparison.breaking().filter(|it| it.rule == rule).map(text);
        (rule.name().to_owned(), found.collect())
    };
    ci_report::junit(vec![(file, ChangeRule::ALL.map(case).to_vec())])
}

fn sarif(comparison: &Comparison, file: &str) -> String {
    let rules = ChangeRule::ALL.map(|rule| {
        json!({
            "id": rule.name(),
            "shortDescription": {"text": rule.name().replace('-', " ")},
            "help": {"text": rule.advice()},
        })
    });
    let result = |it: &Change| -> Value {
        json!({
            "ruleId": it.rule.name(),
            "ruleIndex": ChangeRule::ALL.iter().position(|rule| *rule == it.rule),
            "level": "error",
            "message": {"text": format!("{}: {}", place(it), it.text)},
            "locations": [{
                "physicalLocation": {"artifactLocation": {"uri": ci_report::uri(file)}},
                "logicalLocations": [{"fullyQualifiedName": place(it)}],
            }],
        })
    };
    ci_report::sarif(rules.to_vec(), comparison.breaking().map(result).collect())
}
