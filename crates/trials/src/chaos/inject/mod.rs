//! Calls of the system that fail: `strace` makes them, one by one, at a place that comes of the seed. What can be
//! tried again is, and changes nothing; what cannot be survived ends the daemon with 1 and a reason (L7, G1).

mod network;

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use serde_json::json;

use super::Kind;
use super::channel::Channel;
use super::daemon::Daemon;
use super::ending::Ending;
use super::ledger::{Expect, random_message};
use super::memory::WITHOUT_MEMORY;
use super::report::Skipped;
use super::trial::Trial;

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "inject-interrupts", live: interrupts },
    Kind { name: "inject-again", live: again },
    Kind { name: "inject-stdin-fails", live: stdin_fails },
    Kind { name: "inject-stdout-fails", live: stdout_fails },
    Kind { name: "inject-stderr-fails", live: stderr_fails },
    Kind { name: "inject-start-fails", live: start_fails },
    Kind { name: "inject-threads-fail", live: threads_fail },
    Kind { name: "inject-accept-fails", live: network::accept_fails },
    Kind { name: "inject-clients-fail", live: network::clients_fail },
];

const NO_STRACE: Skipped =
    Skipped { why: "there is no strace that may trace", can_be_helped: true };
const READS: &str = "read,readv,recvfrom,recvmsg";
const WRITES: &str = "write,writev,sendto,sendmsg";
const WAITS: &str = "?poll,ppoll,?epoll_wait,epoll_pwait,?epoll_pwait2";

/// The command under `strace`, where these calls fail like this, if they are about this path.
fn failing(trial: &mut Trial<'_>, command: &Command, path: Option<&str>, fault: &str) -> Command {
    let calls = fault.split(':').next().unwrap_or_default().to_owned();
    trial.tell(format_args!("inject={fault} {}", path.unwrap_or_default()));
    trial.may_leave.push("trace");
    // It says so of a call that the end of the process has overtaken.
    trial.may_say.push("strace: Failed to tamper with process");
    let mut strace = Command::new("strace");
    // The daemon stays our own child, and whoever traces it is not of its group.
    strace.args(["-DD", "-f", "-qq", "-o", "trace"]);
    if let Some(path) = path {
        strace.args(["-P", path]);
    }
    strace.args(["-e", &format!("trace={calls}"), "-e", &format!("inject={fault}"), "--"]);
    strace.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    strace.current_dir(&trial.folder);
    strace
}

/// Three pipes, the daemon's end of each first.
type Pipes = [(OwnedFd, OwnedFd); 3];

/// The pipes, and the names that the system has for them.
fn pipes() -> io::Result<(Pipes, [String; 3])> {
    let [(input, to_input), (from_output, output), (from_errors, errors)] = [
        pipe_with(PipeFlags::CLOEXEC)?,
        pipe_with(PipeFlags::CLOEXEC)?,
        pipe_with(PipeFlags::CLOEXEC)?,
    ];
    let pipes = [(input, to_input), (output, from_output), (errors, from_errors)];
    let mut names = [const { String::new() }; 3];
    for (name, (theirs, _)) in names.iter_mut().zip(&pipes) {
        let link = fs::read_link(format!("/proc/self/fd/{}", theirs.as_raw_fd()))?;
        *name = link.to_string_lossy().into_owned();
    }
    Ok((pipes, names))
}

fn start(trial: &mut Trial<'_>, command: Command, pipes: Pipes) -> io::Result<Daemon> {
    trial.start_on(command, pipes.map(|(theirs, ours)| Channel::Both(theirs, ours)))
}

/// Messages that are not waited for.
fn send_some(trial: &mut Trial<'_>, daemon: &mut Daemon, count: usize) {
    for _ in 0..count {
        let text =
            random_message(&mut trial.random, &mut daemon.ledger, trial.profile, trial.is_testbed);
        let frame = daemon.framing.frame(&text);
        daemon.send(&frame);
        trial.pause(daemon);
    }
}

/// Every few calls are interrupted, of those that read, write or wait.
fn interrupts(trial: &mut Trial<'_>) -> io::Result<()> {
    if !trial.world.can_inject {
        return trial.skip(NO_STRACE);
    }
    let (pipes, names) = pipes()?;
    let when =
        format!("error=EINTR:when={}+{}", 1 + trial.random.below(5), 2 + trial.random.below(4));
    let (calls, path) = match trial.random.below(4) {
        0 => (READS, Some(names[0].as_str())),
        1 => (WRITES, Some(names[1].as_str())),
        2 => (WRITES, Some(names[2].as_str())),
        _ => (WAITS, None),
    };
    let command = trial.command();
    let command = failing(trial, &command, path, &format!("{calls}:{when}"));
    let mut daemon = start(trial, command, pipes)?;
    trial.messages(&mut daemon, 12);
    trial.settle(&mut daemon);
    if trial.random.once_in(2) {
        trial.close_stdin(&mut daemon);
    } else {
        trial.end_by(&mut daemon, Signal::TERM);
    }
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

/// A read finds nothing though there is something. Who waits for news is told of the next.
fn again(trial: &mut Trial<'_>) -> io::Result<()> {
    if !trial.world.can_inject {
        return trial.skip(NO_STRACE);
    }
    let (pipes, names) = pipes()?;
    let command = trial.command();
    let fault = format!("{READS}:error=EAGAIN:when={}", 1 + trial.random.below(6));
    let command = failing(trial, &command, Some(&names[0]), &fault);
    let mut daemon = start(trial, command, pipes)?;
    send_some(trial, &mut daemon, 12);
    // News for who waits for them, until it has them: on a machine that is late the failure may be yet to come.
    let begun = Instant::now();
    while begun.elapsed() < trial.hang() {
        if daemon.pump(Duration::from_millis(30), |daemon| daemon.ledger.is_settled()) {
            break;
        }
        trial.ask(&mut daemon, "version", &json!([]), Expect::Anything);
    }
    trial.settle(&mut daemon);
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

/// It cannot be read any more.
fn stdin_fails(trial: &mut Trial<'_>) -> io::Result<()> {
    if !trial.world.can_inject {
        return trial.skip(NO_STRACE);
    }
    let (pipes, names) = pipes()?;
    let command = trial.command();
    let error = *trial.random.pick(&["EIO", "EBADF", "EINVAL", "EISDIR", "ENOMEM", "EFAULT"]);
    let fault = format!("{READS}:error={error}:when={}", 1 + trial.random.below(3));
    let command = failing(trial, &command, Some(&names[0]), &fault);
    let mut daemon = start(trial, command, pipes)?;
    while !daemon.pump(Duration::from_millis(20), |daemon| daemon.ended.is_some()) {
        if daemon.ledger.last_id() > 50 {
            // Each is a read at least, so it failed long ago.
            trial.complain("it goes on though it cannot read");
            break;
        }
        trial.ask(&mut daemon, "version", &json!([]), Expect::Anything);
        daemon.mark();
    }
    trial.finish(&mut daemon, &Ending::code(1));
    check_reason(trial, &daemon);
    Ok(())
}

/// It cannot be written any more.
fn stdout_fails(trial: &mut Trial<'_>) -> io::Result<()> {
    if !trial.world.can_inject {
        return trial.skip(NO_STRACE);
    }
    let (pipes, names) = pipes()?;
    let command = trial.command();
    let error =
        *trial.random.pick(&["EIO", "EPIPE", "ENOSPC", "EDQUOT", "EFBIG", "ENOMEM", "ECONNRESET"]);
    let place = 1 + trial.random.below(4);
    let command =
        failing(trial, &command, Some(&names[1]), &format!("{WRITES}:error={error}:when={place}"));
    let mut daemon = start(trial, command, pipes)?;
    // Each thread that writes counts for itself, and there are two that may.
    trial.ask_until_it_ends(&mut daemon);
    trial.finish(&mut daemon, &Ending::code(1));
    check_reason(trial, &daemon);
    let answers = daemon.ledger.answers();
    trial.check(answers + 1 >= place, "an answer is lost that came before the failure");
    Ok(())
}

fn check_reason(trial: &mut Trial<'_>, daemon: &Daemon) {
    let is_told =
        daemon.has_said(" ERROR ") || daemon.has_said("\"error\"") || daemon.has_said("duet-rpc: ");
    trial.check(is_told, "nothing says why");
}

/// The log cannot be written, for a while or for ever.
fn stderr_fails(trial: &mut Trial<'_>) -> io::Result<()> {
    if !trial.world.can_inject {
        return trial.skip(NO_STRACE);
    }
    let (pipes, names) = pipes()?;
    let command = trial.command_at("debug");
    let error = *trial.random.pick(&["EIO", "EPIPE", "ENOSPC", "EBADF", "EINVAL"]);
    let when = ["1+", "1", "2+2", "2+"][trial.random.below(4)];
    let command =
        failing(trial, &command, Some(&names[2]), &format!("{WRITES}:error={error}:when={when}"));
    let mut daemon = start(trial, command, pipes)?;
    trial.messages(&mut daemon, 20);
    trial.settle(&mut daemon);
    if trial.random.once_in(2) {
        trial.close_stdin(&mut daemon);
    } else {
        trial.end_by(&mut daemon, Signal::HUP);
    }
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

/// Something that it needs at the start is not to be had: it says so and ends, or does without.
fn start_fails(trial: &mut Trial<'_>) -> io::Result<()> {
    if !trial.world.can_inject {
        return trial.skip(NO_STRACE);
    }
    const CALLS: [(&str, &[&str], usize); 12] = [
        ("clone3", &["EAGAIN", "ENOMEM"], 6),
        ("mmap", &["ENOMEM"], 40),
        ("openat", &["EMFILE", "ENFILE", "EACCES"], 8),
        ("?open", &["EMFILE", "ENFILE", "EACCES"], 3),
        ("socketpair", &["EMFILE", "ENFILE", "ENOMEM"], 3),
        ("epoll_create1", &["EMFILE", "ENFILE", "ENOMEM"], 2),
        ("eventfd2", &["EMFILE", "ENFILE", "ENOMEM"], 2),
        ("epoll_ctl", &["ENOMEM", "ENOSPC"], 4),
        ("fcntl", &["EMFILE", "EINVAL"], 16),
        ("?dup2,dup3", &["EMFILE", "EBUSY"], 3),
        ("mprotect", &["ENOMEM"], 20),
        ("sched_getaffinity", &["EPERM"], 6),
    ];
    let &(calls, errors, most) = trial.random.pick(&CALLS);
    let error = *trial.random.pick(errors);
    let fault = format!("{calls}:error={error}:when={}", 1 + trial.random.below(most));
    let command = trial.command();
    let command = failing(trial, &command, None, &fault);
    trial.excused.push("error while loading shared libraries");
    let mut ending = Ending::code(0).or(1).or(127);
    if error == "ENOMEM" && calls.starts_with('m') {
        // Before any code of ours, the loader and Rust itself need some, and have ways of their own to say so.
        ending.signals.extend([Signal::ABORT, Signal::SEGV]);
        trial.excused.extend(WITHOUT_MEMORY);
        trial.may_say_nothing = true;
    }
    let mut daemon = trial.start(command)?;
    for _ in 0..5 {
        trial.ask(&mut daemon, "version", &json!([]), Expect::Anything);
    }
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &ending);
    let status = daemon.ended.map(|(status, _)| status);
    if status.is_some_and(|status| status.success()) {
        trial.check(daemon.ledger.is_settled(), "it ends well, and has not answered");
    } else if status.is_some_and(|status| status.code().is_some()) {
        trial.check(!daemon.said.is_empty(), "it does not say why it ends");
    }
    Ok(())
}

/// No thread can be started beyond those that it begins with: handlers that may be slow have to do without.
fn threads_fail(trial: &mut Trial<'_>) -> io::Result<()> {
    if !trial.world.can_inject {
        return trial.skip(NO_STRACE);
    }
    trial.is_testbed = true;
    let command = trial.command();
    // The log has one, and the watchdog.
    let fault = format!("clone3:error=EAGAIN:when={}+", 3 + trial.random.below(3));
    let command = failing(trial, &command, None, &fault);
    let mut daemon = trial.start(command)?;
    for _ in 0..20 {
        let method = *trial.random.pick(&["test.block", "test.spin", "test.sleep", "test.nap"]);
        let ms = trial.random.below(10);
        trial.ask(&mut daemon, method, &json!({"ms": ms}), Expect::Result(json!(ms)));
        trial.messages(&mut daemon, 1);
    }
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}
