//! The server that a command plays against: started, or reached at an address.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use duet_rpc::Profile;
use duet_rpc::proto::Limits;
use duet_rpc::proto::frame::Framing;
use duet_rpc::transport::{Address, Child, Transport};
use tokio::process::Command;

use super::call::address::ServerAddress;
use super::call::report;
use super::dial::Dialer;
use crate::args::CallTlsArgs;
use crate::exit::{Exit, Problem};
use crate::sys::processes;

/// Time for each step of stopping the server.
const GRACE: Duration = Duration::from_secs(2);

/// Maximum size of a message. The length framing needs a smaller limit: text that a server prints by mistake
/// reads as a length, and every such length must exceed the limit.
const MAX_MESSAGE: usize = 256 * 1024 * 1024;
const MAX_MESSAGE_WITH_PREFIX: usize = 16 * 1024 * 1024 - 1;

/// A server to start or to reach.
pub(super) enum Upstream {
    Command(Vec<OsString>),
    Connect(ServerAddress, Box<Dialer>),
}

impl Upstream {
    /// The server that the command line names; `None` if it names none.
    pub(super) fn new(
        command: &[OsString],
        connect: Option<&Address>,
        token_file: Option<&Path>,
        tls: &CallTlsArgs,
    ) -> Result<Option<Self>, Problem> {
        let token = token_file.map(super::rpc::read_token).transpose()?;
        let tls = super::call::tls::settings(tls, connect)?;
        let Some(address) = connect else {
            return Ok((!command.is_empty()).then(|| Upstream::Command(command.to_vec())));
        };
        let shown = ServerAddress::new(address, token_file);
        let cannot = |error: io::Error| Problem {
            exit: Exit::NotStarted,
            message: shown.not_reached(&error),
        };
        let dialer = Dialer::new(address, token, tls).map_err(cannot)?;
        Ok(Some(Upstream::Connect(shown, Box::new(dialer))))
    }

    /// Starts the server, or connects to it. `on_stderr` gets the lines of its stderr.
    pub(super) async fn open(
        &self,
        profile: &Profile,
        timeout: Option<Duration>,
        on_stderr: impl FnMut(&str) + Send + 'static,
    ) -> Result<Box<dyn Transport>, Problem> {
        let failed = |message| Problem { exit: Exit::NotStarted, message };
        match self {
            Upstream::Command(words) => {
                let program = words.first().cloned().unwrap_or_default();
                let mut command = Command::new(&program);
                command.args(words.iter().skip(1));
                let child = Child::spawn(command)
                    .map_err(|error| failed(report::not_started(&program, &error)))?;
                Ok(Box::new(child.grace(GRACE).on_stderr(on_stderr)))
            }
            Upstream::Connect(address, dialer) => {
                let connected = dialer.connect(profile);
                let connected = match timeout {
                    None => connected.await,
                    Some(time) => match tokio::time::timeout(time, connected).await {
                        Ok(connected) => connected,
                        Err(_) => {
                            let message = address.not_reached_within(time);
                            return Err(Problem { exit: Exit::Timeout, message });
                        }
                    },
                };
                connected.map_err(|error| failed(address.not_reached(&error)))
            }
        }
    }
}

/// The settings of a connection that only carries messages: this framing, and generous limits.
pub(super) fn profile(framing: Framing) -> Profile {
    Profile::agent().with(|it| {
        it.framing = framing.into();
        it.read_timeout = None;
        it.call_timeout = None;
        it.limits.depth = Limits::MAX_DEPTH;
        it.limits.message_bytes = match framing {
            Framing::Length => MAX_MESSAGE_WITH_PREFIX,
            Framing::Lsp | Framing::Ndjson => MAX_MESSAGE,
        };
    })
}

/// The exit code or signal of a server, in words.
pub(super) fn how_it_ended(status: ExitStatus) -> String {
    match (status.code(), processes::signal_of(status)) {
        (Some(code), _) => format!(" (exit code {code})"),
        (_, Some(signal)) => format!(" (signal {signal})"),
        _ => String::new(),
    }
}
