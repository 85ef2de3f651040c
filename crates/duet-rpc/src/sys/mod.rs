//! Seam to the operating system: everything that differs between Unix and Windows, behind the same names.
//!
//! | name | contents |
//! |---|---|
//! | `Descriptor`, `polled` | stdin and stdout: reads and writes, with or without a thread |
//! | `standard` | the standard descriptors: taken, and replaced for stray prints |
//! | `watch` | the events that the watchdog waits for: signals or console events, the parent, the input |
//! | `Parent`, `Signal` | the process that started this one; the events that ask it to end |
//! | `tree`, `Exit` | a started program with all processes that it started; its exit |
//! | `local` | local sockets: Unix sockets, or named pipes |
//! | `tcp`, `HangUpWatch`, `Reserve` | listening, keep-alive, the end of a remote, a spare descriptor |
//! | `files` | paths, and the user of this process |
//! | `limits` | the number of open files, and memory |
//!
//! The rest of the library calls these names, so it contains almost no `cfg` of its own;
//! `proto/tests/house/platforms.rs` counts them.

use std::fmt;

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::*;
#[cfg(windows)]
pub use windows::*;

/// An event that asks the process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShutdownTrigger {
    Signal(Signal),
    ParentEnded,
    InputEnded,
    #[cfg_attr(windows, expect(dead_code))]
    OutputEnded,
}

impl fmt::Display for ShutdownTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShutdownTrigger::Signal(signal) => write!(f, "received {}", signal.name()),
            ShutdownTrigger::ParentEnded => f.write_str("the parent process has ended"),
            ShutdownTrigger::InputEnded => f.write_str("stdin closed"),
            ShutdownTrigger::OutputEnded => f.write_str("stdout closed"),
        }
    }
}
