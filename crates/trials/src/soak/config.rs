//! What is put to the test: a profile over a transport, and what that means for who talks to it.

use std::fmt;

use super::connection::Carrier;
use super::ledger::Order;
use crate::wire::Framing;

/// Who the client is (C3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// One after the other, strict.
    Editor,
    /// One after the other, with events.
    Desktop,
    /// Side by side, in both directions.
    Agent,
}

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The pipes of the process.
    Stdio,
    /// Many TCP connections.
    Tcp,
    /// Many connections to a Unix socket.
    Unix,
    /// Many WebSockets.
    Ws,
    /// Many HTTP connections.
    Http,
}

/// Every profile, by its name.
pub(super) const PROFILES: [(&str, Profile); 3] =
    [("editor", Profile::Editor), ("desktop", Profile::Desktop), ("agent", Profile::Agent)];

/// Every transport, by its name.
pub(super) const TRANSPORTS: [(&str, Over); 5] = [
    ("stdio", Over::Stdio),
    ("tcp", Over::Tcp),
    ("unix", Over::Unix),
    ("ws", Over::Ws),
    ("http", Over::Http),
];

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = PROFILES.iter().find(|(_, profile)| profile == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = TRANSPORTS.iter().find(|(_, over)| over == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

/// The longest message that the daemon is told to accept: as much happens at a small limit as at a large
/// one, and sooner.
pub(super) const MESSAGE_LIMIT: usize = 128 * 1024;
/// The longest header section (F13).
pub(super) const HEADER_LIMIT: usize = 8192;
/// How many requests may be under way side by side.
pub(super) const IN_FLIGHT: usize = 256;
/// How many faults in a row are answered (F7).
pub(super) const STORM: usize = 1000;
/// How many entries a batch may have (M6).
pub(super) const BATCH: usize = 1000;
/// How deep a text may be nested (M9).
pub(super) const DEPTH: usize = 128;
/// How many threads there may be for handlers that are slow.
pub(super) const POOL: u64 = 32;

/// The config on which a connection talks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) profile: Profile,
    pub(super) over: Over,
    pub(super) framing: Framing,
}

impl Config {
    pub(super) fn order(self) -> Order {
        match self.profile {
            Profile::Editor | Profile::Desktop => Order::Sequential,
            Profile::Agent => Order::Barrier,
        }
    }

    pub(super) fn has_batches(self) -> bool {
        self.profile != Profile::Editor
    }

    /// Whether it has more than the six methods.
    pub(super) fn has_system(self) -> bool {
        self.profile != Profile::Editor
    }

    pub(super) fn has_callback(self) -> bool {
        self.profile == Profile::Agent && self.over != Over::Http
    }

    pub(super) fn has_events(self) -> bool {
        self.has_system() && self.over != Over::Http
    }

    /// How messages are cut out of a connection.
    pub(super) fn carrier(self) -> Carrier {
        match self.over {
            Over::Ws => Carrier::Ws,
            _ => Carrier::Stream(self.framing),
        }
    }

    /// Whether this connection is all that the daemon has.
    pub(super) fn is_alone(self) -> bool {
        self.over == Over::Stdio
    }
}

impl Profile {
    /// The framing that it has if nothing else is said.
    pub fn framing(self) -> Framing {
        match self {
            Profile::Editor => Framing::Lsp,
            Profile::Desktop => Framing::Length,
            Profile::Agent => Framing::Ndjson,
        }
    }
}
