//! The guard: the process between the tap and the server, which ends the server's process tree.
//!
//! ```text
//!  client ── tap ──────── guard ── server ── …
//!             │ socket      │
//!             ├─────────────┤   from the tap: three descriptors, then signal numbers
//!             │             │   from the guard: one line, when the server has ended
//! ```
//!
//! | event | action |
//! |---|---|
//! | a byte from the tap | send this signal to the server |
//! | the server ends | end its descendants: wait, SIGTERM, SIGKILL; report; exit |
//! | the socket ends: the tap is dead | SIGKILL to the whole tree; exit |
//! | a signal to the guard itself | nothing: only the tap passes signals on |
//! | the guard is killed | the kernel kills the server (`launch.rs`); the tap ends the rest |
//!
//! It is a process of its own because nothing runs in a process that got SIGKILL. It has a process group
//! of its own, and so has the server: a signal to the group of the client or of the server does not
//! reach it.

use std::ffi::OsString;
use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use duet_rpc::is_signal_ignored;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::FdFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Signal, WaitStatus, getpid, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use super::tree;
use crate::args::GuardArgs;
use crate::console;
use crate::exit::Exit;

/// The signals that the tap passes on.
pub(super) const PASSED_ON: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// The name of the command that becomes the server.
pub(super) const LAUNCH: &str = "tap-launch";

/// Runs the guard. Its stdin is the socket to the tap.
pub(crate) fn run(args: &GuardArgs) -> Exit {
    match guard(&args.command) {
        Ok(()) => Exit::Success,
        Err(error) => {
            console::say(format_args!("cannot start the server: {error}"));
            Exit::Failed
        }
    }
}

fn guard(command: &[OsString]) -> std::io::Result<()> {
    tree::adopt_descendants();
    // Handlers, not SIG_IGN: the server would inherit ignored signals.
    for signal in PASSED_ON.into_iter().filter(|&signal| !is_signal_ignored(signal)) {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let (mut ended, tell) = UnixStream::pair()?;
    ended.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGCHLD, tell)?;

    let mut tap = UnixStream::from(rustix::stdio::stdin().try_clone_to_owned()?);
    let descriptors = receive(&tap)?;
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    let server = start(command, descriptors)?;

    let status = loop {
        let mut fds = [PollFd::new(&ended, PollFlags::IN), PollFd::new(&tap, PollFlags::IN)];
        let _ = poll(&mut fds, None);
        let (has_ended, has_word) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        if has_ended {
            drain(&mut ended);
            if let (Some(status), _) = tree::reap(Some(server)) {
                break status;
            }
        }
        if has_word && !pass_on(&mut tap, server) {
            tree::kill_all(Some(server), &mut |time| pause(&mut ended, time));
            return Ok(());
        }
    };
    let left = tree::end_gently(Some(server), &mut |time| pause(&mut ended, time));
    // The tap may be dead; then nobody needs the report.
    let _ = tap.write_all(report(status, left).as_bytes());
    Ok(())
}

/// The line that tells the tap how the server ended.
fn report(status: WaitStatus, left: u64) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (_, Some(signal)) => format!("signal {signal} {left}\n"),
        (code, None) => format!("code {} {left}\n", code.unwrap_or_default()),
    }
}

/// Receives stdin, stdout and stderr of the server.
fn receive(tap: &UnixStream) -> std::io::Result<[OwnedFd; 3]> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    recvmsg(tap, &mut bytes, &mut control, RecvFlags::empty())?;
    let mut found = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            found.extend(descriptors);
        }
    }
    // In a step of its own, for systems without a flag for it: no other thread starts a program meanwhile.
    found.iter().try_for_each(|it| rustix::io::fcntl_setfd(it, FdFlags::CLOEXEC))?;
    found.try_into().map_err(|_| std::io::Error::other("the tap sent no descriptors"))
}

fn start(command: &[OsString], [stdin, stdout, stderr]: [OwnedFd; 3]) -> std::io::Result<Pid> {
    let mut launch = super::child::own_program()?;
    launch.arg(LAUNCH).arg("--parent").arg(getpid().as_raw_nonzero().to_string());
    launch.arg("--").args(command).process_group(0);
    launch.stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
    let child = launch.spawn()?;
    // The command holds the server's descriptors; they must be closed here, or nobody would see their end.
    drop::<Command>(launch);
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| std::io::Error::other("the server has no process id"))
}

/// Passes signals on. `false` if the tap is dead.
fn pass_on(tap: &mut UnixStream, server: Pid) -> bool {
    let mut signals = [0; 64];
    match tap.read(&mut signals) {
        Ok(0) => false,
        Ok(count) => {
            for signal in
                signals[..count].iter().filter_map(|&it| Signal::from_named_raw(i32::from(it)))
            {
                // It is not reaped, so no other process has its id.
                let _ = kill_process(server, signal);
            }
            true
        }
        Err(error) => error.kind() == std::io::ErrorKind::Interrupted,
    }
}

fn drain(ended: &mut UnixStream) {
    let mut bytes = [0; 64];
    while matches!(ended.read(&mut bytes), Ok(count) if count > 0) {}
}

/// Waits until a child ends, but not longer than this.
fn pause(ended: &mut UnixStream, time: Duration) {
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()).max(1) };
    let mut fds = [PollFd::new(&*ended, PollFlags::IN)];
    let _ = poll(&mut fds, Some(&time));
    drain(ended);
}
