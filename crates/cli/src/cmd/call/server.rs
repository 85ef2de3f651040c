//! The server of a call: a child process, or a connection.

use std::ffi::{OsStr, OsString};
use std::io;
use std::time::Duration;

use duet_rpc::Profile;
use duet_rpc::proto::Limits;
use duet_rpc::proto::frame::{Framing, FramingChoice};
use duet_rpc::proto::policy::BatchRule;
use duet_rpc::transport::{Address, Child, TlsClient, Transport};
use tokio::process::Command;

use super::address::ServerAddress;
use super::report;
use super::{DRAIN, GRACE, MAX_ANSWER};
use crate::args::{CallArgs, Global, LogFormat};
use crate::cmd::dial::Dialer;
use crate::cmd::handshake;
use crate::cmd::stderr::Stderr;
use crate::exit::Exit;
use crate::logging::Level;
use crate::settings;

/// Maximum size of an answer in the length framing. It must be smaller than elsewhere: text that a server prints by
/// mistake reads as a length, and every such length must exceed the limit.
const MAX_ANSWER_WITH_PREFIX: usize = 16 * 1024 * 1024 - 1;

/// Exit code and message for a server that cannot be started or reached.
pub(super) type NoServer = (Exit, String);

/// Starts the server as a child process.
pub(super) fn start_server(
    args: &CallArgs,
    global: &Global,
    stderr: &Stderr,
) -> Result<Box<dyn Transport>, NoServer> {
    let not_started = |program: &OsStr, error: io::Error| {
        (Exit::NotStarted, report::not_started(program, &error))
    };
    let (program, words) = server(args, global).map_err(|error| {
        let told = format!("cannot start \"duet-rpc\": {error}");
        not_started(OsStr::new("duet-rpc"), io::Error::new(error.kind(), told))
    })?;
    let mut command = Command::new(&program);
    command.args(words);
    let child = Child::spawn(command).map_err(|error| not_started(&program, error))?;
    let lines = stderr.clone();
    Ok(Box::new(child.grace(GRACE).on_stderr(move |line| lines.pass_on(line))))
}

/// Connects to the server.
pub(super) async fn reach(
    args: &CallArgs,
    server: &ServerAddress,
    token: Option<String>,
    tls: TlsClient,
    profile: &Profile,
    time_left: Option<Duration>,
) -> Result<Box<dyn Transport>, NoServer> {
    let not_reached = |error| (Exit::NotStarted, server.not_reached(&error));
    let dialer = Dialer::new(&server.address, token, tls).map_err(not_reached)?;
    // The timeout of the whole call applies, without a separate one for the handshake.
    let profile = match server.address {
        Address::Nats(..) => *profile,
        _ => profile.with(|it| it.call_timeout = None),
    };
    let connected = dialer.connect(&profile);
    let connected = match time_left {
        None => connected.await,
        Some(time) => match tokio::time::timeout(time, connected).await {
            Ok(connected) => connected,
            Err(_) => {
                return Err((Exit::Timeout, server.not_reached_within(args.server.timeout)));
            }
        },
    };
    connected.map_err(not_reached)
}

/// The program to start, with its arguments.
fn server(args: &CallArgs, global: &Global) -> io::Result<(OsString, Vec<OsString>)> {
    if let Some((program, words)) = args.server.command.split_first() {
        return Ok((program.clone(), words.to_vec()));
    }
    let mut words = vec!["rpc", "--profile", args.profile.name()];
    if let FramingChoice::Fixed(framing) = profile(args).0.framing {
        words.extend(["--framing", framing.name()]);
    }
    words.extend(["--log-level", global.log_level.unwrap_or(Level::Warn).name()]);
    words.extend(match global.log_format {
        LogFormat::Text => ["--log-format", "text"],
        LogFormat::Json => ["--log-format", "json"],
    });
    if global.no_color {
        words.push("--no-color");
    }
    Ok((std::env::current_exe()?.into(), words.into_iter().map(OsString::from).collect()))
}

/// The profile for this call, with generous limits, and the framing.
pub(super) fn profile(args: &CallArgs) -> (Profile, Framing) {
    let mut profile = args.profile.profile();
    let of_handshake = args.session.handshake.map(|protocol| handshake::framing(protocol).into());
    let choice = args.server.framing.map(|framing| framing.choice()).or(of_handshake);
    let choice = choice.unwrap_or(profile.framing);
    let framing = match choice {
        FramingChoice::Fixed(framing) => framing,
        // The side that speaks first cannot detect the framing. The command line rejects this value.
        FramingChoice::Auto => Framing::Ndjson,
    };
    profile.framing = framing.into();
    profile.batch = BatchRule::Allow;
    // Only the timeout of the whole call applies, however slowly the answer arrives.
    profile.read_timeout = None;
    profile.call_timeout = settings::limited(args.server.timeout);
    profile.drain_timeout = DRAIN;
    profile.limits.depth = Limits::MAX_DEPTH;
    profile.limits.message_bytes = match framing {
        Framing::Length => MAX_ANSWER_WITH_PREFIX,
        Framing::Lsp | Framing::Ndjson => MAX_ANSWER,
    };
    (profile, framing)
}
