//! Limits on memory and work, with their defaults.

use crate::text::MAX_DEPTH;

/// Limits on the memory and work that a peer can cause: [F3](crate::specification#f3),
/// [M9](crate::specification#m9) and [P9](crate::specification#p9) of the specification.
///
/// ```
/// use duet_rpc_proto::Limits;
///
/// let limits = Limits::default().with(|it| it.message_bytes = 4096);
/// assert_eq!(limits.depth, 128);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The longest message, in bytes of JSON. At most [`Limits::MAX_MESSAGE_BYTES`]; larger values
    /// count as that.
    pub message_bytes: usize,
    /// The longest header section of the `lsp` framing: all header lines with their line ends. At
    /// most [`Limits::MAX_HEADER_BYTES`]; larger values count as that.
    pub header_bytes: usize,
    /// The deepest nesting of objects and arrays; the outermost is level 1. At most
    /// [`Limits::MAX_DEPTH`]; larger values count as that.
    pub depth: usize,
    /// Maximum number of entries in a batch.
    pub batch_entries: usize,
    /// Maximum number of faults and invalid messages in a row that are answered one by one.
    pub answered_faults: u32,
    /// Maximum number of requests that run or wait to run at the same time. Further requests are
    /// answered busy. Under sequential order always one runs, and [`Limits::waiting`] bounds the
    /// rest.
    pub in_flight: usize,
    /// Number of requests waiting for their turn at which reading stops. 0 counts as 1.
    pub waiting: usize,
    /// Bytes of messages waiting for their turn at which reading stops. 0 counts as 1.
    pub waiting_bytes: usize,
    /// Maximum number of our calls that wait for a response. A further call fails immediately.
    pub pending_calls: usize,
    /// Bytes waiting to be sent at which no further request starts and senders have to wait. 0
    /// counts as 1.
    pub outgoing_bytes: usize,
    /// Total size of the answers to unfinished batches at which their remaining requests are
    /// answered busy.
    pub batch_bytes: usize,
}

impl Limits {
    /// The greatest message limit: 2 GiB less one byte. So no sum of lengths overflows on a 32-bit
    /// machine, and the largest length prefix is over every limit.
    pub const MAX_MESSAGE_BYTES: usize = i32::MAX as usize;

    /// The greatest limit of a header section.
    pub const MAX_HEADER_BYTES: usize = 1024 * 1024;

    /// The greatest depth limit.
    pub const MAX_DEPTH: usize = MAX_DEPTH;

    /// These limits with a change, as one expression.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Limits)) -> Limits {
        change(&mut self);
        self
    }

    /// These limits with 1 in place of each 0 that would stop all reading or sending.
    #[must_use]
    pub fn usable(mut self) -> Limits {
        for limit in [&mut self.waiting, &mut self.waiting_bytes, &mut self.outgoing_bytes] {
            *limit = (*limit).max(1);
        }
        self
    }

    /// The message limit in force.
    pub(crate) fn longest_message(&self) -> usize {
        self.message_bytes.min(Self::MAX_MESSAGE_BYTES)
    }
}

impl Default for Limits {
    /// The limits of the desktop and agent profiles.
    fn default() -> Self {
        Limits {
            message_bytes: 1024 * 1024,
            header_bytes: 8 * 1024,
            depth: 128,
            batch_entries: 1000,
            answered_faults: 1000,
            in_flight: 1024,
            waiting: 1024,
            waiting_bytes: 4 * 1024 * 1024,
            pending_calls: 64 * 1024,
            outgoing_bytes: 1024 * 1024,
            batch_bytes: 16 * 1024 * 1024,
        }
    }
}
