//! What makes a call say that it should be made again: descriptors that others have made non-blocking, pipes
//! that hold little, interruptions. None of it may change anything (L8, P6, T4).

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use serde_json::json;

use super::Kind;
use super::channel::Channel;
use super::ending::Ending;
use super::ledger::Expect;
use super::trial::Trial;
use super::unusual_fds::terminal;

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "busy-nonblocking", live: nonblocking },
    Kind { name: "busy-flags-flip", live: flags_flip },
    Kind { name: "busy-tiny-pipes", live: tiny_pipes },
    Kind { name: "busy-interrupted", live: interrupted },
];

/// Pipes that are non-blocking from the start, at the daemon's end too; stderr is full on top of that.
fn nonblocking(trial: &mut Trial<'_>) -> io::Result<()> {
    let is_full = trial.random.once_in(2);
    let [input, output, errors] = [pipe(true)?, pipe(false)?, pipe(false)?];
    for channel in [&input, &output, &errors] {
        rustix::io::ioctl_fionbio(&channel.0, true)?;
    }
    if is_full {
        trial.tell("stderr is full");
        while rustix::io::write(&errors.0, &[b'\n'; 512]).is_ok() {}
    }
    let command = trial.command();
    let on = [input, output, errors].map(|(theirs, ours)| Channel::Both(theirs, ours));
    let mut daemon = trial.start_on(command, on)?;
    let unread = is_full.then(|| daemon.stderr.take());
    if !trial.greet(&mut daemon) {
        return Ok(());
    }
    trial.traffic(&mut daemon);
    if trial.random.once_in(2) {
        trial.settle(&mut daemon);
        trial.end_by(&mut daemon, Signal::INT);
    } else {
        trial.close_stdin(&mut daemon);
    }
    trial.finish(&mut daemon, &Ending::complete());
    drop(unread);
    Ok(())
}

/// The daemon's end, and ours.
fn pipe(is_input: bool) -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok(if is_input { (reader, writer) } else { (writer, reader) })
}

/// Whoever shares them changes their flags all the time, and leaves them as they were.
fn flags_flip(trial: &mut Trial<'_>) -> io::Result<()> {
    let on = match trial.random.below(3) {
        0 => [Channel::Pipe, Channel::Pipe, Channel::Pipe],
        1 => [Channel::Socket, Channel::Socket, Channel::Socket],
        _ => {
            let (screen, theirs) = terminal()?;
            let input = Channel::Both(theirs.try_clone()?, screen.try_clone()?);
            [input, Channel::Both(theirs, screen), Channel::Pipe]
        }
    };
    let command = trial.command();
    let mut daemon = trial.start_on(command, on)?;
    for _ in 0..20 {
        let which = trial.random.below(3);
        rustix::io::ioctl_fionbio(daemon.their_end(which), trial.random.once_in(2))?;
        trial.messages(&mut daemon, 2);
        trial.pause(&mut daemon);
    }
    trial.settle(&mut daemon);
    for which in 0..3 {
        rustix::io::ioctl_fionbio(daemon.their_end(which), false)?;
    }
    trial.end_by(&mut daemon, Signal::TERM);
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

/// Pipes that hold a page, messages that are far larger, and a reader that takes its time.
fn tiny_pipes(trial: &mut Trial<'_>) -> io::Result<()> {
    trial.is_testbed = true;
    let pipes = [pipe(true)?, pipe(false)?, pipe(false)?];
    for (theirs, _) in &pipes {
        #[cfg(target_os = "linux")]
        rustix::pipe::fcntl_setpipe_size(theirs, 4096)?;
        #[cfg(not(target_os = "linux"))]
        let _ = theirs;
    }
    let command = trial.command();
    let mut daemon =
        trial.start_on(command, pipes.map(|(theirs, ours)| Channel::Both(theirs, ours)))?;
    for _ in 0..1 + trial.random.below(10) {
        let bytes = trial.random.below(200_000);
        trial.ask(&mut daemon, "test.big", &json!({"bytes": bytes}), Expect::Letters(bytes));
        trial.messages(&mut daemon, 2);
        daemon.leaves_stdout = trial.random.once_in(2);
        trial.pause(&mut daemon);
        daemon.leaves_stdout = false;
    }
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

/// What stops and goes on is interrupted in whatever it waits for.
fn interrupted(trial: &mut Trial<'_>) -> io::Result<()> {
    let mut daemon = trial.daemon()?;
    if !trial.greet(&mut daemon) {
        return Ok(());
    }
    let rounds = 20 + trial.random.below(100);
    trial.tell(format_args!("{rounds} interruptions"));
    for _ in 0..rounds {
        trial.messages(&mut daemon, 1);
        let signal =
            *trial.random.pick(&[Signal::STOP, Signal::WINCH, Signal::CHILD, Signal::PIPE]);
        daemon.signal(signal);
        daemon.pump(Duration::from_micros(200), |_| false);
        daemon.signal(Signal::CONT);
    }
    trial.settle(&mut daemon);
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}
