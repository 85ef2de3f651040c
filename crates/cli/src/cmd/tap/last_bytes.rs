//! The last bytes of a server that has ended, on their way to a client that does not read.
//!
//! Without the tap, the bytes that a server wrote before its end stay in the pipe, and the server is gone
//! all the same. Here some of them are still in the pipe between the server and the tap.
//!
//! | event, after the end of the server | action |
//! |---|---|
//! | stdout and stderr have passed | the tap ends |
//! | they have not after `PROMPT` | the client's pipes are enlarged to take the rest, and the tap ends |
//! | they are not pipes, or cannot hold it | the tap waits for the client |
//! | a signal came before the end, and the client takes nothing | the tap ends after `ASKED` |
//! | a signal arrives | the tap ends, because nobody else would obey it |

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::sys::tap_stdio;

/// The time in which a client that reads has the last bytes.
const PROMPT: Duration = Duration::from_millis(10);

/// The time that a client has for the last bytes after it has asked for the end.
const ASKED: Duration = Duration::from_secs(2);

/// The longest wait; a client may take longer.
const LONG: Duration = Duration::from_secs(3600);

/// Reports to the thread that waits for the last bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndReport {
    /// All bytes of stdout, or of stderr, have passed.
    Passed,
    /// A signal has arrived.
    Signal,
}

/// The bytes of the two outputs that have not passed yet.
pub(super) struct LastBytes {
    reports: Receiver<EndReport>,
    tell: Sender<EndReport>,
    outputs: usize,
}

impl LastBytes {
    pub(super) fn new() -> Self {
        let (tell, reports) = channel();
        LastBytes { reports, tell, outputs: 2 }
    }

    /// A handle that reports from another thread.
    pub(super) fn reporter(&self) -> Sender<EndReport> {
        self.tell.clone()
    }

    /// Waits until all bytes of the server have passed, or a signal arrives. The server has ended.
    pub(super) fn wait(mut self) {
        // The server got the signals that came before.
        let mut is_asked = false;
        while let Ok(report) = self.reports.try_recv() {
            self.outputs -= usize::from(report == EndReport::Passed);
            is_asked |= report == EndReport::Signal;
        }
        let mut is_enlarged = false;
        while self.outputs > 0 {
            let time = match (is_enlarged, is_asked) {
                (false, _) => PROMPT,
                (true, true) => ASKED,
                (true, false) => LONG,
            };
            match self.reports.recv_timeout(time) {
                Ok(EndReport::Passed) => self.outputs -= 1,
                Ok(EndReport::Signal) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) if is_enlarged && is_asked => return,
                Err(RecvTimeoutError::Timeout) => {
                    is_enlarged = true;
                    tap_stdio::enlarge_outputs();
                }
            }
        }
    }
}
