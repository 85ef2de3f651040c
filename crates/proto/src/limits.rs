//! Every number that bounds memory or work, with its default.

use crate::text::MAX_DEPTH;

/// What a peer may make us hold or do: [F3](crate::specification#f3), [M9](crate::specification#m9) and
/// [P9](crate::specification#p9) of the specification.
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
    /// The longest message, in bytes of JSON. More than [`Limits::MAX_MESSAGE_BYTES`] counts as
    /// that.
    pub message_bytes: usize,
    /// The longest header section of the `lsp` framing: all header lines with their line ends.
    /// More than [`Limits::MAX_HEADER_BYTES`] counts as that.
    pub header_bytes: usize,
    /// The deepest nesting of objects and arrays, of which the outermost is level 1. More than
    /// [`Limits::MAX_DEPTH`] counts as that.
    pub depth: usize,
    /// The most entries of a batch.
    pub batch_entries: usize,
    /// How many faults and invalid messages in a row are answered one by one.
    pub answered_faults: u32,
    /// The most requests that run or wait to run at the same time; more are answered busy. Under
    /// sequential order one runs, whatever this says, and [`Limits::waiting`] bounds the rest.
    pub in_flight: usize,
    /// How many requests may wait for their turn before nothing more is read; 0 counts as 1, here
    /// and in the next.
    pub waiting: usize,
    /// How many bytes the messages that wait for their turn may take before nothing more is read.
    pub waiting_bytes: usize,
    /// The most calls of ours that wait for an answer; one more fails at once.
    pub pending_calls: usize,
    /// How many bytes may wait to be sent before no further request is begun, and who wants to
    /// send has to wait; 0 counts as 1.
    pub outgoing_bytes: usize,
    /// How large the answers to the batches that are under way may get, in all, before the rest of
    /// their requests is answered busy.
    pub batch_bytes: usize,
}

impl Limits {
    /// The greatest message limit: 2 GiB less one byte, so that no sum of lengths overflows on a
    /// small machine, and the largest length prefix is over every limit.
    pub const MAX_MESSAGE_BYTES: usize = i32::MAX as usize;

    /// The greatest limit of a header section.
    pub const MAX_HEADER_BYTES: usize = 1024 * 1024;

    /// The greatest depth limit.
    pub const MAX_DEPTH: usize = MAX_DEPTH;

    /// The same limits with a change, as one expression.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Limits)) -> Limits {
        change(&mut self);
        self
    }

    /// The same, with 1 in place of each 0 with which nothing at all could be read or sent.
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
