//! Bytes that are not messages: a client gets an answer, and those of a server are logged (B5).

use duet_rpc::proto::fault::{Fault, FaultKind};
use duet_rpc::proto::message::Reply;

/// The number of faults in a row that are answered; a storm of answers could provoke more faults.
const MOST_ANSWERED: u32 = 1000;

/// The number of faults that are logged for a connection.
const MOST_LOGGED: u32 = 10;

/// Counts the faults of one side of a connection.
#[derive(Debug, Default)]
pub(super) struct FaultCount {
    in_a_row: u32,
    logged: u32,
}

impl FaultCount {
    /// The answer to a fault of a client; `None` after too many of them.
    pub(super) fn reply(&mut self, fault: &Fault<'_>) -> Option<Vec<u8>> {
        self.in_a_row = self.in_a_row.saturating_add(1);
        if self.in_a_row > MOST_ANSWERED {
            return None;
        }
        let mut answer = Vec::new();
        Reply::to_fault(fault).write(&mut answer);
        Some(answer)
    }

    /// A message came.
    pub(super) fn clear(&mut self) {
        self.in_a_row = 0;
    }

    /// Logs a fault of a server. It is usually text that the program prints, and an answer makes some servers exit.
    pub(super) fn log(&mut self, fault: &Fault<'_>) {
        self.logged = self.logged.saturating_add(1);
        if self.logged > MOST_LOGGED {
            return;
        }
        match fault.kind {
            FaultKind::Oversize => tracing::warn!(
                "the server sent a message that is too large and was skipped; --max-message-bytes sets the limit"
            ),
            kind => tracing::warn!(
                "the server sent bytes that are not a message ({kind}); does --to-framing fit?"
            ),
        }
    }
}
