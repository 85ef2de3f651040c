//! A descriptor that is kept for the moment when there is no other.
//!
//! A process that has no descriptor left cannot even accept a connection to refuse it: whoever connects waits
//! in the queue of the system and hears nothing. So one descriptor is held, given up to accept one connection,
//! and taken again when that was refused and closed.

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

    /// Whether an error means that there is no descriptor left, for this process or for the system.
    pub(crate) fn is_needed(error: &io::Error) -> bool {
        matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
    }

    /// Accepts a connection with the reserve and hands it to `refuse`, which has to close it. Ready with
    /// what became of it, or pending if nobody waits to connect.
    pub(crate) fn poll_refuse(
        &mut self,
        cx: &mut Context<'_>,
        listener: &mut Listener,
        refuse: impl FnOnce(Incoming),
    ) -> Poll<io::Result<()>> {
        self.0 = None;
        let refused = listener.poll_accept(cx).map_ok(refuse);
        // Another thread may have been quicker; then there is none until the next time.
        self.0 = Reserve::open();
        refused
    }
}
