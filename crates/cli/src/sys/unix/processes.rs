//! Processes and users.

use std::fs;
use std::io;
use std::process::ExitStatus;

use duet_rpc::transport::Child;
use nix::unistd::User;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, test_kill_process, waitid,
};
use tokio::signal::unix::{SignalKind, signal};

pub(crate) use std::os::unix::process::parent_id;

/// The signals with which `doctor` ends a server: the name, the number, and whether a server may ignore it.
pub(crate) const END_SIGNALS: [(&str, i32, bool); 2] =
    [("SIGTERM", Signal::TERM.as_raw(), false), ("SIGINT", Signal::INT.as_raw(), true)];

/// The signal that a process died of.
pub(crate) fn signal_of(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

/// Sends a signal to a program. It may have ended by itself; while it has an id, no other process can have the same.
pub(crate) fn send_signal(child: &Child, signal: i32) {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
        let _ = kill_process(pid, signal);
    }
}

/// Asks the system whether a program has ended: the runtime may not have noticed yet. Leaves the exit status to the
/// runtime.
pub(crate) fn has_ended(child: &Child) -> bool {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    pid.is_none_or(|pid| !matches!(waitid(WaitId::Pid(pid), look), Ok(None)))
}

/// Returns true if a process with this id runs.
pub(crate) fn is_running(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// Returns true if a process of this group runs. The leader itself, which has exited, stays in its group until it is
/// closed, so a signal to the group would not tell. Without `/proc`, the answer is no.
pub(crate) fn is_group_running(group: u32) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    processes.flatten().any(|process| {
        let Ok(stat) = fs::read_to_string(process.path().join("stat")) else { return false };
        // The name of the program, in brackets, may contain anything. State, parent and group follow it.
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let is_dead = fields.next().is_none_or(|state| matches!(state, "Z" | "X"));
        let its_group = fields.nth(1).and_then(|group| group.parse().ok());
        !is_dead && its_group == Some(group)
    })
}

/// Keeps the exit status of children, as long as the value lives: if this process was started with SIGCHLD ignored, the
/// system discards it.
pub(crate) fn keep_exit_status() -> io::Result<impl Sized> {
    signal(SignalKind::child())
}

/// The id of a user.
pub(crate) fn user_id(name: &str) -> Result<u32, String> {
    match User::from_name(name) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err("no user has this name".to_owned()),
        Err(error) => Err(format!("cannot look up the user: {}", error.desc())),
    }
}
