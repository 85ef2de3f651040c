//! Windows: handles that a thread blocks on, console events, job objects.

mod calls;
pub mod command_support;
mod descriptor;
pub(crate) mod exit;
pub(crate) mod files;
pub(crate) mod limits;
pub(crate) mod local;
mod parent;
pub(crate) mod polled;
pub(crate) mod program;
mod signals;
pub(crate) mod standard;
pub(crate) mod tcp;
#[cfg(test)]
mod tests;
pub(crate) mod tree;
pub(crate) mod watch;

pub(crate) use std::os::windows::io::OwnedHandle as Owned;

pub(crate) use descriptor::{Descriptor, Errno, IoResult, blocking_read};
pub(crate) use exit::Exit;
pub use parent::Parent;
pub(crate) use signals::Signal;
pub use signals::is_ignored;
pub(crate) use tcp::{HangUpWatch, Reserve};

use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};

use crate::threads;

/// Number of lines that wait for stderr.
const MOST_LINES: usize = 16;

/// Ends the process immediately. No destructor, exit handler or `DllMain` runs.
pub(crate) fn exit_now(code: i32) {
    calls::terminate_this_process(code);
}

/// Writes a line to stderr, or drops it: a stderr that nobody reads must not stop the server (L8). No call tells
/// whether a write to a pipe would block, so a thread writes.
pub(crate) fn print_or_drop(line: &str) {
    static LINES: OnceLock<Option<SyncSender<String>>> = OnceLock::new();
    let lines = LINES.get_or_init(|| {
        let (lines, given) = sync_channel::<String>(MOST_LINES);
        let print = move || {
            for line in given {
                // A closed stderr has no reader.
                let _ = io::stderr().lock().write_all(line.as_bytes());
            }
        };
        threads::spawn("duet-rpc stderr", print).is_ok().then_some(lines)
    });
    if let Some(lines) = lines {
        let _ = lines.try_send(line.to_owned());
    }
}
