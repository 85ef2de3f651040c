//! The report of a replay: text, JSON and JUnit.

use std::fmt::Write as _;
use std::io::stdout;

use duet_rpc_trace::{Change, Difference, Side, shown_time};
use serde_json::Value;

use super::ReplayResult;
use crate::args::{Global, ReplayArgs, ReplayFormat};
use crate::cmd::ci_report::xml;
use crate::cmd::trace::diff::{Counts, as_json, shown, write};
use crate::cmd::trace::timeline::clean;
use crate::console;
use crate::exit::Exit;

/// Prints the report, and returns the exit code of the replay.
pub(super) fn print(args: &ReplayArgs, global: &Global, verdict: &ReplayResult) -> Exit {
    let name = args.file.display().to_string();
    let has_times = args.compare.tolerance.is_some();
    let text = match args.format {
        ReplayFormat::Text => {
            text(verdict, has_times, console::may_color(&stdout(), global.no_color))
        }
        ReplayFormat::Json => json(verdict),
        ReplayFormat::Junit => junit(verdict, &name),
    };
    super::print(&text, verdict.exit())
}

pub(super) fn counts(differences: &[Difference]) -> Counts {
    let mut counts = Counts::default();
    differences.iter().for_each(|difference| counts.add(difference));
    counts
}

/// The place of the first difference, and its values.
pub(super) fn first_difference(differences: &[Difference]) -> Option<(String, String)> {
    let found = differences.iter().find(|it| !matches!(it, Difference::Same(_)))?;
    let (side, failure) = failure(found)?;
    let (title, _) = failure?;
    let (kind, values) = title.split_once(": ").unwrap_or((&title, ""));
    let (dir, method, seq) = (side.dir.name(), clean(&side.method), side.seq);
    Some((format!("{kind} {dir} {method} (record {seq})"), clean(values)))
}

fn text(verdict: &ReplayResult, has_times: bool, in_color: bool) -> String {
    let mut out = Vec::new();
    for difference in &verdict.differences {
        // Writing to memory does not fail.
        let _ = write(difference, in_color, &mut out);
    }
    let mut out = String::from_utf8_lossy(&out).into_owned();
    let _ = writeln!(out, "{}", counts(&verdict.differences).summary(has_times));
    out
}

fn json(verdict: &ReplayResult) -> String {
    let mut whole = counts(&verdict.differences).as_json();
    let rows: Vec<Value> = verdict.differences.iter().cloned().filter_map(as_json).collect();
    whole["differences"] = rows.into();
    whole["duration"] = verdict.duration.into();
    whole["exit"] = (verdict.exit() as u8).into();
    whole["problem"] = verdict.trouble.as_ref().map(|it| it.message.clone()).into();
    format!("{whole}\n")
}

/// One test for each pair, and one for the session.
fn junit(verdict: &ReplayResult, file: &str) -> String {
    // A pair that is slower stands in the list twice: as such, and as what it is otherwise.
    let tests = verdict.differences.len() + 1;
    let is_failure = |it: &&Difference| !matches!(it, Difference::Same(_));
    let failures = verdict.differences.iter().filter(is_failure).count();
    let errors = usize::from(verdict.trouble.is_some());
    let file = xml(file);
    let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\"");
    let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    let _ = writeln!(out, "<testsuites {counts}>");
    let _ = writeln!(out, "  <testsuite name=\"{file}\" {counts}>");
    for difference in &verdict.differences {
        let Some((side, failure)) = failure(difference) else { continue };
        let name = format!("{} {} (record {})", side.dir.name(), side.method, side.seq);
        let case = format!("    <testcase classname=\"{file}\" name=\"{}\"", xml(&name));
        let _ = match failure {
            None => writeln!(out, "{case}/>"),
            Some((message, rest)) => writeln!(
                out,
                "{case}>\n      <failure message=\"{}\">{}</failure>\n    </testcase>",
                xml(&message),
                xml(&rest)
            ),
        };
    }
    let case = format!("    <testcase classname=\"{file}\" name=\"session\"");
    let _ = match &verdict.trouble {
        None => writeln!(out, "{case}/>"),
        Some(problem) => {
            let message = xml(&problem.message);
            writeln!(out, "{case}>\n      <error message=\"{message}\"/>\n    </testcase>")
        }
    };
    out + "  </testsuite>\n</testsuites>\n"
}

/// The title and the lines of a failure.
type FailureText = Option<(String, String)>;

fn failure(difference: &Difference) -> Option<(&Side, FailureText)> {
    let line = |change: &Change| {
        format!("{}: {} → {}", change.path, shown(change.old.as_ref()), shown(change.new.as_ref()))
    };
    Some(match difference {
        Difference::Same(side) => (side, None),
        Difference::Changed(side, changes) => {
            let lines: Vec<_> = changes.iter().map(line).collect();
            (side, Some((format!("changed: {}", lines[0]), lines.join("\n"))))
        }
        Difference::Missing(side) => (side, Some(("missing".to_owned(), String::new()))),
        Difference::Extra(side) => (side, Some(("extra".to_owned(), String::new()))),
        Difference::Slower(side, old, new) => {
            let times = format!("{} → {}", shown_time(*old), shown_time(*new));
            (side, Some((format!("slower: {times}"), String::new())))
        }
        _ => return None,
    })
}
