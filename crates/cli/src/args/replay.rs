//! The options of `replay`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use duet_rpc::transport::Address;

use super::{CallTlsArgs, CompareArgs, FramingName, elsewhere, fixed_framing, seconds};

/// Play a recorded client against a server, and compare the answers
///
/// The recording is a trace of `duet-rpc tap`. Each message of the client is sent once the server has said
/// what it had said before it in the recording. Values that the server made up, such as session ids, are
/// learned, and the client sends the new ones. Requests of the server get the recorded answers.
///
/// The differences go to stdout: pairs that changed, are missing, extra or slower.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// Recording: a trace file, or `-` for stdin
    pub(crate) file: PathBuf,
    /// Server to start, with its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "connect")]
    pub(crate) command: Vec<OsString>,
    /// Time at which messages are sent
    #[arg(long, value_name = "PACE", default_value = "asap")]
    pub(crate) pace: PaceName,
    /// Replace a text in strings of the client, such as a path; can be given several times
    ///
    /// The server's messages are compared with NEW replaced by OLD.
    #[arg(long, value_name = "OLD=NEW", value_parser = mapping)]
    pub(crate) map: Vec<(String, String)>,
    /// Send values back as they were recorded, even if the server made up others
    #[arg(long)]
    pub(crate) no_learn: bool,
    /// Time to wait for an answer; 0 means no limit
    #[arg(long, allow_negative_numbers = true, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// Time of silence after which the replay goes on without a notification or request of the server
    #[arg(long, allow_negative_numbers = true, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(crate) patience: Duration,
    /// Format of the report
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: ReplayFormat,
    /// Write the new session to this trace file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["copies", "repeat"])]
    pub(crate) to: Option<PathBuf>,
    /// Replace the recording by the new session
    #[arg(long, conflicts_with_all = ["copies", "repeat"])]
    pub(crate) update: bool,
    /// Number of clients at the same time, each with its own server or connection
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) copies: Option<u32>,
    /// Number of sessions of each client, one after the other
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) repeat: Option<u32>,
    /// Framing of messages [default: the framing of the recording]
    #[arg(long, value_name = "FRAMING", value_parser = fixed_framing())]
    pub(crate) framing: Option<FramingName>,
    /// Address of the server: tcp://, tls://, unix://, ws://, wss://, http://, https:// or nats://
    #[arg(long, value_name = "URL", value_parser = elsewhere, conflicts_with = "command")]
    pub(crate) connect: Option<Address>,
    /// File with the bearer token to send, over ws and http
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub(crate) token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) compare: CompareArgs,
    #[command(flatten)]
    pub(crate) tls: CallTlsArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PaceName {
    /// As soon as the server has said what it had said before
    Asap,
    /// Also not earlier than in the recording
    Recorded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReplayFormat {
    /// Lines for people
    Text,
    /// One JSON object
    Json,
    /// JUnit XML, for test reports
    Junit,
}

const EXAMPLES: &str = "\
Examples:
  duet-rpc replay session.jsonl -- clangd
  duet-rpc replay session.jsonl --map /home/ada/app=$PWD --ignore /result/pid -- some-server
  duet-rpc replay golden.jsonl --format junit --connect tcp://127.0.0.1:4000 > report.xml
  duet-rpc replay golden.jsonl --update -- some-server
  duet-rpc replay session.jsonl --copies 50 --repeat 20 --connect ws://127.0.0.1:4000/

Exit codes: 0 the same, 1 different, or the recording cannot be used, 4 no answer in time, 5 the
server could not be started or reached, 6 it ended too early or sent bytes that are not messages.";

/// Parses OLD=NEW.
pub(super) fn mapping(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((old, new)) if !old.is_empty() => Ok((old.to_owned(), new.to_owned())),
        _ => Err("expected OLD=NEW, such as /home/ada/app=/tmp/app".to_owned()),
    }
}
