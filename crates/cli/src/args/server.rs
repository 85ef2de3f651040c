//! The options that name a server to call: those of `call` and `api`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use duet_rpc::transport::Address;

use super::{CallTlsArgs, FramingName, elsewhere, fixed_framing, seconds};

/// A server to call.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// Server to start, with its arguments [default: this program's own daemon]
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    /// Time to wait for each answer; 0 means no limit
    #[arg(long, allow_negative_numbers = true, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// Framing of messages [default: ndjson, unless another option implies lsp]
    #[arg(long, value_name = "FRAMING", value_parser = fixed_framing())]
    pub(crate) framing: Option<FramingName>,
    /// Address of a running server: tcp://, tls://, unix://, ws://, wss://, http://, https:// or nats://
    #[arg(long, value_name = "URL", value_parser = elsewhere, conflicts_with = "command")]
    pub(crate) connect: Option<Address>,
    /// File with the token to send, over ws, http and nats
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub(crate) token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: CallTlsArgs,
}

impl ServerArgs {
    /// Returns `true` if a server is named.
    pub(crate) fn is_named(&self) -> bool {
        self.connect.is_some() || !self.command.is_empty()
    }
}
