//! Log sink: writes lines to a file or to stderr, on a separate thread (G1, L8).
//!
//! Logging must never wait for the reader of the log. So lines go to a bounded buffer, and a thread writes
//! them. If it cannot keep up, lines are dropped and counted. The thread writes the count as soon as it can
//! write again.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duet_rpc::threads;

use crate::sys::files;

/// Maximum number of bytes that wait to be written.
const MAX_WAITING: usize = 256 * 1024;
/// Buffer capacity to keep for the next lines.
const KEPT: usize = 16 * 1024;

/// Queue of lines. Adding a line never blocks.
#[derive(Clone)]
pub(crate) struct Sink(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Wakes the writer.
    more: Condvar,
    /// Signals that everything is written.
    done: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    /// Lines dropped since the last line that was taken.
    dropped: u64,
    is_writing: bool,
}

/// Makes the lines that report lost lines.
pub(crate) struct LossMessages {
    /// Reports the number of dropped lines.
    pub(crate) dropped: Box<dyn Fn(u64) -> String + Send>,
    /// Reports that the file cannot be written.
    pub(crate) broken: Box<dyn Fn(&io::Error) -> String + Send>,
}

impl Sink {
    /// Starts the writer thread. If the file cannot be written, the thread reports that once to `emergency`.
    pub(crate) fn start(
        file: File,
        emergency: Option<File>,
        messages: LossMessages,
    ) -> io::Result<Sink> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::default()),
            more: Condvar::new(),
            done: Condvar::new(),
        });
        let writer = Writer {
            shared: Arc::clone(&shared),
            file,
            emergency,
            messages,
            lost: 0,
            is_torn: false,
        };
        threads::spawn("duet-rpc log", move || writer.run())?;
        Ok(Sink(shared))
    }

    /// Queues a line, or drops it if the buffer is full.
    pub(crate) fn push(&self, line: &str) {
        let mut state = self.0.state();
        if state.waiting.len() + line.len() > MAX_WAITING {
            state.dropped += 1;
            return;
        }
        state.waiting.extend_from_slice(line.as_bytes());
        drop(state);
        self.0.more.notify_one();
    }

    /// Waits until everything is written, at most for this time.
    pub(crate) fn flush(&self, at_most: Duration) {
        let is_busy = |state: &mut State| !state.is_done();
        let state = self.0.state();
        drop(self.0.done.wait_timeout_while(state, at_most, is_busy));
    }
}

impl State {
    fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.dropped == 0 && !self.is_writing
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer thread.
struct Writer {
    shared: Arc<Shared>,
    file: File,
    emergency: Option<File>,
    messages: LossMessages,
    /// Lines that could not be written.
    lost: u64,
    /// True if the last line in the file is incomplete.
    is_torn: bool,
}

impl Writer {
    fn run(mut self) {
        let mut lines = Vec::new();
        loop {
            let dropped = self.take(&mut lines);
            self.write(&lines);
            if dropped > 0 {
                // These lines came after the ones just written.
                self.write((self.messages.dropped)(dropped).as_bytes());
            }
            lines.clear();
            lines.shrink_to(KEPT);
        }
    }

    /// Waits for lines, and takes all of them. Returns the number of dropped lines.
    fn take(&self, lines: &mut Vec<u8>) -> u64 {
        let mut state = self.shared.state();
        state.is_writing = false;
        if state.is_done() {
            self.shared.done.notify_all();
        }
        let is_idle = |state: &mut State| state.is_done();
        let woken = self.shared.more.wait_while(state, is_idle);
        let mut state = woken.unwrap_or_else(PoisonError::into_inner);
        state.is_writing = true;
        std::mem::swap(&mut state.waiting, lines);
        std::mem::take(&mut state.dropped)
    }

    fn write(&mut self, lines: &[u8]) {
        if lines.is_empty() {
            return;
        }
        if std::mem::take(&mut self.is_torn) && self.write_all(b"\n").is_err() {
            self.is_torn = true;
        }
        match self.write_all(lines) {
            Ok(()) => {
                let lost = std::mem::take(&mut self.lost);
                if lost > 0 {
                    self.write((self.messages.dropped)(lost).as_bytes());
                }
            }
            Err((written, error)) => self.handle_failure(lines, written, &error),
        }
    }

    /// Counts lines that cannot be written as lost. Later lines may succeed again.
    fn handle_failure(&mut self, lines: &[u8], written: usize, error: &io::Error) {
        let (before, after) = lines.split_at(written.min(lines.len()));
        self.lost += after.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.is_torn = before.last().map_or(self.is_torn, |&byte| byte != b'\n');
        if let Some(mut emergency) = self.emergency.take() {
            let _ = emergency.write_all((self.messages.broken)(error).as_bytes());
        }
    }

    /// Writes all bytes, or returns the number of bytes written before the error.
    fn write_all(&mut self, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            match self.file.write(rest) {
                Ok(0) => return Err((written, ErrorKind::WriteZero.into())),
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A process that shares stderr with us may have made it non-blocking.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    files::wait_for_room(&self.file).map_err(|error| (written, error))?;
                }
                Err(error) => return Err((written, error)),
            }
        }
        Ok(())
    }
}

#[cfg(all(test, unix))]
#[path = "sink_tests.rs"]
mod tests;
