//! Servers: started as child processes, also ahead of their clients, or connected to.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::future::poll_fn;
use std::io;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use duet_rpc::Profile;
use duet_rpc::proto::frame::{Framing, FramingChoice};
use duet_rpc::transport::{
    Child, ExitReport, Inbox, MessagePipe, Outbox, Received, Transport, TransportKind,
};
use tokio::process::Command;

use super::server_pipe::ServerPipe;
use super::{lock, max_message};
use crate::cmd::call::address::ServerAddress;
use crate::cmd::call::report;
use crate::cmd::dial::Dialer;
use crate::cmd::stderr::Stderr;
use crate::sys::processes;

/// The time for each step of ending a server: after EOF, and after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);

/// The time to connect to a server, with its handshakes.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// The place of the servers.
pub(super) enum ServerTarget {
    Command(Vec<OsString>),
    Address(Box<Dialer>, Arc<ServerAddress>),
}

pub(super) struct Servers {
    target: ServerTarget,
    framing: Option<Framing>,
    max_message_bytes: Option<u32>,
    /// Servers that were started ahead of their clients.
    ready: Mutex<VecDeque<Child>>,
    ahead: usize,
    stderr: Stderr,
}

impl Servers {
    pub(super) fn new(
        target: ServerTarget,
        framing: Option<Framing>,
        max_message_bytes: Option<u32>,
        ahead: usize,
        stderr: Stderr,
    ) -> Self {
        let ready = Mutex::default();
        Servers { target, framing, max_message_bytes, ready, ahead, stderr }
    }

    /// Starts servers ahead of their clients, as many as there should be.
    pub(super) fn fill(&self) -> io::Result<()> {
        let ServerTarget::Command(command) = &self.target else { return Ok(()) };
        let mut ready = lock(&self.ready);
        while ready.len() < self.ahead {
            ready.push_back(self.start(command)?);
        }
        Ok(())
    }

    /// Starts a server, takes one that was started ahead, or connects to one.
    pub(super) async fn open(&self) -> io::Result<ServerTransport> {
        match &self.target {
            ServerTarget::Command(command) => {
                let ahead = self.take_ready();
                let server = ahead.map_or_else(|| self.start(command), Ok)?;
                if let Err(error) = self.fill() {
                    tracing::warn!(%error, "cannot start a server ahead of its client");
                }
                Ok(ServerTransport::Child(server))
            }
            ServerTarget::Address(dialer, _) => {
                let profile = self.profile(FramingChoice::Fixed(Framing::Ndjson));
                let profile = profile.with(|it| it.call_timeout = None);
                let connected = tokio::time::timeout(CONNECT_TIME, dialer.connect(&profile));
                let late = |_| io::Error::from(io::ErrorKind::TimedOut);
                connected.await.map_err(late)?.map(ServerTransport::Connected)
            }
        }
    }

    fn take_ready(&self) -> Option<Child> {
        let mut ready = lock(&self.ready);
        // A server that has ended meanwhile is of no use.
        std::iter::from_fn(|| ready.pop_front()).find(|server| !processes::has_ended(server))
    }

    fn start(&self, command: &[OsString]) -> io::Result<Child> {
        let (program, words) =
            command.split_first().ok_or_else(|| io::Error::other("there is no command"))?;
        let mut command = Command::new(program);
        command.args(words);
        let lines = self.stderr.clone();
        let with_advice =
            |error: io::Error| io::Error::new(error.kind(), report::not_started(program, &error));
        let child = Child::spawn(command).map_err(with_advice)?;
        Ok(child.grace(GRACE).on_stderr(move |line| lines.pass_on(line)))
    }

    /// A pipe to a server. Without `--to-framing`, its framing is decided later.
    pub(super) fn pipe(&self, transport: ServerTransport) -> ServerPipe {
        let has_framing = transport.kind() == TransportKind::Bytes;
        let choice = self.framing.map_or(FramingChoice::Auto, FramingChoice::Fixed);
        let pipe = MessagePipe::new(transport, &self.profile(choice));
        let address = match &self.target {
            ServerTarget::Command(_) => None,
            ServerTarget::Address(_, address) => Some(Arc::clone(address)),
        };
        ServerPipe::new(pipe, has_framing && self.framing.is_none(), address)
    }

    fn profile(&self, framing: FramingChoice) -> Profile {
        Profile::agent().with(|it| {
            it.framing = framing;
            it.limits.message_bytes = max_message(self.max_message_bytes, it.framing);
            it.read_timeout = None;
        })
    }

    /// Ends the servers that no client has got.
    pub(super) async fn close(&self) {
        let mut left: Vec<Child> = lock(&self.ready).drain(..).collect();
        poll_fn(|cx| {
            left.retain_mut(|server| server.poll_close(cx).is_pending());
            if left.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// The connection to a server.
pub(super) enum ServerTransport {
    Child(Child),
    Connected(Box<dyn Transport>),
}

impl ServerTransport {
    /// Closes the server's input, and leaves its output open. Returns `false` if there is no way to do that.
    pub(super) fn close_input(&mut self) -> bool {
        match self {
            ServerTransport::Child(child) => child.close_stdin(),
            ServerTransport::Connected(_) => return false,
        }
        true
    }

    /// Sends a signal to the server's process.
    pub(super) fn kill(&mut self, signal: i32) {
        if let ServerTransport::Child(child) = self {
            processes::send_signal(child, signal);
        }
    }

    fn transport(&mut self) -> &mut dyn Transport {
        match self {
            ServerTransport::Child(child) => child,
            ServerTransport::Connected(transport) => transport,
        }
    }
}

impl Transport for ServerTransport {
    fn kind(&self) -> TransportKind {
        match self {
            ServerTransport::Child(child) => child.kind(),
            ServerTransport::Connected(transport) => transport.kind(),
        }
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        self.transport().poll_receive(cx, inbox)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        self.transport().poll_send(cx, outbox)
    }

    fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.transport().poll_remote_closed(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
        self.transport().poll_close(cx)
    }
}

/// The exit status of a server that ended by itself.
pub(super) fn own_exit(report: &ExitReport) -> Option<ExitStatus> {
    report.exit.filter(|_| report.stopped.is_empty())
}
