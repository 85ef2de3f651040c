//! Settings derived from the command line.

use std::sync::OnceLock;
use std::time::Duration;

use duet_rpc::Profile;
use duet_rpc::proto::frame::{Framing, FramingChoice};
use duet_rpc::proto::policy::BatchRule;

use crate::args::{BatchName, FramingName, ProfileName, RpcArgs};
use crate::sys::processes;

/// Parent process at the start.
static PARENT: OnceLock<u32> = OnceLock::new();

/// Records the parent process. Must run first: if the parent dies during startup, its replacement looks like
/// the parent.
pub(crate) fn record_parent() {
    PARENT.get_or_init(processes::parent_id);
}

/// Process whose exit ends the daemon, if it is visible from here.
///
/// A shell that runs a single command may replace itself with that command, as `bash -c` does. If the shell
/// passed its own id, that id is now ours, and the parent is meant.
pub(crate) fn process_to_end_with(args: &RpcArgs) -> Option<u32> {
    let parent = || PARENT.get().copied().filter(|&id| id > 0);
    let named = args.exit_with_parent?.filter(|&id| id != std::process::id());
    named.or_else(parent)
}

impl ProfileName {
    /// Name on the command line.
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

/// The profile with all overrides from the command line (C3).
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
        Some(count) => profile.max_in_flight(count as usize),
        None => profile,
    }
}

/// Converts a timeout: zero means no limit.
pub(crate) fn limited(time: Duration) -> Option<Duration> {
    Some(time).filter(|time| !time.is_zero())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, ValueEnum};
    use duet_rpc::proto::policy::BatchRule;

    use crate::args::{Args, ProfileName};

    /// The table in the help is handwritten, so this test compares it with the profiles.
    #[test]
    fn c3_help_of_rpc_matches_the_profiles() {
        let mut command = Args::command();
        let rpc = command.find_subcommand_mut("rpc").expect("the command exists");
        let help = rpc.render_long_help().to_string();
        let row = |name: &str| -> Vec<String> {
            let mut rows = help.lines().map(str::split_whitespace);
            let row =
                rows.find_map(|mut row| row.next().filter(|first| *first == name).map(|_| row));
            row.expect(name).map(str::to_owned).collect()
        };
        for (place, name) in ProfileName::value_variants().iter().enumerate() {
            let profile = name.profile();
            let batch = if profile.batch == BatchRule::Allow { "allow" } else { "reject" };
            let timeout = profile.read_timeout.expect("each has one").as_secs();
            for (option, value) in [
                ("framing", profile.framing.to_string()),
                ("batch", batch.to_owned()),
                ("max-message-bytes", profile.limits.message_bytes.to_string()),
                ("read-timeout", timeout.to_string()),
                ("max-in-flight", profile.limits.in_flight.to_string()),
            ] {
                assert_eq!(row(option)[place], value, "{option} of {}", name.name());
            }
        }
    }
}
