//! Reserve: a spare file descriptor for the moment when no other is free.
//!
//! A process without a free descriptor cannot even accept a connection to refuse it: clients wait in the
//! queue of the system without an answer. So the server holds one descriptor, gives it up to accept one
//! connection, and takes it again when that connection was refused and closed.

use std::fs::File;
use std::io;

use rustix::io::Errno;

#[derive(Debug)]
// Same name: the interface of `windows/tcp.rs`.
pub(crate) struct Reserve(Option<File>);

impl Reserve {
    pub(crate) fn new() -> Self {
        Reserve(Reserve::open())
    }

    fn open() -> Option<File> {
        File::open("/dev/null").ok()
    }

    /// Returns `true` if the error says that no descriptor is left, for this process or for the system.
    pub(crate) fn is_needed(error: &io::Error) -> bool {
        matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
    }

    /// Lends the spare descriptor to this attempt, which has to give it back.
    pub(crate) fn lend<T>(&mut self, attempt: impl FnOnce() -> T) -> T {
        self.0 = None;
        let done = attempt();
        // Another thread may have taken the descriptor; then there is no reserve until the next time.
        self.0 = Reserve::open();
        done
    }
}
