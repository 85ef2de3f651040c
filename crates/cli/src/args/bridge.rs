//! The options of `bridge`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use duet_rpc::transport::Address;

use super::{CallTlsArgs, FaultArgs, FramingName, ListenArgs, elsewhere, fixed_framing, seconds};

/// Connect clients and servers that speak different framings and transports
///
/// Clients connect to the addresses of `--listen`, or speak on stdin and stdout. The server is the
/// command after `--`, or runs at an address (`--connect`). Messages pass as they are; only their frames
/// change.
///
/// Each client gets a server of its own, which ends with the connection, and no process of it is left
/// behind. With `--shared`, all clients use one server.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BridgeArgs {
    /// Server to start for each client, with its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "connect")]
    pub(crate) command: Vec<OsString>,
    /// Framing of the clients, on stdio, tcp, tls and unix
    #[arg(long, value_name = "FRAMING", default_value = "auto")]
    pub(crate) framing: FramingName,
    /// Framing of the server, on stdio, tcp, tls and unix [default: detected from the first message]
    ///
    /// Without this option, a server whose first message is `initialize` gets ndjson if the message is
    /// that of MCP, else lsp. Any other server gets the framing of its client, or ndjson if the client
    /// has none. A server that speaks first shows its framing.
    #[arg(long, value_name = "FRAMING", value_parser = fixed_framing())]
    pub(crate) to_framing: Option<FramingName>,
    /// Address of the server: tcp://, tls://, unix://, ws://, wss://, http://, https:// or nats://
    #[arg(long, value_name = "URL", value_parser = elsewhere, conflicts_with = "command")]
    pub(crate) connect: Option<Address>,
    /// File with the token to send to the server, over ws, http and nats
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub(crate) to_token_file: Option<PathBuf>,
    /// Use one server for all clients
    ///
    /// Ids, cancellations and progress tokens are rewritten, and `initialize` is sent once. A notification
    /// of the server goes to all clients, its requests go to one of them.
    #[arg(long)]
    pub(crate) shared: bool,
    /// Number of servers to start ahead of their clients
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=1000), conflicts_with_all = ["connect", "shared", "restart"])]
    pub(crate) pool: u32,
    /// Start a server that ended again, up to N times in a row [default: do not; N: 5]
    ///
    /// Pending requests get an error, and the client stays connected. The new server gets the `initialize`
    /// of the first one. Each restart in a row waits longer. Ids are rewritten, as with `--shared`.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "5", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) restart: Option<u32>,
    /// End a connection without messages after this time; 0 means never
    ///
    /// A connection with a running request is not idle.
    /// With `--shared`, also end the server once it has had no client for this time. The next client
    /// starts it again.
    #[arg(long, allow_negative_numbers = true, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    pub(crate) idle: Duration,
    /// Maximum number of clients; further ones are refused
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value = "256", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_clients: u32,
    /// Maximum size of a message, in bytes [default: 64 MiB; 16 MiB with the framing length]
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) max_message_bytes: Option<u32>,
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    #[command(flatten)]
    pub(crate) tls: CallTlsArgs,
    #[command(flatten)]
    pub(crate) faults: FaultArgs,
}

const EXAMPLES: &str = "\
Examples:
  duet-rpc bridge --listen ws://127.0.0.1:3000/ -- clangd
  duet-rpc bridge --listen unix:///tmp/mcp.sock --shared -- npx some-mcp-server
  duet-rpc bridge --listen http://127.0.0.1:3000/mcp --token-file tokens -- some-mcp-server
  duet-rpc bridge --listen ws://127.0.0.1:3000/ --connect nats://127.0.0.1:4222/math
  duet-rpc bridge --framing lsp --connect ws://devbox:3000/   for an editor, on stdin and stdout";
