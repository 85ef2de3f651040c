//! `trace check`: finds faults, for people and for CI.

use std::io::{Write as _, stdout};

use duet_rpc_trace::{CheckOptions, Checker, Finding, Protocol, Rule};

use super::input::{Item, Stop, conclude, flush, for_each, name, output};
use super::report;
use crate::args::{CheckArgs, Global, ProtocolName, ReportFormat};
use crate::console;
use crate::exit::Exit;

/// Findings in a report. A trace with more has a fault that repeats.
const MOST: usize = 5_000;

/// Prints the findings on stdout.
pub(super) fn run(args: &CheckArgs, global: &Global) -> Exit {
    conclude(check(args, global))
}

fn check(args: &CheckArgs, global: &Global) -> Result<Exit, Stop> {
    let mut options = CheckOptions::default();
    options.slow = args.slow;
    options.allow.clone_from(&args.allow);
    options.protocol = args.protocol.map(|protocol| match protocol {
        ProtocolName::Lsp => Protocol::Lsp,
        ProtocolName::Mcp => Protocol::Mcp,
    });
    let mut checker = Checker::new(options.clone());
    let mut found = Findings::default();
    let mut session = None;
    for_each(&args.file, |item| {
        match item {
            Item::Header(header) => {
                // A file with several sessions, one after the other.
                if session.as_ref().is_some_and(|session| *session != header.session) {
                    let ended = std::mem::replace(&mut checker, Checker::new(options.clone()));
                    found.extend(ended.finish());
                }
                session = Some(header.session.clone());
            }
            Item::Record(record, line) => {
                checker.handle(record, line);
                found.extend(checker.take_findings());
            }
        }
        Ok(())
    })?;
    found.extend(checker.finish());
    let file = name(&args.file);
    let in_color = console::may_color(&stdout(), global.no_color);
    let text = match args.format {
        ReportFormat::Text => report::text(&found, &file, in_color),
        ReportFormat::Json => report::json(&found, &file),
        ReportFormat::Junit => report::junit(&found, &file, &rules(args)),
        ReportFormat::Sarif => report::sarif(&found, &file),
    };
    let mut output = output()?;
    output.write_all(text.as_bytes()).map_err(Stop::Writing)?;
    flush(&mut output)?;
    Ok(if found.count == 0 { Exit::Success } else { Exit::Failed })
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
}

impl Findings {
    fn extend(&mut self, found: Vec<Finding>) {
        self.count += found.len() as u64;
        let room = MOST - self.shown.len().min(MOST);
        self.shown.extend(found.into_iter().take(room));
    }
}
