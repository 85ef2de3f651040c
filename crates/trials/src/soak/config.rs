//! The configuration of a connection: profile, transport and framing, and their consequences.

use crate::harness::prelude::*;

/// Maximum message size that the daemon is configured with. A small limit is reached sooner, and
/// tests the same as a large one.
pub(super) const MESSAGE_LIMIT: usize = 128 * 1024;
/// Maximum size of a header section (F13).
pub(super) const HEADER_LIMIT: usize = 8192;
/// Maximum number of concurrent requests.
pub(super) const IN_FLIGHT: usize = 256;
/// Number of consecutive faults that get an error response (rule F7); later ones are only counted.
pub(super) const STORM: usize = 1000;
/// Maximum number of entries in a batch (M6).
pub(super) const BATCH: usize = 1000;
/// Maximum nesting of a text (M9).
pub(super) const DEPTH: usize = 128;
/// Number of threads for slow handlers.
pub(super) const POOL: u64 = 32;
/// Duration of a sleep that outlasts every run, in milliseconds.
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

    /// Returns true if the profile has more than the six basic methods.
    pub(super) fn has_system(self) -> bool {
        self.profile != Profile::Editor
    }

    pub(super) fn has_callback(self) -> bool {
        self.profile == Profile::Agent && !self.is_http()
    }

    pub(super) fn has_events(self) -> bool {
        self.has_system() && !self.is_http()
    }

    /// White space to insert into a text, chosen at random. `ndjson` allows no line breaks.
    pub(super) fn blanks(self) -> &'static [&'static str] {
        match self.framing {
            Framing::Ndjson => &["", "", "", " ", "\t", "  "],
            _ => &["", "", "", " ", "\n", "\r\n\t"],
        }
    }

    /// Framing on the wire: that of WebSocket or HTTP on these transports, otherwise `framing`.
    pub(super) fn carrier(self) -> Framing {
        self.over.carrier(self.framing)
    }

    pub(super) fn is_ws(self) -> bool {
        self.over == Transport::Ws
    }

    /// Returns true for HTTP: its connection waits for a response, so it cannot carry a cancellation.
    pub(super) fn is_http(self) -> bool {
        self.over == Transport::Http
    }

    /// Returns true if the daemon has only this connection.
    pub(super) fn is_alone(self) -> bool {
        self.over == Transport::Stdio
    }
}
