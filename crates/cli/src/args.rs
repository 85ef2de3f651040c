//! The command line (C1–C3). Help, shell completions and the manual page come from these definitions.

mod api;
mod bridge;
mod call;
mod compare;
mod doctor;
mod explain;
mod fault;
mod mock;
mod replay;
mod server;
mod tap;
#[cfg(test)]
mod tests;
mod trace;
mod watch;

use std::ffi::OsString;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Styles};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use duet_rpc::transport::{Address, OriginPattern, OriginPatternError};

use crate::logging::Level;
use crate::sys::processes;

pub(crate) use api::{ApiArgs, ApiCheckArgs, ApiCommand, ApiDiffArgs, ApiGenArgs, ApiShowArgs};
pub(crate) use bridge::BridgeArgs;
pub(crate) use call::{CallArgs, CallTlsArgs, SessionArgs};
pub(crate) use compare::CompareArgs;
pub(crate) use doctor::DoctorArgs;
pub(crate) use explain::ExplainArgs;
pub(crate) use fault::FaultArgs;
pub(crate) use mock::{MockArgs, OnMissName};
pub(crate) use replay::{PaceName, ReplayArgs, ReplayFormat};
pub(crate) use server::ServerArgs;
pub(crate) use tap::{GuardArgs, LaunchArgs, TapArgs};
pub(crate) use trace::{
    CatArgs, CheckArgs, ConvertArgs, DiffArgs, DirName, ProtocolName, RedactArgs, ReportFormat,
    ShowArgs, StatsArgs, TraceArgs, TraceCommand,
};
pub(crate) use watch::WatchArgs;

/// Call, serve and debug JSON-RPC 2.0 over stdio, sockets, WebSocket and HTTP
///
/// An editor starts its language server, a desktop app its backend, an agent its tools: one program
/// starts another, and they speak JSON-RPC over stdin and stdout. This command serves a few methods to
/// try a client with, calls any server, explains a recorded stream, and checks its own installation.
#[derive(Debug, Parser)]
#[command(name = "duet-rpc", version, max_term_width = 100, styles = STYLES, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

impl Args {
    /// Parses a command line; its first word is the program's own name.
    ///
    /// Building the options of all commands would take a third of the instructions that the daemon needs to start, so
    /// its own are tried alone. Help and errors need all.
    pub(crate) fn read(words: &[OsString]) -> Result<Self, clap::Error> {
        if let [_, daemon @ ..] = words
            && daemon.first().is_some_and(|name| name == "rpc")
            && let Ok(DaemonArgs { global, rpc }) = DaemonArgs::try_parse_from(daemon)
        {
            return Ok(Args { global, command: Some(Command::Rpc(rpc)) });
        }
        Args::try_parse_from(words)
    }
}

/// Colours of the help text on a terminal.
const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Yellow.on_default().bold())
    .usage(AnsiColor::Yellow.on_default().bold())
    .literal(AnsiColor::Green.on_default())
    .placeholder(AnsiColor::Cyan.on_default())
    .error(AnsiColor::Red.on_default().bold())
    .valid(AnsiColor::Green.on_default())
    .invalid(AnsiColor::Red.on_default());

const EXAMPLES: &str = "\
Examples:
  duet-rpc call version                   start the daemon, call `version`, print the result
  duet-rpc call system.echo '[1, 2, 3]'   call a method with params
  duet-rpc rpc                            run the daemon for an editor, on stdin and stdout
  duet-rpc tap -- some-server             record what a client and a server say
  duet-rpc replay session.jsonl -- cmd    play the recorded client against a server
  duet-rpc doctor                         check this installation";

/// The command line of the test bed: the daemon alone, with the options of `rpc` directly after its name.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, styles = STYLES)]
pub(crate) struct DaemonArgs {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(flatten)]
    pub(crate) rpc: RpcArgs,
}

/// Options of every command.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Minimum severity to log [default: info for rpc, warn for the others]
    #[arg(long, global = true, value_name = "LEVEL", ignore_case = true, value_parser = level())]
    pub(crate) log_level: Option<Level>,
    /// Format of log records
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// Disable colours
    ///
    /// A non-empty environment variable NO_COLOR does the same.
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One line per record, for people
    Text,
    /// One JSON object per line, for programs
    Json,
}

fn level() -> impl TypedValueParser<Value = Level> {
    PossibleValuesParser::new(Level::NAMES).try_map(|name| name.parse::<Level>())
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the version
    Version,
    Rpc(RpcArgs),
    Call(CallArgs),
    Doctor(DoctorArgs),
    Explain(ExplainArgs),
    Tap(TapArgs),
    Bridge(BridgeArgs),
    #[command(hide = true, name = "bridge-worker")]
    BridgeWorker(BridgeArgs),
    #[command(hide = true, name = "tap-guard")]
    TapGuard(GuardArgs),
    #[command(hide = true, name = "tap-launch")]
    TapLaunch(LaunchArgs),
    Trace(TraceArgs),
    Replay(ReplayArgs),
    Mock(MockArgs),
    Watch(WatchArgs),
    Api(ApiArgs),
    /// Print a shell completion script
    Completions {
        /// Shell to print the script for
        shell: Shell,
    },
    /// Print the manual page
    Man {
        /// Command to print the page of [default: duet-rpc itself]
        #[arg(value_parser = PossibleValuesParser::new(PAGES))]
        command: Option<String>,
    },
    /// Reserved for a later version
    Prompt {
        #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

/// Commands with a manual page of their own.
pub(crate) const PAGES: [&str; 14] = [
    "version",
    "rpc",
    "call",
    "doctor",
    "explain",
    "tap",
    "bridge",
    "trace",
    "replay",
    "mock",
    "watch",
    "api",
    "completions",
    "man",
];

/// Run the daemon, on stdin and stdout or on sockets
///
/// The daemon serves until stdin ends, SIGINT, SIGTERM or SIGHUP arrives, or the client calls
/// `shutdown`. It answers running requests first. With TLS, SIGHUP reads the certificate again instead. stdout carries messages and nothing else. The log
/// goes to stderr, or to the file that the environment variable DUET_RPC_LOG names.
///
/// A profile is a set of defaults for one kind of client. Every other option overrides one of them.
#[derive(Debug, clap::Args)]
#[command(after_help = PROFILES)]
pub(crate) struct RpcArgs {
    /// Kind of client to serve
    #[arg(long, value_name = "PROFILE", default_value = "editor")]
    pub(crate) profile: ProfileName,
    /// Framing of messages on the stream [default: the framing of the profile]
    #[arg(long, value_name = "FRAMING")]
    pub(crate) framing: Option<FramingName>,
    /// Maximum size of a message, in bytes
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) max_message_bytes: Option<u32>,
    /// Maximum time from the first byte of a message to its last; 0 means no limit
    #[arg(long, allow_negative_numbers = true, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) read_timeout: Option<Duration>,
    /// Handling of batches
    #[arg(long, value_name = "RULE")]
    pub(crate) batch: Option<BatchName>,
    /// Maximum number of running requests; above 1, requests run concurrently
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_in_flight: Option<u32>,
    /// Shut down when the parent process, or the process PID, dies, even if stdin stays open
    #[arg(long, value_name = "PID", num_args = 0..=1, require_equals = true, value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) exit_with_parent: Option<Option<u32>>,
    /// Maximum number of connections; further ones are refused [default: 16384]
    #[arg(long, help_heading = "Listening", allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_connections: Option<u32>,
    /// Let every client read the log with `events.subscribe` and change its level
    ///
    /// The log names the methods and ids of every connection, including connections that need a token.
    /// Without this option, a listening daemon refuses the topic `log` and `setLogLevel`. On stdio, the
    /// client always has both.
    #[arg(long, help_heading = "Listening")]
    pub(crate) share_log: bool,
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
}

/// Options for serving on sockets.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Listening")]
pub(crate) struct ListenArgs {
    /// Address to listen on; can be given several times [default: stdio:]
    ///
    /// One of stdio:, tcp://127.0.0.1:0, unix:///path, ws://127.0.0.1:0/ and http://127.0.0.1:0/, or
    /// with TLS tls://127.0.0.1:0, wss://127.0.0.1:0/ and https://127.0.0.1:0/. Port 0 picks a free port.
    /// With nats://127.0.0.1:4222/NAME, `rpc` is a worker of the service NAME behind the NATS broker at
    /// that address. The first line of stderr is `listening on` and the address. While it listens, the
    /// daemon does not read stdin; a signal ends it, and `shutdown` closes the connection that it arrives on.
    #[arg(long, value_name = "URL", value_parser = address)]
    pub(crate) listen: Vec<Address>,
    /// File with the tokens that ws and http clients must send, one of them
    ///
    /// Each line is `name:token` or a token; `#` begins a comment. The daemon reads the file again when it
    /// changes. Clients send a token as `Authorization: Bearer TOKEN`, or as the WebSocket subprotocol
    /// `bearer.TOKEN`. A worker of a service sends the token to its broker: then the file has only one.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Accept a token in the query of a URL too: `?token=TOKEN`
    ///
    /// For clients that can set neither headers nor subprotocols. Proxies and browsers log whole URLs.
    #[arg(long, requires = "token_file")]
    pub(crate) allow_query_token: bool,
    /// Allow addresses that other machines can reach
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// Further host name to accept for ws and http; can be given several times
    #[arg(long, value_name = "NAME", value_parser = host)]
    pub(crate) allow_host: Vec<String>,
    /// Origin of web pages that may use ws and http; can be given several times
    ///
    /// Such as https://editor.example, http://localhost:3000, null or file://. A `*` stands for the begin
    /// of a host, a whole host or a port: https://*.example.com, vscode-webview://*, http://localhost:*.
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    pub(crate) allow_origin: Vec<OriginPattern>,
    /// Subprotocol to agree on with ws clients that offer it; can be given several times [default: mcp]
    #[arg(long, value_name = "NAME", value_parser = subprotocol)]
    pub(crate) subprotocol: Vec<String>,
    /// User who may connect to Unix sockets; can be given several times [default: your own]
    ///
    /// A name or a user id. With this option, only the named users may connect, and the mode of the
    /// sockets lets them.
    #[arg(long, allow_negative_numbers = true, value_name = "USER", value_parser = user)]
    pub(crate) allow_uid: Vec<u32>,
    #[command(flatten)]
    pub(crate) tls: ListenTlsArgs,
}

/// Options for serving with TLS.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct ListenTlsArgs {
    /// File with the certificate for tls, wss and https, in PEM
    ///
    /// The certificates of the authorities above it follow in the same file. The daemon reads this file
    /// and the other TLS files again when they change, and on SIGHUP.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// File with the private key of the certificate, in PEM, without a password
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// File with the authorities that sign certificates of clients, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Require a certificate of each client, or accept one [default: required]
    #[arg(long, value_name = "RULE", requires = "tls_client_ca")]
    pub(crate) tls_client_cert: Option<ClientCertificateName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClientCertificateName {
    /// Serve clients without a certificate too
    Optional,
    /// Refuse clients without a certificate
    Required,
}

/// Parses the address of a running server.
fn elsewhere(text: &str) -> Result<Address, String> {
    match address(text)? {
        Address::Stdio => Err("stdio: needs a command to start: give it after --".to_owned()),
        address => Ok(address),
    }
}

/// Parses a host name or an IP address, without a port.
fn host(text: &str) -> Result<String, String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_host = !text.is_empty() && text.bytes().all(is_name);
    match is_host || text.parse::<Ipv6Addr>().is_ok() {
        true => Ok(text.to_owned()),
        false => Err("expected a name or an IP address, such as devbox".to_owned()),
    }
}

/// Parses an origin as browsers send it.
fn origin(text: &str) -> Result<OriginPattern, String> {
    text.parse().map_err(|error: OriginPatternError| error.to_string())
}

/// Parses a WebSocket subprotocol. A name that begins like a token is never agreed on.
fn subprotocol(text: &str) -> Result<String, String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_token) && !text.starts_with("bearer.") {
        true => Ok(text.to_owned()),
        false => Err("expected one word, such as mcp".to_owned()),
    }
}

/// Parses a user id, or looks up the id of a user.
fn user(text: &str) -> Result<u32, String> {
    if let Ok(uid) = text.parse() {
        return Ok(uid);
    }
    processes::user_id(text)
}

/// Parses an address.
fn address(text: &str) -> Result<Address, String> {
    text.parse::<Address>().map_err(|error| error.to_string())
}

const PROFILES: &str = "\
Profiles:
                     editor      desktop     agent
  framing            lsp         length      ndjson
  order              one by one  one by one  concurrent, notifications as barriers
  batch              reject      allow       allow
  max-message-bytes  10485760    1048576     1048576
  read-timeout       30          30          30
  max-in-flight      1           1           1024";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileName {
    /// Editor: Content-Length headers, one request at a time, no batches
    Editor,
    /// Desktop shell: length prefix, one request at a time, events
    Desktop,
    /// Agent: one message per line, concurrent requests in both directions
    Agent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FramingName {
    /// Content-Length headers
    Lsp,
    /// One message per line
    Ndjson,
    /// 4-byte length before each message
    Length,
    /// Detect the framing from the client's first byte
    Auto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BatchName {
    /// Answer a batch with an error
    Reject,
    /// Serve batches
    Allow,
}

/// Framings for a side that speaks first: it cannot detect the framing.
fn fixed_framing() -> impl TypedValueParser<Value = FramingName> {
    PossibleValuesParser::new(["lsp", "ndjson", "length"])
        .try_map(|name| FramingName::from_str(&name, false))
}

/// Parses a number of bytes, with an optional unit: `64k`, `10m`, `1g`.
fn size(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let units = [("k", 10), ("m", 20), ("g", 30), ("", 0)];
    let unit = units.into_iter().find_map(|(unit, shift)| Some((lower.strip_suffix(unit)?, shift)));
    let bytes =
        unit.and_then(|(number, shift)| number.parse::<u64>().ok()?.checked_mul(1 << shift));
    bytes
        .filter(|&bytes| bytes > 0)
        .ok_or_else(|| "expected a size, such as 65536, 64k or 10m".to_owned())
}

/// Parses a time in seconds, with an optional fraction. Zero means no limit.
fn seconds(text: &str) -> Result<Duration, String> {
    const LEAST: f64 = 0.001;
    const MOST: f64 = 365.0 * 24.0 * 3600.0;
    match text.parse::<f64>() {
        Ok(seconds) if seconds == 0.0 || (LEAST..=MOST).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds.abs()))
        }
        _ => Err(format!("expected 0, or seconds from {LEAST} to {MOST}, such as 30 or 0.5")),
    }
}
