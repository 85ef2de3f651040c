//! The configuration of a connection: profile, transport and framing, and what follows from them.

use crate::harness::prelude::*;

/// The longest message that the daemon is told to accept. A small limit is reached sooner, and shows as much.
pub(super) const MESSAGE_LIMIT: usize = 128 * 1024;
/// The longest header section (F13).
pub(super) const HEADER_LIMIT: usize = 8192;
/// The number of requests that may run concurrently.
pub(super) const IN_FLIGHT: usize = 256;
/// The number of faults in a row that are answered (F7).
pub(super) const STORM: usize = 1000;
/// The number of entries that a batch may have (M6).
pub(super) const BATCH: usize = 1000;
/// The deepest nesting of a text (M9).
pub(super) const DEPTH: usize = 128;
/// The number of threads for slow handlers.
pub(super) const POOL: u64 = 32;
/// Longer than any run that ends by itself, in milliseconds.
pub(super) const FOREVER: usize = 86_400_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) profile: Profile,
    pub(super) over: Transport,
    pub(super) framing: Framing,
}

impl Config {
    pub(super) fn has_batches(self) -> bool {
        self.profile != Profile::Editor
    }

    /// Whether it has more than the six methods.
    pub(super) fn has_system(self) -> bool {
        self.profile != Profile::Editor
    }

    pub(super) fn has_callback(self) -> bool {
        self.profile == Profile::Agent && !self.is_http()
    }

    pub(super) fn has_events(self) -> bool {
        self.has_system() && !self.is_http()
    }

    /// White space that may stand in a text.
    pub(super) fn blanks(self) -> &'static [&'static str] {
        match self.framing {
            Framing::Ndjson => &["", "", "", " ", "\t", "  "],
            _ => &["", "", "", " ", "\n", "\r\n\t"],
        }
    }

    /// How messages are cut out of a connection.
    pub(super) fn carrier(self) -> Framing {
        self.over.carrier(self.framing)
    }

    pub(super) fn is_ws(self) -> bool {
        self.over == Transport::Ws
    }

    /// Where each message has a response, so that none can be cancelled on its connection.
    pub(super) fn is_http(self) -> bool {
        self.over == Transport::Http
    }

    /// Whether the daemon has only this connection.
    pub(super) fn is_alone(self) -> bool {
        self.over == Transport::Stdio
    }
}
