//! The death of the process that has started it (L10).

use std::io;
use std::time::Instant;

use rustix::process::Signal;

use super::Kind;
use super::channel::in_shell;
use super::daemon::Daemon;
use super::ending::Ending;
use super::trial::Trial;

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "parent-dies", live: dies },
    Kind { name: "parent-dies-unwatched", live: dies_unwatched },
];

/// A shell starts it with its own stdin, which stays open; the shell is the child that we know.
const SHELL: &str = r#"exec 3<&0; "$@" <&3 3<&- & wait"#;

/// It goes with its parent, if that is wanted.
fn dies(trial: &mut Trial<'_>) -> io::Result<()> {
    let mut command = trial.command();
    command.arg("--exit-with-parent");
    let mut daemon = trial.start(in_shell(SHELL, &command))?;
    if !trial.greet(&mut daemon) {
        return Ok(());
    }
    trial.traffic(&mut daemon);
    trial.pause(&mut daemon);
    trial.tell("the parent is killed");
    kill_parent(&mut daemon, trial);
    let begun = Instant::now();
    let is_gone = daemon.pump_beyond(trial.hang(), |daemon| !daemon.is_left());
    let end = Instant::now();
    trial.check(is_gone, "it outlives its parent");
    trial.finish(&mut daemon, &Ending::killed(Signal::KILL));
    trial.check_time(begun, end);
    trial.check(daemon.out.is_empty(), "the last frame is cut");
    Ok(())
}

/// It goes on without its parent if nobody said otherwise, and ends with its input.
fn dies_unwatched(trial: &mut Trial<'_>) -> io::Result<()> {
    let command = trial.command();
    let mut daemon = trial.start(in_shell(SHELL, &command))?;
    if !trial.greet(&mut daemon) {
        return Ok(());
    }
    trial.tell("the parent is killed");
    kill_parent(&mut daemon, trial);
    trial.messages(&mut daemon, 10);
    let is_settled = daemon.pump_beyond(trial.hang(), |daemon| daemon.ledger.is_settled());
    trial.check(is_settled, "it does not go on without its parent");
    daemon.stdin = None;
    let begun = Instant::now();
    let is_gone = daemon.pump_beyond(trial.hang(), |daemon| !daemon.is_left());
    let end = Instant::now();
    trial.check(is_gone, "it outlives its input");
    trial.finish(
        &mut daemon,
        &Ending { answers_all: true, may_cut: false, ..Ending::killed(Signal::KILL) },
    );
    trial.check_time(begun, end);
    Ok(())
}

fn kill_parent(daemon: &mut Daemon, trial: &mut Trial<'_>) {
    daemon.mark();
    daemon.signal(Signal::KILL);
    let is_dead = daemon.pump(trial.hang(), |daemon| daemon.ended.is_some());
    trial.check(is_dead, "the parent cannot be killed");
}
