//! Server: serves a router on stdin and stdout (L3–L7, L9) or on sockets, until the input ends, a signal
//! arrives or a handler shuts it down. It always exits within a time limit.
//!
//! | file | contents |
//! |---|---|
//! | `mod` | the server, from its start to its end |
//! | `shutdown` | the triggers that ask it to end, and the watchdog that enforces the end |
//! | `watched_stdio` | stdin and stdout that report to the watchdog |
//! | `listening` | the server on sockets, with many connections |
//! | `connection_threads` | threads for connections |
//! | `exit_hook` | the hook that runs before the exit, in a bounded time |

mod connection_threads;
mod exit_hook;
mod listening;
mod shutdown;
mod watchdog;
mod watched_stdio;

use std::fmt;
use std::io::{self, Write};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use duet_rpc_proto::Profile;
use tokio::runtime::{Builder, Handle, RuntimeFlavor};

use crate::connection::closing::{EXIT_HOOK, FORCED_EXIT};
use crate::connection::worker_pool::{self, WorkerPool};
use crate::error::{CloseReason, Disconnect};
use crate::error::{Error, ErrorKind, Logged};
use crate::net::{Address, Hub, HubBuilder, Listener, at_exit};
use crate::panic_guard;
use crate::peer::{Peer, Peers};
use crate::router::Router;
use crate::stderr_log;
use crate::stdio::Stdio;
use crate::stdio::handoff::{HandedOver, STACK};
pub use crate::sys::{Parent, is_ignored as is_signal_ignored};
use crate::threads;
use exit_hook::{ExitHook, once, run_within};
use shutdown::{OnHangUp, ShutdownWatch};
use watchdog::CountsFrom;
use watched_stdio::WatchedStdio;

const INSIDE_CURRENT_THREAD: &str = "`serve` and `Server::run` block their thread, so they cannot run \
    inside a current-thread tokio runtime; call them from a plain `fn main`, after `block_on` of what \
    has to be done before, or use `#[tokio::main]` without a flavor";

/// Serves a router on stdin and stdout until the process has to end. Return its exit code from `main`.
///
/// It ends when stdin ends, on SIGINT, SIGTERM or SIGHUP, on a method that was registered with
/// [`Router::shutdown_method`], and when a handler calls [`Context::shut_down`](crate::Context::shut_down).
/// Running handlers finish and are answered. The process ends within 2 s, even if stdin stays open, nobody
/// reads stdout, or a handler blocks or spins. Output of `println!` and similar macros goes to stderr, so
/// that stdout carries only messages. The specification has [the
/// rules](crate::proto::specification#5-life-of-the-daemon).
///
/// Call it from a plain `fn main`; see [`Server::run`] about calling it inside a runtime.
///
/// ```no_run
/// use std::process::ExitCode;
/// use duet_rpc::{Profile, Router};
///
/// fn main() -> ExitCode {
///     let router = Router::new().method("add", async |(a, b): (i64, i64)| a + b);
///     duet_rpc::serve(Profile::editor(), router)
/// }
/// ```
pub fn serve(profile: Profile, router: Router) -> ExitCode {
    match Server::new().profile(profile).router(router).run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If nobody reads stderr, the watchdog ends this.
            let _ = writeln!(io::stderr(), "the server ended: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A server on stdin and stdout or on sockets, with more settings than [`serve`].
///
/// # Changes to the whole process
///
/// [`run`](Server::run), and so [`serve`], is meant to be the last call of a process:
///
/// - It replaces the panic hook. A panic in a handler is no longer printed, because its message may quote
///   anything; it is logged with its source location. Every other panic goes to the previous hook. A hook that
///   is set later replaces this one.
/// - It receives SIGINT, SIGTERM and SIGHUP, unless they were ignored at the start (Linux), and SIGXFSZ no
///   longer ends the process. None of them has its default effect again afterwards. With a listener that has TLS,
///   SIGHUP reads its certificate again and does not end the server.
/// - Descriptor 0 reads as empty, and descriptor 1 points to stderr.
/// - With [`listen`](Server::listen), it raises the soft limit of open files (`RLIMIT_NOFILE`) to the hard
///   one. Started programs inherit that; [`Child`](crate::transport::Child) gives its program the previous
///   limit (Linux).
/// - When it returns, it has killed every [`Child`](crate::transport::Child), and the process is ended by force
///   within 2 s.
pub struct Server {
    /// The settings of all connections, including the connection on stdin and stdout.
    hub: HubBuilder,
    listeners: Vec<Listener>,
    sources: Vec<ConnectionSource>,
    on_listening: Option<OnListening>,
    threads: usize,
    /// The process whose end ends the server; `Some(None)` if there is no such process to watch.
    parent: Option<Option<Parent>>,
    before_exit: Option<ExitHook>,
}

/// Brings connections of another kind; see [`Server::source`].
type ConnectionSource =
    Box<dyn FnOnce(Hub) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>> + Send>;

type OnListening = Box<dyn FnOnce(&[Address]) + Send>;

impl Server {
    /// Begins a server. Set its options, then [`run`](Server::run) it.
    pub fn new() -> Self {
        Server {
            hub: Hub::builder(),
            listeners: Vec::new(),
            sources: Vec::new(),
            on_listening: None,
            threads: worker_pool::MOST,
            parent: None,
            before_exit: None,
        }
    }

    /// Sets the profile of all connections. Default: [`Profile::agent`].
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.hub = self.hub.profile(profile);
        self
    }

    /// Sets the router that serves all connections. Default: no methods.
    #[must_use]
    pub fn router(mut self, router: Router) -> Self {
        self.hub = self.hub.router(router);
        self
    }

    /// Serves connections to this listener instead of stdin and stdout. It may be called several times. A
    /// signal then ends the server; a shutdown method, or a client that closes, ends one connection.
    #[must_use]
    pub fn listen(mut self, listener: Listener) -> Self {
        self.listeners.push(listener);
        self
    }

    /// Serves connections that this function brings, instead of stdin and stdout: it gets the server's [`Hub`], and
    /// [attaches](Hub::attach) connections to it. It is for other kinds of transports, such as a message broker. The
    /// server starts it with the listeners, and ends when it ends. It must end soon after the hub is
    /// [stopping](Hub::stopping). If it fails, [`run`](Server::run) returns its error.
    ///
    /// ```no_run
    /// use duet_rpc::{Error, Remote, Server, transport::memory};
    ///
    /// let server = Server::new().source(async |hub| -> Result<(), Error> {
    ///     let (_here, there) = memory::pair();
    ///     let _ = hub.attach(there, Remote::new())?;
    ///     hub.stopping().await;
    ///     Ok(())
    /// });
    /// server.run().expect("it ends as it should");
    /// ```
    #[must_use]
    pub fn source<F>(mut self, bring: impl FnOnce(Hub) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.sources.push(Box::new(move |hub| Box::pin(bring(hub))));
        self
    }

    /// Maximum number of connections at the same time; see
    /// [`HubBuilder::max_connections`](crate::HubBuilder::max_connections).
    #[must_use]
    pub fn max_connections(mut self, most: usize) -> Self {
        self.hub = self.hub.max_connections(most);
        self
    }

    /// Bounds the bytes that wait to be sent on all connections, when this server listens. See
    /// [`HubBuilder::max_outgoing_bytes`](crate::HubBuilder::max_outgoing_bytes).
    #[must_use]
    pub fn max_outgoing_bytes(mut self, bytes: usize) -> Self {
        self.hub = self.hub.max_outgoing_bytes(bytes);
        self
    }

    /// Serves this router to clients that can receive answers but not calls; see
    /// [`HubBuilder::one_way`](crate::HubBuilder::one_way).
    #[must_use]
    pub fn one_way(mut self, router: Router) -> Self {
        self.hub = self.hub.one_way(router);
        self
    }

    /// Called with the addresses of all listeners before the first connection is accepted, to announce them.
    /// The server already receives signals at that time.
    #[must_use]
    pub fn on_listening(mut self, tell: impl FnOnce(&[Address]) + Send + 'static) -> Self {
        self.on_listening = Some(Box::new(tell));
        self
    }

    /// Maximum number of worker threads for handlers that may block. Default: 32. Threads start on
    /// demand. With 0, all handlers run on the thread that calls [`run`](Server::run), and a handler that
    /// blocks delays all others.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Ends gracefully when the parent process dies, even if another process still holds stdin open. Call it
    /// early: if the parent dies before the call, the server watches the process that replaced it. To avoid
    /// that, let the parent pass its process id, and use [`exit_with_process`](Server::exit_with_process).
    #[must_use]
    pub fn exit_with_parent(mut self) -> Self {
        self.parent = Some(Parent::find());
        self
    }

    /// Ends gracefully when the process with this id dies, or if it is dead already. It is the process that
    /// started this one, directly or through a wrapper.
    #[must_use]
    pub fn exit_with_process(mut self, id: u32) -> Self {
        self.parent = Some(Parent::with_id(id));
        self
    }

    /// Called with the [`Peer`] of each new connection, inside its runtime and before its first message is
    /// handled: to keep the peer, or to spawn a task that calls the client. On stdin and stdout there is one
    /// connection. The server already receives signals at that time.
    ///
    /// A panic in it closes the connection: a server on stdin and stdout ends with an error, and a server
    /// with listeners serves all other connections. See [`HubBuilder::on_connect`](crate::HubBuilder::on_connect).
    ///
    /// ```no_run
    /// use duet_rpc::Server;
    ///
    /// let server = Server::new().on_connect(|peer| {
    ///     let peer = peer.clone();
    ///     tokio::spawn(async move { peer.notify("ready", ()).await });
    /// });
    /// server.run().expect("it ends as it should");
    /// ```
    #[must_use]
    pub fn on_connect(mut self, on_connect: impl Fn(&Peer) + Send + Sync + 'static) -> Self {
        self.hub = self.hub.on_connect(on_connect);
        self
    }

    /// The open connections, to list them or to notify all of them: a handle for threads that run beside the
    /// server. Handlers get it from their [`Context`](crate::Context::peers). On stdin and stdout it is one
    /// connection.
    ///
    /// ```no_run
    /// use std::{thread, time::Duration};
    /// use duet_rpc::Server;
    ///
    /// let server = Server::new();
    /// let peers = server.peers();
    /// thread::spawn(move || loop {
    ///     thread::sleep(Duration::from_secs(1));
    ///     peers.broadcast("tick", ()).expect("no params are JSON");
    /// });
    /// server.run().expect("it ends as it should");
    /// ```
    pub fn peers(&self) -> Peers {
        Peers::from_registry(&self.hub.registry)
    }

    /// Called at the end, for example to flush logs. It has half a second, and less in a forced exit; after
    /// that the process exits without waiting for it. It may be called on any thread.
    #[must_use]
    pub fn before_exit(mut self, exit_hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.before_exit = Some(Arc::new(exit_hook));
        self
    }

    /// Serves until the process has to end. On an error, exit with a code other than 0. A watchdog ends the
    /// process 1.87 s after the cause of the end, so the code after this call has only the rest of that time.
    ///
    /// It blocks the calling thread, and has a runtime of its own. Inside a multi-thread runtime
    /// (`#[tokio::main]`) it runs on a thread of its own. Inside a current-thread runtime it returns an
    /// error, because it would stop all tasks of that runtime. Call it after the runtime's `block_on`, from a
    /// plain `fn main`.
    pub fn run(self) -> Result<(), Error> {
        let Ok(outer) = Handle::try_current() else { return self.run_here() };
        if outer.runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Err(cannot_start(io::Error::other(INSIDE_CURRENT_THREAD)));
        }
        thread::scope(|scope| {
            let server = threads::builder("duet-rpc server", STACK)
                .and_then(|thread| thread.spawn_scoped(scope, || self.run_here()))
                .map_err(cannot_start)?;
            // Panics are caught inside.
            server.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Panic)))
        })
    }

    /// With TLS, SIGHUP reads the certificates again, as it makes other servers read their configuration.
    #[cfg(feature = "tls")]
    fn on_hang_up(&self) -> Option<OnHangUp> {
        let mut settings: Vec<crate::net::TlsServer> = Vec::new();
        for shared in self.listeners.iter().filter_map(Listener::tls_settings) {
            // Listeners that share their settings share the files.
            if !settings.iter().any(|it| it.is_same(shared)) {
                settings.push(shared.clone());
            }
        }
        if settings.is_empty() {
            return None;
        }
        let reload = move || {
            tracing::info!("received SIGHUP, reading the TLS certificates again");
            for settings in &settings {
                // The outcome is logged.
                let _ = settings.reload();
            }
        };
        Some(Arc::new(reload))
    }

    #[cfg(not(feature = "tls"))]
    fn on_hang_up(&self) -> Option<OnHangUp> {
        None
    }

    /// Serves on this thread.
    fn run_here(self) -> Result<(), Error> {
        stderr_log::enable();
        panic_guard::silence_hook();
        let exit_hook = self.before_exit.clone().map(once);
        let watch =
            ShutdownWatch::start(exit_hook.clone(), self.on_hang_up()).map_err(cannot_start)?;
        // With too many open files, tokio panics instead of failing.
        let runtime = panic_guard::catch(|| Builder::new_current_thread().enable_all().build());
        let runtime = runtime.map_err(|_| io::Error::other("too many open files for the runtime"));
        let runtime = runtime.and_then(|runtime| runtime).map_err(cannot_start)?;
        let workers = WorkerPool::of_server(self.threads);
        let ended = match self.listeners.is_empty() && self.sources.is_empty() {
            true => {
                panic_guard::catch(|| runtime.block_on(self.run_inside(&watch, workers.clone())))
            }
            false => {
                panic_guard::catch(|| runtime.block_on(self.run_listening(&watch, workers.clone())))
            }
        };
        // Do not wait for a handler that blocks a thread.
        runtime.shutdown_background();
        if let Some(workers) = workers {
            workers.shut_down();
        }
        // A blocked handler does not drop its child processes in time either.
        at_exit::kill_all(EXIT_HOOK);
        let ended = ended.inspect_err(|panic| {
            tracing::error!(error = %Logged(panic), "server panicked");
        });
        let ended = ended.and_then(|ended| ended);
        watch.alarm.arm(FORCED_EXIT, CountsFrom::Trigger, i32::from(ended.is_err()));
        if let Some(exit_hook) = exit_hook
            && !run_within(EXIT_HOOK, Arc::clone(&exit_hook))
        {
            // If no thread can start, the hook runs here, and the watchdog bounds its time.
            let _ = panic_guard::catch(|| exit_hook());
        }
        ended
    }

    async fn run_inside(
        self,
        watch: &ShutdownWatch,
        workers: Option<Arc<WorkerPool>>,
    ) -> Result<(), Error> {
        let stdio = Stdio::take().map_err(cannot_start)?;
        let restore = stdio.restorer();
        watch.clean_up_with(move || restore.put_back());
        let alarm = watch.alarm.clone();
        let tell = move || alarm.arm(FORCED_EXIT, CountsFrom::LastByte, 0);
        if let Some(input) = stdio.watch_end(tell).map_err(cannot_start)? {
            watch.alarm.watch(input);
        }
        if let Some(output) = stdio.duplicate_output() {
            watch.alarm.watch_output(output);
        }
        // Without worker threads, everything runs on this one.
        let handoff = stdio.handoff().filter(|_| self.threads > 0);
        let must_linger = Arc::new(AtomicBool::new(false));
        let transport = WatchedStdio::new(stdio, watch, &must_linger);
        let HubBuilder { profile, router, on_connect, registry, .. } = self.hub;
        let mut peer = Peer::builder(transport).profile(profile).router(router);
        peer.registry = Some(Arc::clone(&registry));
        let (peer, mut driver) = peer.build_driver();
        driver.use_pool(workers);
        let alarm = watch.alarm.clone();
        let _ = peer.shared().on_close.set(Box::new(move |asked_by| {
            if asked_by.is_some() {
                // The client that asked for the shutdown still reads the answer.
                must_linger.store(true, Ordering::Relaxed);
                tracing::info!("asked to shut down, shutting down gracefully");
            }
            alarm.arm(FORCED_EXIT, CountsFrom::Trigger, 0);
        }));
        watch.close_on_trigger(&peer);
        watch_parent(self.parent, watch);
        if let Some(on_connect) = on_connect {
            panic_guard::catch(|| on_connect(&peer))?;
        }
        let _entry = registry.enter(peer, || false);
        let disconnect = match handoff {
            Some((handoff, input)) => HandedOver::new(*driver, handoff, input).await?,
            None => driver.await,
        };
        // If nothing is left to drain, the connection may close before the task has logged the trigger.
        watch.triggers.log();
        judge(&disconnect)?;
        match watch.triggers.is_unread() {
            false => Ok(()),
            true => {
                let cause = "stdout has no reader";
                tracing::error!("stdout closed: {cause}");
                Err(Error::new(ErrorKind::Transport).caused_by(cause))
            }
        }
    }
}

impl Default for Server {
    fn default() -> Self {
        Server::new()
    }
}

fn watch_parent(parent: Option<Option<Parent>>, watch: &ShutdownWatch) {
    match parent {
        Some(Some(parent)) => watch.alarm.watch_parent(parent),
        Some(None) => tracing::warn!("no parent process to watch"),
        None => {}
    }
}

fn judge(disconnect: &Disconnect) -> Result<(), Error> {
    let problem = match disconnect.reason() {
        CloseReason::Closed | CloseReason::RemoteClosed => return Ok(()),
        CloseReason::ReadFailed => "cannot read stdin",
        CloseReason::WriteFailed => "cannot write stdout",
        CloseReason::ConnectFailed => "connection failed",
    };
    match disconnect.failure().and_then(std::error::Error::source) {
        Some(error) => tracing::error!(%error, "{problem}"),
        None => tracing::error!("{problem}"),
    }
    Err(disconnect.to_error())
}

fn cannot_start(cause: io::Error) -> Error {
    tracing::error!(%cause, "cannot start the server");
    Error::new(ErrorKind::Transport).caused_by(cause)
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Server");
        shown.field("profile", &self.hub.profile).field("router", &self.hub.router);
        shown.finish_non_exhaustive()
    }
}
