//! Descriptors that are no pipes: files, devices, sockets, terminals, or nothing at all (L3, L7, T4).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use serde_json::json;

use super::Kind;
use super::channel::{Channel, in_shell};
use super::ending::Ending;
use super::ledger::{Expect, Ledger, random_message};
use super::trial::Trial;

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "stdin-directory", live: stdin_directory },
    Kind { name: "stdin-null", live: stdin_null },
    Kind { name: "stdin-file", live: stdin_file },
    Kind { name: "stdin-none", live: stdin_none },
    Kind { name: "stdin-unreadable", live: stdin_unreadable },
    Kind { name: "stdout-full", live: stdout_full },
    Kind { name: "stdout-file", live: stdout_file },
    Kind { name: "stdout-limited", live: stdout_limited },
    Kind { name: "stdout-none", live: stdout_none },
    Kind { name: "stdout-unwritable", live: stdout_unwritable },
    Kind { name: "stderr-odd", live: stderr_odd },
    Kind { name: "socket-ends", live: socket_ends },
    Kind { name: "socket-broken", live: socket_broken },
    Kind { name: "terminal-hangs-up", live: terminal_hangs_up },
];

fn reading(path: &str) -> io::Result<Channel> {
    Channel::file(OpenOptions::new().read(true), path)
}

fn writing(path: &str) -> io::Result<Channel> {
    Channel::file(OpenOptions::new().write(true), path)
}

/// Says why, and ends with 1 without a byte on stdout.
fn stdin_directory(trial: &mut Trial<'_>) -> io::Result<()> {
    let command = trial.command();
    let mut daemon = trial.start_on(command, [reading("/")?, Channel::Pipe, Channel::Pipe])?;
    trial.finish(&mut daemon, &Ending::code(1));
    trial.check(daemon.has_said("irectory"), "it does not say why");
    Ok(())
}

fn stdin_null(trial: &mut Trial<'_>) -> io::Result<()> {
    let command = trial.command();
    let mut daemon =
        trial.start_on(command, [reading("/dev/null")?, Channel::Pipe, Channel::Pipe])?;
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

/// A file with requests in it.
fn stdin_file(trial: &mut Trial<'_>) -> io::Result<()> {
    let framing = super::frames::Framing::of(trial.profile);
    let mut ledger = Ledger::default();
    let mut bytes = Vec::new();
    let count = trial.random.below(200);
    for _ in 0..count {
        let text = random_message(&mut trial.random, &mut ledger, trial.profile, trial.is_testbed);
        bytes.extend(framing.frame(&text));
    }
    trial.tell(format_args!("{count} messages in a file"));
    let path = trial.path("input");
    fs::write(&path, bytes)?;
    let command = trial.command();
    let stdin = Channel::Given(File::open(&path)?.into());
    let mut daemon = trial.start_on(command, [stdin, Channel::Pipe, Channel::Pipe])?;
    daemon.ledger = ledger;
    daemon.counts_from_last_byte = true;
    trial.may_leave.push("input");
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

/// There is no such descriptor at all.
fn stdin_none(trial: &mut Trial<'_>) -> io::Result<()> {
    let mut daemon = trial.daemon_in_shell(r#"exec "$@" <&-"#)?;
    trial.finish(&mut daemon, &Ending::code(0).or(1));
    Ok(())
}

/// It can be written to, and not read.
fn stdin_unreadable(trial: &mut Trial<'_>) -> io::Result<()> {
    let command = trial.command();
    let (_reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let stdin =
        if trial.random.once_in(2) { writing("/dev/null")? } else { Channel::Given(writer) };
    let mut daemon = trial.start_on(command, [stdin, Channel::Pipe, Channel::Pipe])?;
    trial.finish(&mut daemon, &Ending::code(1));
    Ok(())
}

/// No answer fits in.
fn stdout_full(trial: &mut Trial<'_>) -> io::Result<()> {
    let command = trial.command();
    let mut daemon =
        trial.start_on(command, [Channel::Pipe, writing("/dev/full")?, Channel::Pipe])?;
    trial.traffic(&mut daemon);
    trial.ask(&mut daemon, "version", &json!([]), Expect::Anything);
    daemon.mark();
    trial.finish(&mut daemon, &Ending::code(1));
    let is_told = daemon.has_said("ERROR") || daemon.has_said("\"error\"");
    trial.check(is_told, "no record says why");
    Ok(())
}

fn stdout_file(trial: &mut Trial<'_>) -> io::Result<()> {
    let command = trial.command();
    let path = trial.path("output");
    let stdout = Channel::Given(File::create(&path)?.into());
    let mut daemon = trial.start_on(command, [Channel::Pipe, stdout, Channel::Pipe])?;
    // Nobody sees the answers, so nobody can wait for one.
    let count = trial.random.below(60);
    for _ in 0..count {
        let text =
            random_message(&mut trial.random, &mut daemon.ledger, trial.profile, trial.is_testbed);
        let frame = daemon.framing.frame(&text);
        daemon.send(&frame);
    }
    trial.close_stdin(&mut daemon);
    trial.may_leave.push("output");
    daemon.pump(trial.hang(), |daemon| daemon.ended.is_some());
    daemon.take_output(&fs::read(&path)?);
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

/// A file that may not grow beyond a few blocks.
fn stdout_limited(trial: &mut Trial<'_>) -> io::Result<()> {
    let command = trial.command();
    let path = trial.path("output");
    let stdout = Channel::Given(File::create(&path)?.into());
    let blocks = trial.random.below(8);
    trial.tell(format_args!("a file of {blocks} blocks"));
    let command = in_shell(format!(r#"ulimit -f {blocks}; exec "$@""#), &command);
    let mut daemon = trial.start_on(command, [Channel::Pipe, stdout, Channel::Pipe])?;
    for _ in 0..100 {
        trial.ask(&mut daemon, "listMethods", &json!([]), Expect::Anything);
    }
    daemon.mark();
    trial.may_leave.push("output");
    daemon.pump(trial.hang(), |daemon| daemon.ended.is_some());
    daemon.take_output(&fs::read(&path)?);
    trial.finish(&mut daemon, &Ending::code(1).cut());
    Ok(())
}

fn stdout_none(trial: &mut Trial<'_>) -> io::Result<()> {
    let mut daemon = trial.daemon_in_shell(r#"exec "$@" >&-"#)?;
    trial.ask(&mut daemon, "version", &json!([]), Expect::Anything);
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &Ending::code(1));
    Ok(())
}

fn stdout_unwritable(trial: &mut Trial<'_>) -> io::Result<()> {
    let command = trial.command();
    let mut daemon =
        trial.start_on(command, [Channel::Pipe, reading("/dev/null")?, Channel::Pipe])?;
    trial.ask(&mut daemon, "version", &json!([]), Expect::Anything);
    trial.finish(&mut daemon, &Ending::code(1));
    Ok(())
}

/// Wherever the log cannot go, it goes on.
fn stderr_odd(trial: &mut Trial<'_>) -> io::Result<()> {
    let command = trial.command();
    let which = trial.random.below(4);
    trial.tell(
        ["stderr is full", "stderr is not writable", "stderr is nothing", "no stderr"][which],
    );
    let mut daemon = match which {
        0 => trial.start_on(command, [Channel::Pipe, Channel::Pipe, writing("/dev/full")?])?,
        1 => trial.start_on(command, [Channel::Pipe, Channel::Pipe, reading("/dev/null")?])?,
        2 => trial.start_on(command, [Channel::Pipe, Channel::Pipe, writing("/dev/null")?])?,
        _ => trial.start(in_shell(r#"exec "$@" 2>&-"#, &command))?,
    };
    trial.traffic(&mut daemon);
    trial.settle(&mut daemon);
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

/// One socket for both ways, as Node has it, or one for each; our side says that it has no more to say.
fn socket_ends(trial: &mut Trial<'_>) -> io::Result<()> {
    let command = trial.command();
    let is_one = trial.random.once_in(2);
    let on = if is_one { both_ways()? } else { [Channel::Socket, Channel::Socket, Channel::Pipe] };
    trial.tell(if is_one { "one socket" } else { "two sockets" });
    let mut daemon = trial.start_on(command, on)?;
    trial.traffic(&mut daemon);
    trial.flush(&mut daemon);
    if let Some(stdin) = &daemon.stdin {
        rustix::net::shutdown(stdin, rustix::net::Shutdown::Write)?;
    }
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

/// Our side goes with answers unread, which breaks the connection.
fn socket_broken(trial: &mut Trial<'_>) -> io::Result<()> {
    let command = trial.command();
    let on = if trial.random.once_in(2) {
        both_ways()?
    } else {
        [Channel::Socket, Channel::Socket, Channel::Socket]
    };
    let mut daemon = trial.start_on(command, on)?;
    if !trial.greet(&mut daemon) {
        return Ok(());
    }
    daemon.leaves_stdout = true;
    for _ in 0..20 {
        trial.ask(&mut daemon, "version", &json!([]), Expect::Anything);
    }
    trial.pause(&mut daemon);
    trial.tell("the sockets are closed with answers unread");
    (daemon.stdin, daemon.stdout) = (None, None);
    daemon.mark();
    trial.finish(&mut daemon, &Ending::code(0).or(1).cut());
    Ok(())
}

fn both_ways() -> io::Result<[Channel; 3]> {
    let (theirs, ours) = UnixStream::pair()?;
    let input = Channel::Both(theirs.try_clone()?.into(), ours.try_clone()?.into());
    Ok([input, Channel::Both(theirs.into(), ours.into()), Channel::Pipe])
}

/// A terminal whose other side goes: when all is quiet that is the end of input.
fn terminal_hangs_up(trial: &mut Trial<'_>) -> io::Result<()> {
    let (screen, theirs) = terminal()?;
    let input = Channel::Both(theirs.try_clone()?, screen.try_clone()?);
    let on = [input, Channel::Both(theirs, screen), Channel::Pipe];
    let command = trial.command();
    let mut daemon = trial.start_on(command, on)?;
    if !trial.greet(&mut daemon) {
        return Ok(());
    }
    trial.messages(&mut daemon, 5);
    let is_quiet = trial.random.once_in(2);
    if is_quiet {
        trial.settle(&mut daemon);
    }
    trial.tell("the terminal hangs up");
    (daemon.stdin, daemon.stdout) = (None, None);
    daemon.mark();
    let ending = if is_quiet { Ending::complete() } else { Ending::code(0).or(1).cut() };
    trial.finish(&mut daemon, &ending);
    Ok(())
}

/// A terminal that changes no byte: our end and the daemon's.
pub(super) fn terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&screen)?;
    unlockpt(&screen)?;
    let path = ptsname(&screen, Vec::new())?;
    let flags = (OFlags::NOCTTY | OFlags::CLOEXEC).bits() as i32;
    let path = path.to_string_lossy().into_owned();
    let theirs = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
    let mut settings = tcgetattr(&theirs)?;
    settings.make_raw();
    tcsetattr(&theirs, OptionalActions::Now, &settings)?;
    Ok((screen, theirs.into()))
}
