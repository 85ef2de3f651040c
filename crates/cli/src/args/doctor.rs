//! The options of `doctor`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::{FramingName, ProtocolName, fixed_framing, seconds};

/// Check this installation, or the server after `--`, and print a report
///
/// Without a command: starts the daemon in each profile, makes two calls, closes its stdin, and checks every
/// byte of its stdout. With a command: checks how that server treats unknown methods, broken messages,
/// cancellations, the end of its input and signals, what it writes to stdout, and which processes it leaves behind.
/// Prints a table for a bug report. Exits with 0 only if no check found a fault; warnings are allowed.
#[derive(Debug, clap::Args)]
#[command(after_help = CHECKS)]
pub(crate) struct DoctorArgs {
    /// Path of the copy of this program to check [default: this one]
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub(crate) program: Option<PathBuf>,
    /// Protocol of the server: its first messages, and the rules to check [default: detected]
    ///
    /// Without this option and `--framing`, doctor starts the server twice, sends it the first message of both
    /// protocols, and uses the one that it answers. A server that answers neither way is checked without a handshake.
    #[arg(long, value_name = "PROTOCOL", requires = "command")]
    pub(crate) handshake: Option<ProtocolName>,
    /// Framing of messages [default: that of the handshake]
    #[arg(long, value_name = "FRAMING", requires = "command", value_parser = fixed_framing())]
    pub(crate) framing: Option<FramingName>,
    /// Time to wait for each answer
    #[arg(long, value_name = "SECONDS", requires = "command", default_value = "10", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// Server to check, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

const CHECKS: &str = "\
Examples:
  duet-rpc doctor
  duet-rpc doctor -- clangd
  duet-rpc doctor --handshake mcp -- some-mcp-server
  duet-rpc doctor --framing lsp -- my-server --stdio

Exit codes: 0 no fault, 1 a fault, 5 the server could not be started.";
