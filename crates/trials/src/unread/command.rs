//! The command `unread`: its options, and the table that it prints.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use super::{Case, Measured, Over, PROFILES, WAYS, play};

const USAGE: &str = "\
Measure the memory of a server whose clients ask for large answers and never read them.

Usage: unread [--seconds N] [--profile NAME] [--over NAME] [--connections N] [--answer BYTES]

  --seconds N     How long each case takes. Default: 6
  --profile NAME  Only this profile: editor, desktop or agent
  --over NAME     Only this transport: stdio, tcp, unix, ws or http
  --connections N Only with so many connections
  --answer BYTES  Only with answers of this size

It prints one row for each case, and ends with 1 if the memory of one goes beyond the bound that
docs/limits.md states, or if the ping of another connection took longer than 100 ms. The first ping is
that of a connection that was opened when all others had asked.";

const SIZES: [usize; 4] = [1000, 1_000_000, 10_000_000, 100_000_000];
const CONNECTIONS: [usize; 2] = [1, 200];
const LONGEST_PING: Duration = Duration::from_millis(100);

/// Runs the command.
pub fn main(args: impl Iterator<Item = String>) -> ExitCode {
    let options = match Options::read(args) {
        Ok(Some(options)) => options,
        Ok(None) => {
            say(USAGE);
            return ExitCode::SUCCESS;
        }
        Err(reason) => {
            eprintln!("unread: {reason}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    say(
        "| profile | transport | connections | answer | peak | bound | slowest ping | first ping |",
    );
    say("|---|---|---:|---:|---:|---:|---:|---:|");
    let mut failures = 0;
    for case in options.cases() {
        match play(&case, options.time) {
            Ok(measured) => {
                say(&row(&case, &measured));
                let is_slow = measured.worst_ping.is_some_and(|ping| ping > LONGEST_PING);
                failures += u32::from(is_slow || measured.peak > case.bound());
            }
            Err(error) => {
                eprintln!("unread: {case}: {error}");
                failures += 1;
            }
        }
    }
    if failures > 0 {
        eprintln!("unread: {failures} cases went beyond their bounds");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

#[derive(Default)]
struct Options {
    time: Duration,
    profile: Option<String>,
    over: Option<Over>,
    connections: Option<usize>,
    answer: Option<usize>,
}

impl Options {
    /// The options; `None` for help.
    fn read(mut args: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = Options { time: Duration::from_secs(6), ..Options::default() };
        while let Some(name) = args.next() {
            if name == "--help" || name == "-h" {
                return Ok(None);
            }
            let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
            match &*name {
                "--seconds" => options.time = Duration::from_secs(number(&value)? as u64),
                "--connections" => options.connections = Some(number(&value)?),
                "--answer" => options.answer = Some(number(&value)?),
                "--profile" if PROFILES.contains(&&*value) => options.profile = Some(value),
                "--over" => {
                    let is_it = |over: &&Over| over.to_string() == value;
                    let over = WAYS.iter().find(is_it).copied();
                    options.over = Some(over.ok_or_else(|| format!("unknown transport: {value}"))?);
                }
                _ => return Err(format!("unknown option or value: {name} {value}")),
            }
        }
        Ok(Some(options))
    }

    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for over in WAYS.into_iter().filter(|&over| self.over.is_none_or(|only| only == over)) {
            let is_asked_for =
                |profile: &&str| self.profile.as_ref().is_none_or(|it| it == profile);
            for profile in PROFILES.into_iter().filter(is_asked_for) {
                for connections in self.connections.map_or(CONNECTIONS.to_vec(), |it| vec![it]) {
                    // There is one connection on stdio.
                    if over == Over::Stdio && connections > 1 {
                        continue;
                    }
                    let sizes = self.answer.map_or(SIZES.to_vec(), |it| vec![it]);
                    let case = |answer| Case { profile, over, connections, answer };
                    cases.extend(sizes.into_iter().map(case));
                }
            }
        }
        cases
    }
}

fn number(value: &str) -> Result<usize, String> {
    value.parse().map_err(|_| format!("{value} is not a number"))
}

fn row(case: &Case, measured: &Measured) -> String {
    let mib = |bytes: u64| bytes.div_ceil(1024 * 1024);
    let mut row = String::new();
    let _ = write!(row, "| {} | {} | {} |", case.profile, case.over, case.connections);
    let answer = match case.answer {
        small @ 0..1_000_000 => format!("{} KB", small / 1000),
        large => format!("{} MB", large / 1_000_000),
    };
    let (peak, bound) = (mib(measured.peak), mib(case.bound()));
    let _ = write!(row, " {answer} | {peak} MiB | {bound} MiB |");
    for ping in [measured.worst_ping, measured.first_ping] {
        match ping {
            Some(ping) => _ = write!(row, " {} ms |", ping.as_millis()),
            None => row.push_str(" |"),
        }
    }
    row
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
