//! The process that becomes the server: the last step between the guard and the server's program.
//!
//! The kernel can kill a process when its parent dies, but only the process itself can ask for it, between
//! fork and exec. There, Rust allows only `unsafe` code. So the guard starts this program instead, which
//! asks and then replaces itself with the server. The request survives `exec`, except for programs with
//! set-user-ID or file capabilities, where the kernel clears it.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::args::LaunchArgs;
use crate::exit::Exit;
use crate::sys::end_not_started;

/// Becomes the server. Returns only if that fails.
pub(crate) fn run(args: &LaunchArgs) -> Exit {
    let Some((program, words)) = args.command.split_first() else { return Exit::Usage };
    if !die_with_parent(args.parent) {
        return Exit::Failed;
    }
    let error = Command::new(program).args(words).exec();
    end_not_started(program, &error)
}

/// Asks the kernel to kill this process when its parent dies. `false` if the parent is dead already.
#[cfg(target_os = "linux")]
fn die_with_parent(parent: u32) -> bool {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};

    // If the kernel refuses, the guard still ends the server when the tap dies.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    getppid().is_some_and(|it| it.as_raw_nonzero().get().unsigned_abs() == parent)
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_: u32) -> bool {
    true
}
