//! The options of `call`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, FromArgMatches};

use super::{ProfileName, ProtocolName, ServerArgs, host, seconds};

/// Call methods of a server and print the results
///
/// The server is this program's own daemon, the command after `--`, or the server at an address
/// (`--connect`). stdout gets the results as JSON, one per line, and nothing else. Errors and the
/// server's notifications go to stderr, and so does the server's stderr.
#[derive(Debug, clap::Args)]
#[command(after_help = CALLS)]
pub(crate) struct CallArgs {
    /// Method to call
    #[arg(required_unless_present = "script")]
    pub(crate) method: Option<String>,
    /// Params, a JSON array or object; `-` reads them from stdin, `@FILE` from a file
    pub(crate) params: Option<String>,
    /// Send a notification and do not wait for an answer
    #[arg(long, requires = "method")]
    pub(crate) notify: bool,
    /// Profile of the daemon to start; it also sets the framing
    #[arg(long, value_name = "PROFILE", default_value = "agent")]
    pub(crate) profile: ProfileName,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

impl CallArgs {
    /// One call of this method, without params.
    pub(crate) fn new(method: &str, server: ServerArgs) -> Self {
        CallArgs {
            method: Some(method.to_owned()),
            params: None,
            notify: false,
            profile: ProfileName::Agent,
            server,
            session: SessionArgs::default(),
        }
    }
}

/// Options for servers that need more than one message.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Session")]
pub(crate) struct SessionArgs {
    /// Messages before the first call and after the last one
    ///
    /// lsp sends `initialize` and `initialized`, and at the end `shutdown` and `exit`. mcp sends `initialize`
    /// and `notifications/initialized`, or `server/discover` to a server without `initialize`.
    #[arg(long, value_name = "PROTOCOL")]
    pub(crate) handshake: Option<ProtocolName>,
    /// Members to set in the params of `initialize`, a JSON object or `@FILE`
    ///
    /// Such as '{"initializationOptions": {"level": 2}}'. A member replaces ours of the same name.
    #[arg(long, value_name = "JSON", requires = "handshake")]
    pub(crate) init: Option<String>,
    /// File to open in a language server before the first call; can be given several times
    ///
    /// Sends `textDocument/didOpen`. Calls of `textDocument/…` get the `textDocument` and the `position`
    /// of the last such file, where their params have none. Lines and columns count from 1.
    #[arg(long, value_name = "FILE[:LINE[:COLUMN]]", requires = "handshake")]
    pub(crate) open: Vec<String>,
    /// Language id of the files to open [default: by the name of the file]
    #[arg(long, value_name = "ID", requires = "open")]
    pub(crate) language: Option<String>,
    /// Time without a message of the server before the first call [default: 0.5 with --open, or else 0]
    ///
    /// Some language servers ask for settings after the handshake, and know nothing of an open file before
    /// they have them. The wait ends after `--timeout` even if the server does not pause.
    #[arg(long, allow_negative_numbers = true, value_name = "SECONDS", value_parser = seconds, requires = "handshake")]
    pub(crate) settle: Option<Duration>,
    #[command(flatten)]
    pub(crate) then: Then,
    /// File with further calls, one `METHOD PARAMS` per line; `-` reads them from stdin
    ///
    /// `#` begins a comment line. A line `--notify METHOD PARAMS` sends a notification.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<String>,
    /// Result for requests of the server with this method; can be given several times
    ///
    /// Other requests are answered with an error, except those that a handshake knows, such as
    /// `workspace/configuration`.
    #[arg(long, value_name = "METHOD=JSON")]
    pub(crate) answer: Vec<String>,
}

/// The values of `--then`: one or two words each. The derive macro would mix the words of all of them.
#[derive(Debug, Default)]
pub(crate) struct Then(pub(crate) Vec<Vec<String>>);

impl FromArgMatches for Then {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = matches.get_occurrences::<String>("then");
        Ok(Then(given.into_iter().flatten().map(|words| words.cloned().collect()).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Then {
    fn augment_args(command: clap::Command) -> clap::Command {
        let then = Arg::new("then").long("then").num_args(1..=2).action(ArgAction::Append);
        let then = then.value_names(["METHOD", "PARAMS"]).requires("method");
        command.arg(then.help("Further call, after the one before; can be given several times"))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// Options for calling with TLS.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct CallTlsArgs {
    /// File with the authorities to trust instead of those of the system, in PEM
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub(crate) cacert: Option<PathBuf>,
    /// File with the certificate to send to a server that asks for one, in PEM
    #[arg(long, value_name = "FILE", requires = "connect", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// File with the private key of that certificate, in PEM, without a password
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Name to expect in the server's certificate [default: the host of the address]
    #[arg(long, value_name = "NAME", requires = "connect", value_parser = host)]
    pub(crate) servername: Option<String>,
    /// Do not check the server's certificate: anyone on the way can read and change everything
    #[arg(long, requires = "connect", conflicts_with = "cacert")]
    pub(crate) insecure: bool,
}

const CALLS: &str = "\
Examples:
  duet-rpc call version
  duet-rpc call system.echo '{\"a\": 1}'
  duet-rpc call --handshake lsp --open main.c:3:5 textDocument/hover -- clangd
  duet-rpc call --handshake mcp tools/list -- some-mcp-server
  duet-rpc call system.ping --then version --then system.echo '[1]'
  duet-rpc call --connect ws://127.0.0.1:4000/ system.ping
  duet-rpc call --connect https://devbox:4000/ --cacert ca.pem system.ping
  duet-rpc call --connect nats://127.0.0.1:4222/math system.ping

The first failure ends the session. Exit codes: 0 a result for each call, 3 an error as the
answer, 4 no answer in time, 5 the server could not be started or reached, 6 it ended without an
answer or sent one that cannot be used.";
