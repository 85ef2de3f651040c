//! The options of `tap`.

use std::ffi::OsString;
use std::path::PathBuf;

use duet_rpc::transport::Address;

use super::{FaultArgs, FramingName, elsewhere, size};

/// Record what a client and a server say to each other
///
/// Put `duet-rpc tap --` before the command of a server, in the configuration of its client. The tap
/// starts the server and forwards every byte, unchanged and immediately. It records the messages in a
/// trace file: `duet-rpc trace cat` gives back the bytes.
///
/// The exit code is that of the server. A signal to the tap goes to the server. When the server ends,
/// or the tap is killed, no process of the server is left behind.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TapArgs {
    /// Server to start, with its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present_any = ["connect", "listen"])]
    pub(crate) command: Vec<OsString>,
    /// File or folder for the trace [default: duet-rpc/traces in the user's state directory]
    ///
    /// FILE is replaced by each run; give a folder to keep every session. A file that is not a trace is never
    /// replaced. If another tap writes FILE, the trace gets the next free name beside it.
    #[arg(long, value_name = "PATH", conflicts_with = "no_record")]
    pub(crate) to: Option<PathBuf>,
    /// Do not record: only forward, and leave no process of the server behind
    #[arg(long)]
    pub(crate) no_record: bool,
    /// Show the session on a live web page, and print its address to stderr; see `duet-rpc watch`
    #[arg(long, conflicts_with = "no_record")]
    pub(crate) web: bool,
    /// Framing of messages
    #[arg(long, value_name = "FRAMING", default_value = "auto")]
    pub(crate) framing: FramingName,
    /// Replace values in the trace: a member's name, or a JSON pointer such as /params/token
    #[arg(long, value_name = "KEY")]
    pub(crate) redact: Vec<String>,
    /// Replace matches of a regular expression in the trace
    #[arg(long, value_name = "REGEX")]
    pub(crate) redact_value: Vec<String>,
    /// Keep credentials of HTTP and WebSocket heads in the trace: Authorization, cookies, tokens
    #[arg(long)]
    pub(crate) keep_credentials: bool,
    /// Maximum size of a recorded body, such as 64k; longer ones are cut
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_body: Option<u64>,
    /// Size at which the next trace file begins, such as 100m
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_file: Option<u64>,
    /// Number of traces to keep in the folder [default: 100 in the default folder, else all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: Option<u32>,
    /// Memory for bytes that are not recorded yet; when it is full, records are lost, never bytes
    #[arg(long, value_name = "SIZE", default_value = "64m", value_parser = size)]
    pub(crate) buffer: u64,
    /// Address to listen on, for clients that connect: tcp://, unix://, ws:// or http://
    #[arg(long, value_name = "URL", value_parser = elsewhere, requires = "connect")]
    pub(crate) listen: Option<Address>,
    /// Address of the server to forward to
    #[arg(long, value_name = "URL", value_parser = elsewhere, requires = "listen", conflicts_with = "command")]
    pub(crate) connect: Option<Address>,
    /// Allow addresses that other machines can reach for --listen
    #[arg(long, requires = "listen")]
    pub(crate) allow_remote: bool,
    #[command(flatten)]
    pub(crate) faults: FaultArgs,
}

const EXAMPLES: &str = "\
Examples:
  duet-rpc tap -- clangd --log=error
  duet-rpc tap --to session.jsonl --redact token -- npx some-mcp-server
  duet-rpc tap --web -- clangd
  duet-rpc tap --listen tcp://127.0.0.1:4001 --connect tcp://127.0.0.1:4000
  duet-rpc tap --no-record -- some-server
  duet-rpc tap --fault 'delay=200ms method:textDocument/hover p:0.1' --seed 7 -- clangd
  duet-rpc tap --fault 'error=-32603:\"try again\" kind:request every:10' -- some-server";

/// The process between the tap and the server; see `cmd/tap/guard.rs`.
#[derive(Debug, clap::Args)]
pub(crate) struct GuardArgs {
    #[arg(last = true)]
    pub(crate) command: Vec<OsString>,
}

/// The process that becomes the server; see `cmd/tap/launch.rs`.
#[derive(Debug, clap::Args)]
pub(crate) struct LaunchArgs {
    /// The process id of the guard.
    #[arg(long)]
    pub(crate) parent: u32,
    #[arg(last = true)]
    pub(crate) command: Vec<OsString>,
}
