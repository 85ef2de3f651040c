//! Our stderr, which we share with the server.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::logging::{Sink, Words};

/// How long what waits may take to be written, before something of our own is said and at the end.
const PATIENCE: Duration = Duration::from_millis(500);

/// Writes lines on a thread of its own, so that a call ends also if nobody reads them.
#[derive(Clone)]
pub(super) struct Stderr(Sink);

impl Stderr {
    pub(super) fn start() -> io::Result<Stderr> {
        let file = io::stderr().as_fd().try_clone_to_owned().map(File::from)?;
        let words = Words {
            dropped: Box::new(|count| {
                format!("duet-rpc: {count} lines were left out here, as nobody read them in time\n")
            }),
            // There is no other place to tell.
            broken: Box::new(|_| String::new()),
        };
        Ok(Stderr(Sink::start(file, None, words)?))
    }

    /// Passes on a line of the server's, if there is room for it.
    pub(super) fn pass_on(&self, line: &str) {
        self.0.push(&format!("{line}\n"));
    }

    /// Says something of our own, which must not be left out.
    pub(super) fn say(&self, what: &str) {
        self.flush();
        self.0.push(&format!("duet-rpc: {what}\n"));
    }

    /// Waits until all is written, but not for long.
    pub(super) fn flush(&self) {
        self.0.flush(PATIENCE);
    }
}
