//! Processes and users.

use std::io;
use std::process::ExitStatus;

use duet_rpc::Parent;
use duet_rpc::command_support::kill_process;
use duet_rpc::transport::Child;

/// None: no program can send a signal to one that is not in its console.
pub(crate) const END_SIGNALS: [(&str, i32, bool); 0] = [];

/// The number of the signal that kills, in fault rules and traces.
const KILL: i32 = 9;

/// `0`: the library finds the parent process by itself.
pub(crate) fn parent_id() -> u32 {
    0
}

/// `None`: there are no signals.
pub(crate) fn signal_of(_: ExitStatus) -> Option<i32> {
    None
}

/// Kills a program. The rules know no other signal.
pub(crate) fn send_signal(child: &Child, signal: i32) {
    if let (Some(id), KILL) = (child.id(), signal) {
        kill_process(id);
    }
}

/// Asks the system whether a program has ended: the runtime may not have noticed yet.
pub(crate) fn has_ended(child: &Child) -> bool {
    child.id().is_none_or(|id| !is_running(id))
}

/// Returns true if a process with this id runs. One of another user counts as running.
pub(crate) fn is_running(pid: u32) -> bool {
    Parent::with_id(pid).is_none_or(|process| !process.is_gone())
}

/// Returns false: the job of a program cannot be asked after its end.
pub(crate) fn is_group_running(_: u32) -> bool {
    false
}

/// Nothing to keep: the system discards no exit status.
pub(crate) fn keep_exit_status() -> io::Result<impl Sized> {
    Ok(())
}

/// Users have no number here.
pub(crate) fn user_id(_: &str) -> Result<u32, String> {
    Err("Windows has no user ids: a pipe:// address lets only your own user connect".to_owned())
}
