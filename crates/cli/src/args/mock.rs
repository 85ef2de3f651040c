//! The options of `mock`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;
use duet_rpc::transport::Address;
use duet_rpc_trace::Pointer;

use super::replay::mapping;
use super::trace::pointer;
use super::{CallTlsArgs, FaultArgs, FramingName, ListenArgs, elsewhere};

/// Play a recorded server for a client
///
/// The recording is a trace of `duet-rpc tap`. Each request gets the recorded answer to the request with the
/// same method and params. Notifications and requests of the server are sent where they came. Clients use
/// stdin and stdout, or connect to the addresses of `--listen`; each of them gets the session from its start.
///
/// stderr says which messages are not in the recording, and how they differ.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MockArgs {
    /// Recording: a trace file
    pub(crate) file: PathBuf,
    /// Server to start and pass requests to, with --on-miss pass
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    /// Answer to a request that is not in the recording
    #[arg(long, value_name = "ANSWER", default_value = "nearest")]
    pub(crate) on_miss: OnMissName,
    /// Text of the recording, and the text of this client, such as a path; can be given several times
    #[arg(long, value_name = "OLD=NEW", value_parser = mapping)]
    pub(crate) map: Vec<(String, String)>,
    /// Accept any value of the client at a JSON pointer such as /params/processId; `*` stands for any step
    ///
    /// Where the recorded server repeats the value, this client gets its own.
    #[arg(long, value_name = "POINTER", value_parser = pointer)]
    pub(crate) ignore: Vec<Pointer>,
    /// Framing of the clients, on stdio, tcp, tls and unix
    ///
    /// A recorded server that speaks first uses the framing of the recording, if it is to be detected.
    #[arg(long, value_name = "FRAMING", default_value = "auto")]
    pub(crate) framing: FramingName,
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    /// Address of the server to pass requests to, with --on-miss pass
    #[arg(long, value_name = "URL", value_parser = elsewhere, conflicts_with = "command")]
    pub(crate) connect: Option<Address>,
    /// File with the bearer token to send to this server, over ws and http
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub(crate) to_token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: CallTlsArgs,
    #[command(flatten)]
    pub(crate) faults: FaultArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnMissName {
    /// An error
    Error,
    /// The answer to the request with this method that differs least
    Nearest,
    /// That of the server after `--`, or at --connect
    Pass,
}

const EXAMPLES: &str = "\
Examples:
  duet-rpc mock session.jsonl                              on stdin and stdout, for an editor
  duet-rpc mock session.jsonl --listen ws://127.0.0.1:0/
  duet-rpc mock session.jsonl --on-miss error --ignore /params/processId
  duet-rpc mock session.jsonl --on-miss pass -- some-server

Exit codes: 0 every request was in the recording or was passed on, 1 a request was answered with
an error that is not recorded, or the recording cannot be used.";
