//! Our stderr, shared with the server.

use std::io;
use std::time::Duration;

use crate::logging::{LossMessages, Sink};
use crate::sys::files;

/// Time to write the queued lines: before a message of our own, and at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// Writes lines on a separate thread, so that a command ends even if nobody reads them.
#[derive(Clone)]
pub(super) struct Stderr(Sink);

impl Stderr {
    pub(super) fn start() -> io::Result<Stderr> {
        let file = files::stderr()?;
        let messages = LossMessages {
            dropped: Box::new(|count| {
                format!("duet-rpc: dropped {count} lines here because nobody read them in time\n")
            }),
            // stderr is the only place for a message about stderr.
            broken: Box::new(|_| String::new()),
        };
        Ok(Stderr(Sink::start(file, None, messages)?))
    }

    /// Queues a line from the server, or drops it if the queue is full.
    pub(super) fn pass_on(&self, line: &str) {
        self.0.push(&format!("{line}\n"));
    }

    /// Queues a message about the server's messages, or drops it if the queue is full.
    pub(super) fn note(&self, what: &str) {
        self.0.push(&format!("duet-rpc: {what}\n"));
    }

    /// Queues a message of our own. The flush makes room, so that it is not dropped.
    pub(super) fn say(&self, what: &str) {
        self.flush();
        self.0.push(&format!("duet-rpc: {what}\n"));
    }

    /// Waits until all lines are written, for a bounded time.
    pub(super) fn flush(&self) {
        self.0.flush(FLUSH_TIMEOUT);
    }
}
