//! What was found, as a table for people that is Markdown too.

use std::fmt::Write;
use std::time::Duration;

/// What is checked, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Check {
    Version,
    Answers,
    Methods,
    Survives,
    Stdout,
    Ends,
    Logs,
    ExitCodes,
}

impl Check {
    pub(super) fn name(self) -> &'static str {
        match self {
            Check::Version => "version",
            Check::Answers => "answers",
            Check::Methods => "methods",
            Check::Survives => "survives",
            Check::Stdout => "stdout",
            Check::Ends => "ends",
            Check::Logs => "logs",
            Check::ExitCodes => "exit codes",
        }
    }
}

/// One check of one combination.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) check: Check,
    pub(super) profile: &'static str,
    pub(super) framing: &'static str,
    /// What exactly was checked.
    pub(super) step: &'static str,
    pub(super) verdict: Verdict,
}

#[derive(Debug)]
pub(super) enum Verdict {
    Passed(Note),
    Failed(Finding),
    /// Something else failed first that this one needs.
    NotMade,
}

impl From<Result<Note, Finding>> for Verdict {
    fn from(result: Result<Note, Finding>) -> Verdict {
        result.map_or_else(Verdict::Failed, Verdict::Passed)
    }
}

/// What there is to say about a check that passed.
#[derive(Debug)]
pub(super) enum Note {
    Nothing,
    Took(Duration),
    Words(String),
}

/// What is wrong.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) why: String,
    pub(super) sent: String,
    pub(super) expected: String,
    pub(super) saw: String,
    /// It makes no sense to go on with this process.
    pub(super) is_last: bool,
}

impl Finding {
    pub(super) fn new(why: impl Into<String>) -> Finding {
        Finding { why: why.into(), ..Finding::default() }
    }

    pub(super) fn sent(self, what: &str) -> Finding {
        Finding { sent: shown(what), ..self }
    }

    pub(super) fn expected(self, what: &str) -> Finding {
        Finding { expected: shown(what), ..self }
    }

    pub(super) fn saw(self, what: &str) -> Finding {
        let what = if what.is_empty() { "nothing" } else { what };
        Finding { saw: shown(what), ..self }
    }

    fn detail(&self) -> String {
        let parts = [("sent", &self.sent), ("expected", &self.expected), ("saw", &self.saw)];
        let told = parts.iter().filter(|(_, what)| !what.is_empty());
        told.map(|(word, what)| format!("{word} {what}")).collect::<Vec<_>>().join("; ")
    }
}

/// Somebody else's text, fit for a table that is pasted into a bug report: it is short, cannot play
/// with a terminal, and names no place on this machine.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 80;
    let mut clean = String::new();
    let mut before = ' ';
    let mut in_path = false;
    for c in text.trim_end().chars() {
        if in_path && !(c.is_whitespace() || "\"'`,;)".contains(c)) {
            continue;
        }
        in_path = c == '/' && (before.is_whitespace() || "\"'`=(:".contains(before));
        before = c;
        match c {
            _ if in_path => clean.push_str("PATH"),
            // What turns the direction of text, or cannot be seen.
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => {
                clean.extend(c.escape_unicode());
            }
            '\0' => clean.push_str("\\0"),
            _ if c.is_control() => clean.extend(c.escape_default()),
            _ => clean.push(c),
        }
    }
    if clean.chars().count() > MOST {
        clean = clean.chars().take(MOST - 1).collect();
        clean.push('…');
    }
    clean
}

/// The table and the line below it.
pub(super) fn render(outcomes: &[Outcome], in_color: bool) -> String {
    let rows = rows(outcomes);
    let heads = ["check", "profile", "framing", "result", "detail"].map(String::from);
    let mut widths = [0; 5];
    for cells in rows.iter().map(|row| &row.cells).chain([&heads]) {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = cell.chars().count().max(*width);
        }
    }
    // What went wrong takes the room that it needs; the rows around it stay narrow.
    widths[RESULT] = "not made".len();
    widths[DETAIL] = heads[DETAIL].len();
    let mut text = String::new();
    line(&mut text, &heads, &widths, None);
    line(&mut text, &widths.map(|width| "-".repeat(width)), &widths, None);
    for row in &rows {
        line(&mut text, &row.cells, &widths, row.color.filter(|_| in_color));
    }
    let _ = writeln!(text, "\n{}", summary(outcomes));
    text
}

const NOT_MADE: &str = "something above failed first, or took too long";
const RESULT: usize = 3;
const DETAIL: usize = 4;
const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const PLAIN: &str = "\x1b[0m";

fn line(text: &mut String, cells: &[String; 5], widths: &[usize; 5], color: Option<&str>) {
    for (place, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
        let _ = match color.filter(|_| place == RESULT) {
            Some(color) => write!(text, "| {color}{cell}{PLAIN}{padding} "),
            None => write!(text, "| {cell}{padding} "),
        };
    }
    text.push_str("|\n");
}

struct Row {
    cells: [String; 5],
    color: Option<&'static str>,
}

/// What passed is told together, and so is the same failure in several framings.
fn rows(outcomes: &[Outcome]) -> Vec<Row> {
    let mut groups: Vec<Vec<&Outcome>> = Vec::new();
    for outcome in outcomes {
        match groups.iter_mut().find(|group| are_told_together(group[0], outcome)) {
            Some(group) => group.push(outcome),
            None => groups.push(vec![outcome]),
        }
    }
    let profiles = ["editor", "desktop", "agent"];
    groups.sort_by_key(|group| {
        let profile = profiles.iter().position(|profile| *profile == group[0].profile);
        (group[0].check, profile.unwrap_or(profiles.len()))
    });
    groups.iter().map(|group| row(group)).collect()
}

fn are_told_together(one: &Outcome, other: &Outcome) -> bool {
    let is_alike = match (&one.verdict, &other.verdict) {
        (Verdict::Failed(why), Verdict::Failed(because)) => {
            (one.step, why) == (other.step, because)
        }
        (Verdict::Passed(_), Verdict::Passed(_)) | (Verdict::NotMade, Verdict::NotMade) => true,
        _ => false,
    };
    is_alike && (one.check, one.profile) == (other.check, other.profile)
}

fn row(group: &[&Outcome]) -> Row {
    let first = group[0];
    let (result, detail, color) = match &first.verdict {
        Verdict::Passed(_) => ("ok".to_owned(), what_passed(group), Some(GREEN)),
        Verdict::Failed(finding) => {
            (format!("FAILED: {}: {}", first.step, finding.why), finding.detail(), Some(RED))
        }
        Verdict::NotMade => ("not made".to_owned(), NOT_MADE.to_owned(), None),
    };
    let mut framings: Vec<&str> = Vec::new();
    for outcome in group {
        if !framings.contains(&outcome.framing) {
            framings.push(outcome.framing);
        }
    }
    let framings = if framings.len() == 6 { "all".to_owned() } else { framings.join(", ") };
    let cells = [first.check.name(), first.profile, &framings, &result, &detail];
    // The one character that means something to a table.
    Row { cells: cells.map(|cell| cell.replace('|', "\\|")), color }
}

/// The steps of checks that passed, each with the longest time that it took.
fn what_passed(group: &[&Outcome]) -> String {
    let mut steps: Vec<(&str, Option<Duration>)> = Vec::new();
    let mut words = Vec::new();
    for outcome in group {
        let took = match &outcome.verdict {
            Verdict::Passed(Note::Words(said)) => {
                words.push(said.clone());
                continue;
            }
            Verdict::Passed(Note::Took(took)) => Some(*took),
            _ => None,
        };
        match steps.iter_mut().find(|(step, _)| *step == outcome.step) {
            Some((_, longest)) => *longest = took.max(*longest),
            None => steps.push((outcome.step, took)),
        }
    }
    let steps = steps.into_iter().map(|(step, took)| match took {
        Some(took) => format!("{step} {}", in_words(took)),
        None => step.to_owned(),
    });
    steps.chain(words).collect::<Vec<_>>().join(", ")
}

pub(super) fn in_words(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1000.0;
    match milliseconds {
        ..10.0 => format!("{milliseconds:.1} ms"),
        ..1000.0 => format!("{milliseconds:.0} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

fn summary(outcomes: &[Outcome]) -> String {
    let count = |is_so: fn(&Verdict) -> bool| {
        outcomes.iter().filter(|outcome| is_so(&outcome.verdict)).count()
    };
    let failed = count(|verdict| matches!(verdict, Verdict::Failed(_)));
    let not_made = count(|verdict| matches!(verdict, Verdict::NotMade));
    let all = outcomes.len();
    match (failed, not_made) {
        (0, 0) => format!("all {all} checks passed"),
        (_, 0) => format!("{failed} of {all} checks FAILED"),
        _ => format!("{failed} of {all} checks FAILED, {not_made} could not be made"),
    }
}
