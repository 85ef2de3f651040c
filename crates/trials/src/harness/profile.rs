//! Profiles and transports of the daemon, under their command-line names.

use crate::harness::prelude::*;

/// A profile of the daemon (C3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// Sequential order, six methods, no batches.
    Editor,
    /// Sequential order, with events.
    Desktop,
    /// Concurrent order, calls in both directions.
    Agent,
}

/// A transport of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// stdin and stdout.
    Stdio,
    /// TCP connections.
    Tcp,
    /// Connections to a Unix socket.
    Unix,
    /// WebSockets.
    Ws,
    /// HTTP connections.
    Http,
}

impl Profile {
    /// Default framing of the profile.
    pub fn framing(self) -> Framing {
        match self {
            Profile::Editor => Framing::Lsp,
            Profile::Desktop => Framing::Length,
            Profile::Agent => Framing::Ndjson,
        }
    }

    /// Returns true if answers keep the order of their requests (L2).
    pub(crate) fn is_sequential(self) -> bool {
        self != Profile::Agent
    }
}

impl Transport {
    /// Address to listen on; a Unix socket is in this folder. `None` for stdio.
    pub(crate) fn url(self, folder: &Path) -> Option<String> {
        match self {
            Transport::Stdio => None,
            Transport::Tcp => Some("tcp://127.0.0.1:0".to_owned()),
            Transport::Unix => Some(format!("unix://{}/socket", folder.display())),
            Transport::Ws | Transport::Http => Some(format!("{self}://127.0.0.1:0/")),
        }
    }

    /// Framing on a connection, if streams have `framing`.
    pub(crate) fn carrier(self, framing: Framing) -> Framing {
        match self {
            Transport::Ws => Framing::Ws,
            Transport::Http => Framing::Http,
            _ => framing,
        }
    }
}

/// Displays a value by its command-line name.
macro_rules! show_by_name {
    ($($type:ty),*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.to_possible_value().map_or(Ok(()), |it| f.pad(it.get_name()))
            }
        }
    )*};
}

show_by_name!(Profile, Transport, Framing);
