//! Log files that cannot be written (G1): whatever becomes of the log, the daemon goes on.

use std::fs;
use std::io;
use std::process::Command;

use super::Kind;
use super::channel::in_shell;
use super::ending::Ending;
use super::report::Skipped;
use super::trial::Trial;

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "log-file", live: log_file },
    Kind { name: "log-full-device", live: |trial| at(trial, "/dev/full") },
    Kind { name: "log-full-disk", live: full_disk },
    Kind { name: "log-limited", live: limited },
    Kind { name: "log-fifo", live: fifo },
    Kind { name: "log-deleted", live: deleted },
    Kind { name: "log-directory", live: |trial| at(trial, "/") },
    Kind { name: "log-nowhere", live: |trial| at(trial, "no/such/folder/log") },
];

/// Whether it may is a question of the system, and nothing that could be installed.
const NO_MOUNT: Skipped =
    Skipped { why: "unshare cannot make a file system here", can_be_helped: false };
const NO_FIFO: Skipped = Skipped { why: "no named pipe can be made", can_be_helped: false };

/// The command, with its log there.
fn logging_to(trial: &mut Trial<'_>, path: &str) -> Command {
    // So that there is something to write.
    let mut command = trial.command_at("debug");
    command.env("DUET_RPC_LOG", path);
    trial.tell(format_args!("the log goes to {path}"));
    command
}

/// All that is asked is answered, and the end is as ever.
fn serve(trial: &mut Trial<'_>, command: Command) -> io::Result<()> {
    let mut daemon = trial.start(command)?;
    trial.traffic(&mut daemon);
    trial.messages(&mut daemon, 30);
    if trial.random.once_in(2) {
        trial.settle(&mut daemon);
        trial.end_by(&mut daemon, rustix::process::Signal::TERM);
    } else {
        trial.close_stdin(&mut daemon);
    }
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

fn at(trial: &mut Trial<'_>, path: &str) -> io::Result<()> {
    let command = logging_to(trial, path);
    serve(trial, command)
}

/// An ordinary one, which holds records and nothing else.
fn log_file(trial: &mut Trial<'_>) -> io::Result<()> {
    trial.may_leave.push("log");
    at(trial, "log")?;
    let text = fs::read_to_string(trial.path("log"))?;
    let is_whole = text.is_empty() || text.ends_with('\n');
    trial.check(is_whole, "the last record in the file is cut");
    let is_record =
        |line: &str| line.starts_with("20") || line.starts_with('{') && line.ends_with('}');
    trial.check(text.lines().all(is_record), "the file holds what is no record");
    Ok(())
}

/// A file system with room for almost nothing.
fn full_disk(trial: &mut Trial<'_>) -> io::Result<()> {
    if !trial.world.can_mount {
        return trial.skip(NO_MOUNT);
    }
    fs::create_dir(trial.path("disk"))?;
    trial.may_leave.push("disk");
    let command = logging_to(trial, "disk/log");
    let size = 4 * (1 + trial.random.below(3));
    let script = format!(r#"mount -t tmpfs -o size={size}k none disk && exec "$@""#);
    let inside = in_shell(script, &command);
    let mut outside = Command::new("unshare");
    outside.arg("-rm").arg(inside.get_program()).args(inside.get_args());
    for (name, value) in inside.get_envs() {
        match value {
            Some(value) => outside.env(name, value),
            None => outside.env_remove(name),
        };
    }
    outside.current_dir(&trial.folder);
    serve(trial, outside)
}

/// A file that may not grow.
fn limited(trial: &mut Trial<'_>) -> io::Result<()> {
    trial.may_leave.push("log");
    let command = logging_to(trial, "log");
    let blocks = trial.random.below(4);
    let command = in_shell(format!(r#"ulimit -f {blocks}; exec "$@""#), &command);
    serve(trial, command)
}

/// A named pipe that nobody has opened, or that nobody reads.
fn fifo(trial: &mut Trial<'_>) -> io::Result<()> {
    trial.may_leave.push("log");
    let made = Command::new("mkfifo").arg(trial.path("log")).status()?;
    if !made.success() {
        return trial.skip(NO_FIFO);
    }
    let command = logging_to(trial, "log");
    let is_open = trial.random.once_in(2);
    trial.tell(if is_open { "nobody reads it" } else { "nobody has opened it" });
    let mut options = fs::OpenOptions::new();
    // To open it for both ways waits for nobody.
    let unread =
        is_open.then(|| options.read(true).write(true).open(trial.path("log"))).transpose()?;
    serve(trial, command)?;
    drop(unread);
    Ok(())
}

/// A file that somebody takes away.
fn deleted(trial: &mut Trial<'_>) -> io::Result<()> {
    let command = logging_to(trial, "log");
    let mut daemon = trial.start(command)?;
    if !trial.greet(&mut daemon) {
        return Ok(());
    }
    fs::remove_file(trial.path("log"))?;
    trial.traffic(&mut daemon);
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}
