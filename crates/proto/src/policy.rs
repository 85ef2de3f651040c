//! What a connection does where the specification leaves a choice, and the three presets.

use std::time::Duration;

use crate::Limits;
use crate::frame::{Framing, FramingChoice};

/// Whether an array of messages is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchRule {
    /// Any array is an invalid request.
    Reject,
    /// Arrays are served, as JSON-RPC 2.0 says in its section 6.
    Allow,
}

/// All settings of a connection.
///
/// ```
/// use duet_rpc_proto::{Profile, policy::BatchRule};
///
/// let profile = Profile { batch: BatchRule::Allow, ..Profile::editor() };
/// assert_eq!(profile.limits.message_bytes, 10 * 1024 * 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// How messages are cut out of the stream.
    pub framing: FramingChoice,
    /// Whether batches are served.
    pub batch: BatchRule,
    /// How long a frame may take from its first byte to its last; `None` for ever.
    pub read_timeout: Option<Duration>,
    /// What bounds memory and work.
    pub limits: Limits,
}

impl Profile {
    const READ_TIMEOUT: Option<Duration> = Some(Duration::from_secs(30));

    /// For an editor that starts a backend: `Content-Length` headers, strict.
    pub fn editor() -> Profile {
        let limits = Limits { message_bytes: 10 * 1024 * 1024, ..Limits::default() };
        Profile {
            framing: Framing::Lsp.into(),
            batch: BatchRule::Reject,
            read_timeout: Self::READ_TIMEOUT,
            limits,
        }
    }

    /// For a desktop shell that starts its core: a length prefix.
    pub fn desktop() -> Profile {
        Profile {
            framing: Framing::Length.into(),
            batch: BatchRule::Allow,
            read_timeout: Self::READ_TIMEOUT,
            limits: Limits::default(),
        }
    }

    /// For an agent and its tools: a message a line.
    pub fn agent() -> Profile {
        Profile { framing: Framing::Ndjson.into(), ..Self::desktop() }
    }
}
