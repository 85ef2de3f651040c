//! What the flags come to.

use std::time::Duration;

use duet_rpc::Profile;
use duet_rpc::proto::frame::{Framing, FramingChoice};
use duet_rpc::proto::policy::BatchRule;

use crate::args::{BatchName, FramingName, ProfileName, RpcArgs};

impl ProfileName {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ProfileName::Editor => "editor",
            ProfileName::Desktop => "desktop",
            ProfileName::Agent => "agent",
        }
    }

    pub(crate) fn profile(self) -> Profile {
        match self {
            ProfileName::Editor => Profile::editor(),
            ProfileName::Desktop => Profile::desktop(),
            ProfileName::Agent => Profile::agent(),
        }
    }
}

impl FramingName {
    pub(crate) fn choice(self) -> FramingChoice {
        match self {
            FramingName::Lsp => Framing::Lsp.into(),
            FramingName::Ndjson => Framing::Ndjson.into(),
            FramingName::Length => Framing::Length.into(),
            FramingName::Auto => FramingChoice::Auto,
        }
    }
}

/// A profile, with each piece that an option overrides (C3).
pub(crate) fn profile(args: &RpcArgs) -> Profile {
    let mut profile = args.profile.profile();
    if let Some(framing) = args.framing {
        profile.framing = framing.choice();
    }
    if let Some(bytes) = args.max_message_bytes {
        profile.limits.message_bytes = bytes as usize;
    }
    if let Some(timeout) = args.read_timeout {
        profile.read_timeout = limited(timeout);
    }
    if let Some(batch) = args.batch {
        profile.batch = match batch {
            BatchName::Reject => BatchRule::Reject,
            BatchName::Allow => BatchRule::Allow,
        };
    }
    match args.max_in_flight {
        Some(count) => profile.with_in_flight(count as usize),
        None => profile,
    }
}

/// Zero on the command line stands for no limit.
pub(crate) fn limited(time: Duration) -> Option<Duration> {
    Some(time).filter(|time| !time.is_zero())
}
