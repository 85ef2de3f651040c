//! Reserve: a spare file descriptor for the moment when no other is free.
//!
//! A process without a free descriptor cannot even accept a connection to refuse it: clients wait in the
//! queue of the system without an answer. So the server holds one descriptor, gives it up to accept one
//! connection, and takes it again when that connection was refused and closed.

use std::fs::File;
use std::io;
use std::task::{Context, Poll};

use rustix::io::Errno;

use super::{Incoming, Listener};

#[derive(Debug)]
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

    /// Accepts a connection with the spare descriptor and passes it to `refuse`, which has to close it.
    /// Ready with the outcome; pending if no connection waits.
    pub(crate) fn poll_refuse(
        &mut self,
        cx: &mut Context<'_>,
        listener: &mut Listener,
        refuse: impl FnOnce(Incoming),
    ) -> Poll<io::Result<()>> {
        self.0 = None;
        let refused = listener.poll_accept(cx).map_ok(refuse);
        // Another thread may have taken the descriptor; then there is no reserve until the next time.
        self.0 = Reserve::open();
        refused
    }
}
