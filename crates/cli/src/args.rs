//! The command line as it is typed (C1–C3). Help, completions and the manual are made of this.

use std::ffi::OsString;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Styles};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use duet_rpc::transport::Address;

use crate::logging::Level;

/// JSON-RPC 2.0 for two programs that talk over pipes and streams
///
/// An editor starts its language backend, a desktop app its core, an agent its tools: one program
/// starts another, and they speak JSON-RPC over stdin and stdout. This command is such a program, a
/// client to try such programs with, and the tools to find out what is wrong between two of them.
#[derive(Debug, Parser)]
#[command(name = "duet-rpc", version, max_term_width = 100, styles = STYLES, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// How help looks on a terminal.
const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Yellow.on_default().bold())
    .usage(AnsiColor::Yellow.on_default().bold())
    .literal(AnsiColor::Green.on_default())
    .placeholder(AnsiColor::Cyan.on_default())
    .error(AnsiColor::Red.on_default().bold())
    .valid(AnsiColor::Green.on_default())
    .invalid(AnsiColor::Red.on_default());

const EXAMPLES: &str = "\
Try it:
  duet-rpc call version                   start the daemon, ask it, print the answer
  duet-rpc call system.echo '[1, 2, 3]'   a call with params
  duet-rpc rpc                            be the daemon of an editor, on stdin and stdout
  duet-rpc doctor                         check that all of it works on this machine";

/// The daemon alone, with the options of `rpc` right behind its name.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, styles = STYLES)]
pub(crate) struct DaemonArgs {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(flatten)]
    pub(crate) rpc: RpcArgs,
}

/// What all commands have.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Log this and what is worse [default: info for rpc, warn for the others]
    #[arg(long, global = true, value_name = "LEVEL", ignore_case = true, value_parser = level())]
    pub(crate) log_level: Option<Level>,
    /// How log records are written
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// No colours, also on a terminal
    ///
    /// The environment variable NO_COLOR, if it is not empty, does the same.
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line for people
    Text,
    /// A JSON object a line, for programs
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
    /// Print a shell completion script
    Completions {
        /// The shell that it is for
        shell: Shell,
    },
    /// Print the manual page
    Man {
        /// The command whose page it is; without it, the page of duet-rpc itself
        #[arg(value_parser = PossibleValuesParser::new(PAGES))]
        command: Option<String>,
    },
    /// Reserved
    Prompt {
        #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

/// The commands that have a page of their own in the manual.
pub(crate) const PAGES: [&str; 7] =
    ["version", "rpc", "call", "doctor", "explain", "completions", "man"];

/// Run the daemon, on stdin and stdout or for all who connect
///
/// It serves until stdin ends, SIGINT, SIGTERM or SIGHUP comes, or the client calls `shutdown`; what
/// runs is finished and answered first. stdout carries messages and nothing else; the log goes to
/// stderr, or to the file that the environment variable DUET_RPC_LOG names.
///
/// A profile is a set of defaults for one kind of client; every other option overrides one piece of
/// it.
#[derive(Debug, clap::Args)]
#[command(after_help = PROFILES)]
pub(crate) struct RpcArgs {
    /// Who the client is
    #[arg(long, value_name = "PROFILE", default_value = "editor")]
    pub(crate) profile: ProfileName,
    /// How messages are cut out of the stream
    #[arg(long, value_name = "FRAMING")]
    pub(crate) framing: Option<FramingName>,
    /// The longest message that is accepted, in bytes
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) max_message_bytes: Option<u32>,
    /// How long a message may take from its first byte to its last; 0 for ever
    #[arg(long, allow_negative_numbers = true, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) read_timeout: Option<Duration>,
    /// Whether batches are served
    #[arg(long, value_name = "RULE")]
    pub(crate) batch: Option<BatchName>,
    /// How many requests may be under way; more than 1 lets requests run side by side
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_in_flight: Option<u32>,
    /// End gracefully when the process that started this one dies, even if stdin stays open
    #[arg(long)]
    pub(crate) exit_with_parent: bool,
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
}

/// How to be reached by others than the one who has started it.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Listening")]
pub(crate) struct ListenArgs {
    /// Serve all who connect here; can be given several times [default: stdio:]
    ///
    /// One of stdio:, tcp://127.0.0.1:0, unix:///path, ws://127.0.0.1:0/ and http://127.0.0.1:0/;
    /// port 0 takes one that is free. The address is printed as the first line of stderr. stdin is
    /// not read then; a signal ends the daemon, and `shutdown` the connection it comes on.
    #[arg(long, value_name = "URL", value_parser = address)]
    pub(crate) listen: Vec<Address>,
    /// How many connections there may be; one more is refused [default: 16384]
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_connections: Option<u32>,
    /// Serve ws and http only to those who show the token in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Allow to listen where other machines can connect
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// A further name by which ws and http may be called; can be given several times
    #[arg(long, value_name = "NAME", value_parser = host)]
    pub(crate) allow_host: Vec<String>,
    /// A web page's origin that may use ws and http; can be given several times
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    pub(crate) allow_origin: Vec<String>,
    /// Let all who connect read the log, with `events.subscribe`, and change its level
    ///
    /// The log names the methods and ids of every connection, also of those that show a token. Without
    /// this, the topic `log` and `setLogLevel` are refused where the daemon listens. On stdio the client
    /// has both.
    #[arg(long)]
    pub(crate) share_log: bool,
}

/// Where a server is that runs already.
fn elsewhere(text: &str) -> Result<Address, String> {
    match address(text)? {
        Address::Stdio => Err("a server on stdio: has to be started: name it after --".to_owned()),
        address => Ok(address),
    }
}

/// A name or an IP address, without a port.
fn host(text: &str) -> Result<String, String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_host = !text.is_empty() && text.bytes().all(is_name);
    match is_host || text.parse::<Ipv6Addr>().is_ok() {
        true => Ok(text.to_owned()),
        false => Err("expected a name or an IP address, such as devbox".to_owned()),
    }
}

/// An origin as browsers send it.
fn origin(text: &str) -> Result<String, String> {
    let is_plain = |host: &str| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/')
    };
    match text.trim_end_matches('/').split_once("://") {
        Some((scheme, host)) if !scheme.is_empty() && is_plain(host) => Ok(text.to_owned()),
        _ => Err("expected an origin, such as https://editor.example".to_owned()),
    }
}

/// Where a server is.
fn address(text: &str) -> Result<Address, String> {
    text.parse::<Address>().map_err(|error| error.to_string())
}

const PROFILES: &str = "\
Profiles:
                     editor      desktop     agent
  framing            lsp         length      ndjson
  order              one by one  one by one  side by side, notifications as barriers
  batch              reject      allow       allow
  max-message-bytes  10485760    1048576     1048576
  read-timeout       30          30          30
  max-in-flight      1           1           1024";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileName {
    /// An editor: Content-Length headers, one message after the other, strict
    Editor,
    /// A desktop shell: a length prefix, events
    Desktop,
    /// An agent: a message a line, many at a time, in both directions
    Agent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FramingName {
    /// Content-Length headers
    Lsp,
    /// A message a line
    Ndjson,
    /// 4 bytes of length before each message
    Length,
    /// What the first byte of the client tells
    Auto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BatchName {
    /// A batch is answered with an error
    Reject,
    /// A batch is served
    Allow,
}

/// Start or reach a server, send it one request, print the answer
///
/// The server is this program's own daemon, any command after `--`, or the one at an address. The result is printed as
/// JSON, and nothing else is; an error goes to stderr, as does what the server writes there.
#[derive(Debug, clap::Args)]
#[command(after_help = CALLS)]
pub(crate) struct CallArgs {
    /// The method to call
    pub(crate) method: String,
    /// Its params, as JSON: an array or an object; `-` reads them from stdin, `@FILE` from a file
    pub(crate) params: Option<String>,
    /// Send a notification, which has no answer
    #[arg(long)]
    pub(crate) notify: bool,
    /// How long to wait for the answer; 0 for ever
    #[arg(long, allow_negative_numbers = true, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// Which profile of the daemon to start, and how to speak to it
    #[arg(long, value_name = "PROFILE", default_value = "agent")]
    pub(crate) profile: ProfileName,
    /// How messages are framed [default: as the profile has it]
    #[arg(long, value_name = "FRAMING", value_parser = fixed_framing())]
    pub(crate) framing: Option<FramingName>,
    /// Call the server at this address: tcp://, unix://, ws:// or http://
    #[arg(long, value_name = "URL", value_parser = elsewhere, conflicts_with = "command")]
    pub(crate) connect: Option<Address>,
    /// Show the server the token in this file, over ws and http
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub(crate) token_file: Option<PathBuf>,
    /// The server to start, and its arguments [default: this program's own daemon]
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

const CALLS: &str = "\
Examples:
  duet-rpc call version
  duet-rpc call system.echo '{\"a\": 1}'
  duet-rpc call --framing lsp initialize @params.json -- some-language-server --stdio
  duet-rpc call --connect ws://127.0.0.1:4000/ system.ping

Exit codes: 0 a result, 3 an error as the answer, 4 no answer in time, 5 the server could not be
started or reached, 6 it ended without an answer or sent one that cannot be used.";

/// Who speaks first has to know how.
fn fixed_framing() -> impl TypedValueParser<Value = FramingName> {
    PossibleValuesParser::new(["lsp", "ndjson", "length"])
        .try_map(|name| FramingName::from_str(&name, false))
}

/// Check this installation: start the daemon, speak each framing, report
///
/// It starts the daemon as a child in each profile and framing, speaks to it as clients do, well and
/// badly, and ends it in each way. It prints a table that can be pasted into a bug report, and ends
/// with 0 only if all is well.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// The duet-rpc to check [default: this one]
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
}

/// Say what a stream of bytes holds, message by message
///
/// It reads the stream from stdin, and shows the method, the id and the shape of each message, each
/// fault, and what the answer to it would be. It shows nothing of what the messages carry, so the
/// output can be pasted into a bug report.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// How messages are cut out of the stream
    #[arg(value_name = "FRAMING", default_value = "auto")]
    pub(crate) framing: FramingName,
}

/// A time in seconds that may have a fraction. Zero stands for no limit.
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
