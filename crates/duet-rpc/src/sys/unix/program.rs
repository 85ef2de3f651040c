//! The file of a program: the system finds it.

use tokio::process::Command;

/// `None`: the system has searched every name.
pub(crate) fn with_file_found(_: &Command) -> Option<Command> {
    None
}
