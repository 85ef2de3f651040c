//! `doctor`: checks this installation.
//!
//! It starts the daemon as a client does, and believes nothing but what it sees: answers, times, exit
//! codes, bytes. What is expected comes from the contract, and not from the code that is checked.
//!
//! ```text
//! mod        the plan
//! probes     questions and answers, as data
//! checks     a conversation, and an end of each kind
//! apart      the version, exit codes
//! logs       where the log goes
//! child      a daemon as a process
//! process    any process, under limits
//! interrupt  nothing is left behind
//! report     the table
//! ```

mod apart;
mod checks;
mod child;
mod interrupt;
mod logs;
mod probes;
mod process;
mod report;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use duet_rpc::proto::frame::{Framing, FramingChoice};

use crate::args::{DoctorArgs, Global, ProfileName};
use crate::console;
use crate::exit::Exit;
use child::{Combination, Subject};
use logs::{LOG_CHECKS, LogCheck, Scratch};
use report::{Check, Finding, Note, Outcome, Verdict, shown};

/// Makes all checks, and prints what was found.
pub(crate) fn run(args: &DoctorArgs, global: &Global) -> Exit {
    // The checks take seconds, and their report is all that there is of them.
    if let Err(error) = console::stdout() {
        return console::cannot_write(&error);
    }
    let program = match &args.program {
        // Not to be looked for anywhere else.
        Some(file) => std::path::absolute(file),
        None => std::env::current_exe(),
    };
    let ready = program.and_then(|program| interrupt::watch().map(|()| program));
    let mut subject = match ready {
        Ok(program) => Subject { program, version: None },
        Err(error) => {
            console::say(format_args!("the checks cannot begin: {error}"));
            return Exit::Failed;
        }
    };
    let outcomes = check(&mut subject);
    if interrupt::is_over() {
        console::say(format_args!("the checks were interrupted"));
        return Exit::Failed;
    }
    let in_color = console::may_color(&io::stdout(), global.no_color);
    let report = header(&subject, args) + &report::render(&outcomes, in_color);
    let is_well = outcomes.iter().all(|it| matches!(it.verdict, Verdict::Passed(_)));
    match console::print(&report) {
        Exit::Success if !is_well => Exit::Failed,
        printed => printed,
    }
}

const PROFILES: [ProfileName; 3] = [ProfileName::Editor, ProfileName::Desktop, ProfileName::Agent];

/// How many daemons run at a time. It is as many as there are profiles, so that a program which
/// answers in none of them costs the patience for one.
const AT_A_TIME: usize = PROFILES.len();

/// How long new combinations are begun. A daemon that is well is done long before; one that hangs in
/// each of them has shown what is wrong.
const BUDGET: Duration = Duration::from_secs(30);

fn check(subject: &mut Subject) -> Vec<Outcome> {
    let begun = Instant::now();
    let version = apart::version(subject);
    subject.version = version.as_ref().ok().cloned();
    let told = version.map(|version| Note::Words(format!("--version tells {version}")));
    let mut outcomes = vec![alone(Check::Version, "--version", told.into())];

    let subject = &*subject;
    let own = PROFILES.map(Combination::own);
    outcomes.extend(side_by_side(&own, |it| checks::check(subject, it)));
    let is_daemon = checks::has_answered(&outcomes);
    let others: Vec<_> = combinations().filter(|it| !own.contains(it)).collect();
    outcomes.extend(side_by_side(&others, |it| match is_daemon && begun.elapsed() < BUDGET {
        true => checks::check(subject, it),
        false => checks::leave_out(it),
    }));

    let scratch = Scratch::new();
    outcomes.extend(side_by_side(&own, |it| check_logs(subject, it, is_daemon, &scratch)));
    let own_log = logs::own_log().map(Note::Words);
    outcomes.push(alone(Check::Logs, "the user's log", own_log.into()));
    for (step, check) in apart::EXIT_CODES {
        let verdict = match is_daemon {
            true => check(subject).map(|()| Note::Nothing).into(),
            false => Verdict::NotMade,
        };
        outcomes.push(alone(Check::ExitCodes, step, verdict));
    }
    outcomes
}

/// Each profile in each framing, and with each framing to be found out.
fn combinations() -> impl Iterator<Item = Combination> {
    PROFILES.into_iter().flat_map(|profile| {
        let told =
            Framing::ALL.map(|spoken| Combination { profile, choice: spoken.into(), spoken });
        let found_out =
            Framing::ALL.map(|spoken| Combination { profile, choice: FramingChoice::Auto, spoken });
        told.into_iter().chain(found_out)
    })
}

/// Checks combinations, a few at a time.
fn side_by_side(
    combinations: &[Combination],
    check: impl Fn(Combination) -> Vec<Outcome> + Sync,
) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    let work = || {
        while let Some(it) = combinations.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcomes = check(*it);
            found.lock().unwrap_or_else(PoisonError::into_inner).push((it, outcomes));
        }
    };
    thread::scope(|scope| {
        for _ in 1..AT_A_TIME {
            // If there is no thread to be had, it only takes longer.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(it, _)| combinations.iter().position(|other| *it == other));
    found.into_iter().flat_map(|(_, outcomes)| outcomes).collect()
}

fn check_logs(
    subject: &Subject,
    it: Combination,
    is_daemon: bool,
    scratch: &io::Result<Scratch>,
) -> Vec<Outcome> {
    let (profile, framing) = (it.profile.name(), it.framing());
    let check = |(step, check): &(&'static str, LogCheck)| {
        let verdict = match scratch {
            _ if !is_daemon => Verdict::NotMade,
            Ok(scratch) => {
                let place = scratch.place(&format!("{profile} {step}"));
                check(subject, it, &place).map(|()| Note::Nothing).into()
            }
            Err(error) => {
                Verdict::Failed(Finding::new(format!("no temporary folder can be made: {error}")))
            }
        };
        Outcome { check: Check::Logs, profile, framing, step, verdict }
    };
    LOG_CHECKS.iter().map(check).collect()
}

/// A check that is made once.
fn alone(check: Check, step: &'static str, verdict: Verdict) -> Outcome {
    Outcome { check, profile: "-", framing: "-", step, verdict }
}

/// What a bug report needs to know of the machine, and nothing of who sits at it.
fn header(subject: &Subject, args: &DoctorArgs) -> String {
    let program = match args.program.as_deref().and_then(Path::file_name) {
        Some(name) => shown(&name.to_string_lossy()),
        None => "this one".to_owned(),
    };
    let version = subject.version.as_deref().unwrap_or("unknown");
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease");
    let kernel = kernel.map_or(String::new(), |release| format!(", kernel {}", shown(&release)));
    let yes = |is_so| if is_so { "yes" } else { "no" };
    let terminals = [
        ("stdin", io::stdin().is_terminal()),
        ("stdout", io::stdout().is_terminal()),
        ("stderr", io::stderr().is_terminal()),
    ];
    let terminals = terminals.map(|(name, is_so)| format!("{name} {}", yes(is_so))).join(", ");
    format!(
        "duet-rpc doctor {own}\n\n\
         - program: {program}, version {version}\n\
         - system: {os} {architecture}{kernel}\n\
         - terminals: {terminals}\n\n",
        own = env!("CARGO_PKG_VERSION"),
        os = std::env::consts::OS,
        architecture = std::env::consts::ARCH,
    )
}
