//! `trace check`: finds faults, for people and for CI.

use std::collections::HashSet;
use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};

use duet_rpc_trace::{CheckOptions, Checker, EXTENSION, Finding, Kind, Protocol, Rule, parts};

use super::input::{Ending, Item, Stop, conclude, flush, for_each, is_stdin, name, output};
use super::report;
use crate::args::{CheckArgs, Global, ProtocolName, ReportFormat};
use crate::console;
use crate::exit::Exit;

/// Findings in a report. Traces with more have a fault that repeats.
const MOST: usize = 5_000;

/// Prints the findings on stdout.
pub(super) fn run(args: &CheckArgs, global: &Global) -> Exit {
    conclude(check(args, global))
}

fn check(args: &CheckArgs, global: &Global) -> Result<Exit, Stop> {
    let files = traces(&args.files)?;
    let is_single = files.len() == 1;
    let (mut checked, mut endings, mut unreadable, mut shown) = (Vec::new(), Vec::new(), 0, 0);
    for file in &files {
        match check_one(file, args, MOST - shown) {
            Ok((found, ending)) => {
                shown = MOST.min(shown + found.shown.len());
                checked.push((name(file), found));
                endings.push((file, ending));
            }
            // The other traces are checked all the same.
            Err(Stop::Input(message)) if !is_single => {
                unreadable += 1;
                console::say(format_args!("{message}"));
            }
            Err(stop) => return Err(stop),
        }
    }
    let in_color = console::may_color(&stdout(), global.no_color);
    let each = |report: &dyn Fn(&Findings, &str) -> String| {
        checked.iter().map(|(file, found)| report(found, file)).collect::<String>()
    };
    let bad = checked.iter().filter(|(_, found)| found.count > 0).count();
    let text = match args.format {
        ReportFormat::Text => {
            let all = each(&|found, file| report::text(found, file, in_color));
            let count = checked.len();
            let s = if count == 1 { "" } else { "s" };
            if is_single { all } else { format!("{all}{count} trace{s}, {bad} with faults\n") }
        }
        ReportFormat::Json => each(&report::json),
        ReportFormat::Junit => report::junit(&checked, &rules(args)),
        ReportFormat::Sarif => report::sarif(&checked),
    };
    let mut output = output()?;
    output.write_all(text.as_bytes()).map_err(Stop::Writing)?;
    flush(&mut output)?;
    endings.iter().for_each(|(file, ending)| ending.warn(file));
    Ok(if bad + unreadable == 0 { Exit::Success } else { Exit::Failed })
}

/// The traces that are named, and those of folders that are named; each once, whichever of its parts are named.
fn traces(named: &[PathBuf]) -> Result<Vec<PathBuf>, Stop> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries = std::fs::read_dir(path).map_err(|error| Stop::reading(path, &error))?;
        let paths = entries.flatten().map(|entry| entry.path());
        let is_trace = |it: &PathBuf| it.extension().is_some_and(|it| it == EXTENSION);
        let mut found: Vec<_> = paths.filter(is_trace).collect();
        if found.is_empty() {
            let name = name(path);
            return Err(Stop::Input(format!("cannot read {name}: no .{EXTENSION} file in it")));
        }
        found.sort();
        files.append(&mut found);
    }
    if files.len() > 1 {
        let mut seen = HashSet::new();
        let first = |file: PathBuf| match is_stdin(&file) {
            true => file,
            false => parts(&file).into_iter().next().unwrap_or(file),
        };
        files = files.into_iter().map(first).filter(|it| seen.insert(it.clone())).collect();
    }
    Ok(files)
}

/// Checks a trace. Keeps at most this number of findings.
fn check_one(file: &Path, args: &CheckArgs, room: usize) -> Result<(Findings, Ending), Stop> {
    let mut options = CheckOptions::default();
    options.slow = args.slow;
    options.allow.clone_from(&args.allow);
    options.protocol = args.protocol.map(|protocol| match protocol {
        ProtocolName::Lsp => Protocol::Lsp,
        ProtocolName::Mcp => Protocol::Mcp,
    });
    let mut checker = Checker::new(options.clone());
    let mut found = Findings { room, ..Findings::default() };
    let mut session = None;
    let mut part = 0;
    let ending = for_each(file, |item| {
        match item {
            Item::Header(header) => {
                // A file with several sessions, one after the other.
                if session.as_ref().is_some_and(|session| *session != header.session) {
                    found.finish(std::mem::replace(&mut checker, Checker::new(options.clone())));
                    part = 0;
                }
                if header.part > part + 1 {
                    checker.handle_gap();
                }
                (session, part) = (Some(header.session.clone()), header.part);
            }
            Item::Record(record, line) => {
                found.made += u64::from(record.kind == Kind::Fault);
                checker.handle(record, line);
                found.extend(checker.take_findings());
            }
        }
        Ok(())
    })?;
    found.finish(checker);
    Ok((found, ending))
}

/// The rules that were checked.
fn rules(args: &CheckArgs) -> Vec<Rule> {
    let is_checked = |rule: &Rule| {
        let is_on = match rule.name().split_once('-') {
            Some(("lsp", _)) => args.protocol == Some(ProtocolName::Lsp),
            Some(("mcp", _)) => args.protocol == Some(ProtocolName::Mcp),
            _ => *rule != Rule::Slow || args.slow.is_some(),
        };
        is_on && !args.allow.contains(rule)
    };
    Rule::ALL.into_iter().filter(is_checked).collect()
}

/// The first findings, and the number of all.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) shown: Vec<Finding>,
    pub(super) count: u64,
    /// Requests that were open when the trace stopped. They are not faults.
    pub(super) pending: Vec<Finding>,
    /// The faults that a tap made on purpose, and the findings that they explain.
    pub(super) made: u64,
    pub(super) explained: Vec<Finding>,
    /// Findings that are kept, of each kind.
    room: usize,
}

impl Findings {
    fn finish(&mut self, checker: Checker) {
        let room = self.room.saturating_sub(self.pending.len());
        self.pending.extend(checker.pending().into_iter().take(room));
        self.extend(checker.finish());
    }

    fn extend(&mut self, found: Vec<Finding>) {
        let (explained, found): (Vec<_>, Vec<_>) = found.into_iter().partition(|it| it.is_made);
        self.count += found.len() as u64;
        let room = |kept: &[Finding]| self.room.saturating_sub(kept.len());
        let (more, explains) = (room(&self.shown), room(&self.explained));
        self.shown.extend(found.into_iter().take(more));
        self.explained.extend(explained.into_iter().take(explains));
    }
}
