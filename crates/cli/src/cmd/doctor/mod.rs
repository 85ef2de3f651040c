//! `doctor`: checks this installation and prints a report for a bug report.
//!
//! It starts the daemon once in each profile, as a client does, and checks what a client depends on. The
//! project's tests cover every method, framing and way to end. An installation breaks in fewer ways, most of
//! them in the script around the daemon.
//!
//! `doctor -- COMMAND` checks another server instead.
//!
//! ```text
//! mod      the plan, the header
//! checks   the checks: request, expected answer, next step
//! program  the program under test: requests, stdout byte by byte, exit
//! report   the table
//! server   the checks of another server
//! ```

mod checks;
mod program;
mod report;
mod server;

use std::fs;
use std::io::{self, IsTerminal};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};

use tokio::runtime::Builder;
use tokio::task::JoinError;

use crate::args::{DoctorArgs, Global, ProfileName};
use crate::console;
use crate::exit::Exit;
use crate::sys::{self, Interruptions, descriptors};
use report::{Outcome, Verdict, shown};

/// Runs all checks and prints the report.
pub(crate) fn run(args: &DoctorArgs, global: &Global) -> Exit {
    // The report is the only result, so an unusable stdout fails before the checks.
    if let Err(error) = console::stdout() {
        return console::cannot_write(&error);
    }
    if !args.command.is_empty() {
        return server::run(args, global);
    }
    let (version, outcomes) = match check(args) {
        Ok(Some(checked)) => checked,
        Ok(None) => {
            console::say(format_args!("the checks were interrupted"));
            return Exit::Failed;
        }
        Err(error) => {
            console::say(format_args!("cannot start the checks: {error}"));
            return Exit::Failed;
        }
    };
    let in_color = console::may_color(&io::stdout(), global.no_color);
    let is_well = outcomes.iter().all(|it| matches!(it.verdict, Verdict::Passed(_)));
    match console::print(&(header(args, version) + &report::render(&outcomes, in_color))) {
        Exit::Success if !is_well => Exit::Failed,
        printed => printed,
    }
}

/// Version of the program, if it prints one, and the outcomes.
type Checked = (Option<String>, Vec<Outcome>);

/// Runs all checks. Returns `None` if a signal arrived first; every started process is killed then.
fn check(args: &DoctorArgs) -> io::Result<Option<Checked>> {
    let file = match &args.program {
        // A name without a slash is a file in this directory, not a command in PATH.
        Some(file) => std::path::absolute(file)?,
        None => std::env::current_exe()?,
    };
    // The runtime opens six descriptors, and panics if it cannot.
    descriptors::check_free(8)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interruptions = Interruptions::receive()?;
        let _child_exits = sys::processes::keep_exit_status()?;
        Ok(interruptions.or(check_all(file)).await.ok())
    })
}

/// Runs all checks. The profiles run concurrently, so a program that hangs costs the time of one.
async fn check_all(file: PathBuf) -> Checked {
    let alone = |check, verdict| Outcome { check, profile: "-", framing: "-", verdict };
    let printed = checks::version(&file).await;
    let version = printed.as_ref().ok().cloned();
    let mut outcomes = vec![alone("version", printed.into())];
    let profiles = [ProfileName::Editor, ProfileName::Desktop, ProfileName::Agent];
    let start = |it| tokio::spawn(checks::profile(file.clone(), version.clone(), it));
    for task in profiles.map(start) {
        let checked = task.await.map_err(JoinError::into_panic);
        outcomes.extend(checked.unwrap_or_else(|panic| resume_unwind(panic)));
    }
    outcomes.push(alone("log file", checks::log_file()));
    (version, outcomes)
}

/// Facts about the machine for a bug report, without anything about its user.
fn header(args: &DoctorArgs, version: Option<String>) -> String {
    let program = match args.program.as_deref().and_then(Path::file_name) {
        Some(name) => shown(&name.to_string_lossy()),
        None => "this one".to_owned(),
    };
    let version = version.unwrap_or("unknown".to_owned());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease");
    let kernel = kernel.map_or(String::new(), |release| format!(", kernel {}", shown(&release)));
    let terminals = [
        ("stdin", io::stdin().is_terminal()),
        ("stdout", io::stdout().is_terminal()),
        ("stderr", io::stderr().is_terminal()),
    ];
    let terminals =
        terminals.map(|(name, is_one)| format!("{name} {}", if is_one { "yes" } else { "no" }));
    format!(
        "duet-rpc doctor {own}\n\n\
         - program: {program}, version {version}\n\
         - system: {os} {architecture}{kernel}\n\
         - terminals: {terminals}\n\n",
        own = env!("CARGO_PKG_VERSION"),
        os = std::env::consts::OS,
        architecture = std::env::consts::ARCH,
        terminals = terminals.join(", "),
    )
}
