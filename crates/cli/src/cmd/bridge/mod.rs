//! `bridge`: any framing and transport to any other (B1–B13).
//!
//! ```text
//!   client ── bridge-worker ── server        one of each per connection, or `--shared`: many and one
//!                 │
//!   bridge ── guard                          the guard of `tap`: it ends all processes, however the others end
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `mod` | the start, the listeners, the end |
//! | `direct` | one client with a server of its own |
//! | `awaited` | its requests without an answer |
//! | `closing` | the last messages to a client, and the order of closing |
//! | `shared` | many clients and one server: queues and tasks |
//! | `routes` | many clients and one server: which message goes where; no I/O |
//! | `rewrite` | ids and tokens inside messages |
//! | `servers` | starting, pooling and connecting |
//! | `server_pipe` | the framing of a server |
//! | `faults` | bytes that are not messages |

mod awaited;
mod closing;
mod direct;
mod faults;
mod rewrite;
mod routes;
mod server_pipe;
mod servers;
mod shared;

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use duet_rpc::proto::frame::{Framing, FramingChoice};
use duet_rpc::transport::{Address, ExitReport, Listener, Stdio, Transport, TransportKind};
use duet_rpc::{Hub, Profile, Remote};
use tokio::runtime::Builder;
use tokio::sync::watch;

use self::direct::{ClientFailure, ClientPipe, End};
use self::servers::{ServerTarget, Servers, own_exit};
use self::shared::{ServerEnd, SharedServer};
use super::call::address::ServerAddress;
use super::dial::Dialer;
use super::faulty_pipe::FaultSettings;
use super::stderr::Stderr;
use super::{call, rpc, tap};
use crate::args::{BridgeArgs, Global};
use crate::exit::{Exit, Problem};
use crate::logging::{Level, Log};
use crate::sys::{self, Interruptions, descriptors};
use crate::{console, settings};

/// The number of unsent bytes of one side at which the other side is not read.
const FULL: usize = 1024 * 1024;

/// A server that takes nothing for `STUCK` may have lost its client: the end of a TCP stream stands behind the bytes that
/// do not fit into our buffers. So the client is read on, up to `MOST_AHEAD` unsent bytes, which is more than the
/// buffers of both sockets hold.
const STUCK: Duration = Duration::from_secs(5);
const MOST_AHEAD: usize = 16 * 1024 * 1024;

/// Time for the answers to a client that has closed its output but may still read.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

/// Default maximum size of a message. A larger length prefix could not be told from text (F31).
const MAX_MESSAGE: usize = 64 * 1024 * 1024;
const MAX_MESSAGE_WITH_PREFIX: usize = 16 * 1024 * 1024 - 1;

/// Runs the bridge under the guard of the tap. Returns only if that fails.
pub(crate) fn run(args: &BridgeArgs) -> Exit {
    if let Err(problem) = check(args) {
        console::say(format_args!("{}", problem.message));
        return problem.exit;
    }
    let mut is_renamed = false;
    tap::run_guarded(std::env::args_os().skip(1).map(|word| {
        let is_name = !is_renamed && word == "bridge";
        is_renamed |= is_name;
        if is_name { "bridge-worker".into() } else { word }
    }))
}

fn check(args: &BridgeArgs) -> Result<(), Problem> {
    rpc::refuse_services(&args.listen.listen)?;
    let is_stdio = args.listen.listen.is_empty() || args.listen.listen.contains(&Address::Stdio);
    match args.shared && is_stdio {
        true => Err(Problem::usage("--shared needs --listen: stdin and stdout are one client")),
        false => Ok(()),
    }
}

/// Runs the bridge itself.
pub(crate) fn run_worker(args: &BridgeArgs, global: &Global) -> Exit {
    match prepare(args, global) {
        Ok(exit) => exit,
        Err(problem) => {
            console::say(format_args!("{}", problem.message));
            problem.exit
        }
    }
}

fn prepare(args: &BridgeArgs, global: &Global) -> Result<Exit, Problem> {
    let cannot = |error: io::Error| Problem::failure(format!("cannot start the bridge: {error}"));
    // Files are read while a signal still ends the process: a pipe may have no writer.
    let tokens = args.listen.token_file.as_deref();
    let tokens = tokens.map(|file| rpc::open_tokens(file, None)).transpose()?;
    let target = target(args)?;
    let report = |fault: &str| tracing::info!("{fault}");
    let faults = FaultSettings::new(&args.faults, args.connect.is_none(), report)?;
    let early = rpc::EarlySignals::capture().map_err(cannot)?;
    let endpoints = rpc::open_endpoints(&args.listen, tokens).inspect_err(|_| early.release())?;
    if let rpc::Endpoints::Stdio = endpoints {
        console::stdout().map_err(cannot)?;
    }
    descriptors::check_free(8).map_err(cannot)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    let stderr = Stderr::start().map_err(cannot)?;
    let log = Log::start(global, Level::Warn, Level::Debug).map_err(cannot)?;
    let framing = args.to_framing.and_then(|name| fixed(name.choice()));
    let ahead = args.pool as usize;
    let servers = Servers::new(target, framing, args.max_message_bytes, ahead, stderr.clone());
    let bridge = Bridge {
        servers: Arc::new(servers),
        profile: client_profile(args),
        faults: Arc::clone(&faults),
        is_shared: args.shared,
        restarts: args.restart,
        idle: settings::limited(args.idle),
        shared: OnceLock::new(),
        stop: watch::channel(false).0,
        failed: watch::channel(None).0,
    };
    let end = runtime.block_on(async {
        let mut interruptions = Interruptions::receive().map_err(cannot)?;
        early.pass_on();
        let bridge = Arc::new(bridge);
        let mut work = pin!(Arc::clone(&bridge).run(endpoints, args, log));
        match interruptions.or(work.as_mut()).await {
            Ok(end) => end,
            Err(_) => {
                bridge.stop.send_replace(true);
                // A second signal ends the process without waiting for servers; the guard ends them.
                interruptions.or(work).await.unwrap_or(Ok(BridgeEnd::Done))
            }
        }
    });
    drop(runtime);
    stderr.flush();
    log.flush();
    faults.name_unused();
    end.map(BridgeEnd::exit)
}

/// The end of the bridge.
enum BridgeEnd {
    Done,
    /// The server of stdin and stdout ended by itself.
    Server(ExitStatus),
    /// The server at an address refused the first exchange.
    Refused,
    Failed,
}

impl BridgeEnd {
    /// Ends like the server, if it ended by itself.
    fn exit(self) -> Exit {
        match self {
            BridgeEnd::Done => Exit::Success,
            BridgeEnd::Failed => Exit::Failed,
            BridgeEnd::Refused => Exit::NotStarted,
            BridgeEnd::Server(status) => {
                let signal = sys::processes::signal_of(status).map(|signal| 128 + signal);
                std::process::exit(status.code().or(signal).unwrap_or(1))
            }
        }
    }
}

fn target(args: &BridgeArgs) -> Result<ServerTarget, Problem> {
    let Some(address) = &args.connect else {
        return Ok(ServerTarget::Command(args.command.clone()));
    };
    let tls = call::tls::settings(&args.tls, Some(address))?;
    let unusable = |error| Problem::usage(format!("cannot connect to {address}: {error}"));
    let token_file = args.to_token_file.as_deref();
    let token = token_file.map(rpc::read_token).transpose()?;
    let dialer = Dialer::new(address, token, tls).map_err(unusable)?;
    let shown = ServerAddress::new(address, token_file).token_option("--to-token-file");
    Ok(ServerTarget::Address(Box::new(dialer), Arc::new(shown)))
}

fn fixed(choice: FramingChoice) -> Option<Framing> {
    match choice {
        FramingChoice::Fixed(framing) => Some(framing),
        FramingChoice::Auto => None,
    }
}

fn client_profile(args: &BridgeArgs) -> Profile {
    Profile::agent().with(|it| {
        it.framing = args.framing.choice();
        it.limits.message_bytes = max_message(args.max_message_bytes, it.framing);
    })
}

/// The maximum size of a message.
fn max_message(wanted: Option<u32>, framing: FramingChoice) -> usize {
    let most = match framing {
        FramingChoice::Fixed(Framing::Length) => MAX_MESSAGE_WITH_PREFIX,
        FramingChoice::Fixed(_) | FramingChoice::Auto => MAX_MESSAGE,
    };
    wanted.map_or(most, |bytes| bytes as usize)
}

struct Bridge {
    servers: Arc<Servers>,
    profile: Profile,
    faults: Arc<FaultSettings>,
    is_shared: bool,
    restarts: Option<u32>,
    idle: Option<Duration>,
    /// The server of all clients, or of all HTTP requests.
    shared: OnceLock<Arc<SharedServer>>,
    stop: watch::Sender<bool>,
    /// The reason why the shared server cannot be kept running.
    failed: watch::Sender<Option<String>>,
}

impl Bridge {
    async fn run(
        self: Arc<Self>,
        endpoints: rpc::Endpoints,
        args: &BridgeArgs,
        log: &Log,
    ) -> Result<BridgeEnd, Problem> {
        let cannot_start = |error: io::Error| Problem {
            exit: Exit::NotStarted,
            message: format!("cannot start the server: {error}"),
        };
        self.servers.fill().map_err(cannot_start)?;
        let ended = match endpoints {
            rpc::Endpoints::Stdio => {
                log.open();
                let cannot = |error| Problem::failure(format!("cannot read stdin: {error}"));
                let client: Box<dyn Transport> = Box::new(Stdio::take().map_err(cannot)?);
                self.serve_stdio(client).await
            }
            rpc::Endpoints::Listeners { listeners, warnings, .. } => {
                let addresses: Vec<_> = listeners.iter().map(|it| it.address().clone()).collect();
                rpc::announce(&addresses);
                log.open();
                warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                Ok(Arc::clone(&self).listen(listeners, args.max_clients as usize).await)
            }
        };
        self.servers.close().await;
        ended
    }

    /// Serves the client on stdin and stdout.
    async fn serve_stdio(&self, client: Box<dyn Transport>) -> Result<BridgeEnd, Problem> {
        let client = self.faults.pipe(client, &self.profile);
        match self.serve_own(client, Remote::new()).await {
            OwnEnd::NoServer(error) => {
                let message = format!("cannot start or reach the server: {error}");
                Err(Problem { exit: Exit::NotStarted, message })
            }
            OwnEnd::Server(report) => {
                log_end(&report);
                Ok(own_exit(&report).map_or(BridgeEnd::Done, BridgeEnd::Server))
            }
            OwnEnd::Refused => Ok(BridgeEnd::Refused),
            OwnEnd::Client(failure) => {
                failure.and_then(stdio_problem).map_or(Ok(BridgeEnd::Done), Err)
            }
        }
    }

    /// Serves all clients of these listeners, until the bridge stops.
    async fn listen(self: Arc<Self>, listeners: Vec<Listener>, most: usize) -> BridgeEnd {
        let bridge = Arc::clone(&self);
        let hub = Hub::builder().profile(self.profile).max_connections(most);
        let hub =
            hub.serve_with(move |transport, remote| Arc::clone(&bridge).serve(transport, remote));
        let hub = hub.build();
        for listener in listeners {
            tokio::spawn(hub.clone().serve(listener));
        }
        let mut stop = StopSignal::new(&self.stop);
        let mut failed = self.failed.subscribe();
        let mut failing = pin!(failed.wait_for(Option::is_some));
        let has_failed = poll_fn(|cx| match stop.poll(cx) {
            Poll::Ready(()) => Poll::Ready(false),
            Poll::Pending => failing.as_mut().poll(cx).map(|_| true),
        })
        .await;
        self.stop.send_replace(true);
        hub.stop().await;
        if !has_failed {
            return BridgeEnd::Done;
        }
        if let Some(reason) = &*self.failed.borrow() {
            console::say(format_args!("{reason}"));
        }
        BridgeEnd::Failed
    }

    /// Serves one connection, or one HTTP request.
    async fn serve(self: Arc<Self>, transport: Box<dyn Transport>, remote: Remote) {
        let kind = transport.kind();
        let client = self.faults.pipe(transport, &self.profile);
        let is_exchange = matches!(kind, TransportKind::Exchange | TransportKind::ExchangeStream);
        if self.is_shared || is_exchange {
            let shared = Arc::clone(self.shared.get_or_init(|| self.start_shared()));
            shared.serve(client, remote, &mut StopSignal::new(&self.stop)).await;
        } else {
            match self.serve_own(client, remote).await {
                OwnEnd::NoServer(error) => {
                    tracing::error!(%error, "cannot start or reach the server");
                }
                OwnEnd::Server(report) => log_end(&report),
                OwnEnd::Client(_) | OwnEnd::Refused => {}
            }
        }
        // Beside a connection this costs little, beside a request it would not.
        if !is_exchange {
            sys::release_free_memory();
        }
    }

    /// Serves a client with a server of its own.
    async fn serve_own(&self, client: ClientPipe, remote: Remote) -> OwnEnd {
        let mut stop = StopSignal::new(&self.stop);
        if self.restarts.is_some() {
            return self.serve_restarting(client, remote, &mut stop).await;
        }
        let server = match self.servers.open().await {
            Ok(server) => server,
            Err(error) => {
                closing::refuse(client).await;
                return OwnEnd::NoServer(error);
            }
        };
        match direct::serve(client, self.servers.pipe(server), self.idle, &mut stop).await {
            (End::Server, report) => OwnEnd::Server(report),
            (End::Refused, _) => OwnEnd::Refused,
            (End::Client(failure), _) => OwnEnd::Client(failure),
            (End::Unanswered | End::Idle | End::Stopped, _) => OwnEnd::Client(None),
        }
    }

    /// Serves a client with a server of its own that is started again when it ends.
    async fn serve_restarting(
        &self,
        client: ClientPipe,
        remote: Remote,
        stop: &mut StopSignal,
    ) -> OwnEnd {
        let shared = self.new_shared();
        let over = watch::channel(false).0;
        let mut server = pin!(Arc::clone(&shared).run(StopSignal::new(&over)));
        let mut served = pin!(shared.serve(client, remote, stop));
        let (mut has_left, mut server_end) = (false, None);
        poll_fn(|cx| {
            if !has_left && served.as_mut().poll(cx).is_ready() {
                has_left = true;
                over.send_replace(true);
            }
            if server_end.is_none()
                && let Poll::Ready(end) = server.as_mut().poll(cx)
            {
                server_end = Some(end);
            }
            match has_left && server_end.is_some() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        match server_end {
            Some(ServerEnd::CannotStart(error)) => OwnEnd::NoServer(error),
            Some(ServerEnd::Ended(report)) => OwnEnd::Server(report),
            Some(ServerEnd::Wanted) | None => OwnEnd::Client(None),
        }
    }

    fn new_shared(&self) -> Arc<SharedServer> {
        let servers = Arc::clone(&self.servers);
        SharedServer::new(servers, self.profile.limits, self.idle, self.restarts)
    }

    /// Starts the task of the server that clients share.
    fn start_shared(self: &Arc<Self>) -> Arc<SharedServer> {
        let shared = self.new_shared();
        let (bridge, server) = (Arc::clone(self), Arc::clone(&shared));
        tokio::spawn(async move {
            loop {
                let end = Arc::clone(&server).run(StopSignal::new(&bridge.stop)).await;
                let Some(reason) = end.reason() else { return };
                if let Some(most) = bridge.restarts {
                    let reason = format!("{reason} more than {most} times in a row");
                    bridge.failed.send_replace(Some(reason));
                    return;
                }
                // The next client starts another.
                tracing::error!("{reason}");
            }
        });
        shared
    }
}

/// The end of a client with a server of its own.
enum OwnEnd {
    Client(Option<ClientFailure>),
    Server(ExitReport),
    /// The server refused the first exchange, and the log has the reason.
    Refused,
    NoServer(io::Error),
}

/// The problem with stdin or stdout; `None` if the client has left.
fn stdio_problem(failure: ClientFailure) -> Option<Problem> {
    let (what, error) = match failure {
        ClientFailure::Read(error) => ("cannot read stdin", error),
        ClientFailure::Write(error) => ("cannot write stdout", error),
    };
    (!direct::has_left(&error)).then(|| Problem::failure(format!("{what}: {error}")))
}

/// Ready when the bridge stops.
struct StopSignal(
    watch::Receiver<bool>,
    Option<std::pin::Pin<Box<dyn Future<Output = ()> + Send>>>,
);

impl StopSignal {
    fn new(stop: &watch::Sender<bool>) -> Self {
        let receiver = stop.subscribe();
        let mut waiting = receiver.clone();
        let wait = async move {
            let _ = waiting.wait_for(|is_stopping| *is_stopping).await;
        };
        StopSignal(receiver, Some(Box::pin(wait)))
    }

    fn borrow(&self) -> watch::Ref<'_, bool> {
        self.0.borrow()
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(wait) = &mut self.1 else { return Poll::Ready(()) };
        match wait.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                self.1 = None;
                Poll::Ready(())
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn describe_end(report: &ExitReport) -> String {
    match report.exit {
        Some(exit) => format!("the server ended ({exit})"),
        None => "the server closed the connection".to_owned(),
    }
}

/// Logs the end of the server of one client. A failure is visible without options.
fn log_end(report: &ExitReport) {
    let end = describe_end(report);
    match report.exit {
        Some(exit) if !exit.success() => tracing::warn!("{end}"),
        _ => tracing::info!("{end}"),
    }
}
