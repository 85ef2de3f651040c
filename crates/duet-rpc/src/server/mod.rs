//! Server: serves a router on stdin and stdout (L3–L7, L9) or on sockets, until the input ends, a signal comes or
//! a handler shuts it down, and always exits in time.
//!
//! | file | what it holds |
//! |---|---|
//! | `mod` | the server, from its start to its end |
//! | `shutdown` | what asks it to end, and the watchdog that sees to it |
//! | `watched_stdio` | stdin and stdout, with the watchdog told of what happens on them |
//! | `listening` | the same life with many connections instead |
//! | `connection_threads` | threads for connections |
//! | `exit_hook` | what is to be done before the exit, in a bounded time |

mod connection_threads;
mod exit_hook;
mod listening;
mod shutdown;
mod watchdog;
mod watched_stdio;

use std::fmt;
use std::io::{self, Write};
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
use crate::stdio::Stdio;
use crate::stdio::handoff::{HandedOver, STACK};
use crate::threads;
use exit_hook::{LastAct, once, run_within};
use shutdown::Watch;
use watchdog::CountsFrom;
pub use watchdog::{Parent, is_ignored as is_signal_ignored};
use watched_stdio::Watched;

const INSIDE_CURRENT_THREAD: &str = "`serve` and `Server::run` block their thread, so they cannot run \
    inside a current-thread tokio runtime; call them from a plain `fn main`, after `block_on` of what \
    has to be done before, or use `#[tokio::main]` without a flavor";

/// Serves a router on stdin and stdout until the process is to end; return what it returns from
/// `main`.
///
/// It ends when stdin does, when SIGINT, SIGTERM or SIGHUP comes, when a method comes that was
/// registered with [`Router::shutdown_method`], and when a handler calls
/// [`Context::shut_down`](crate::Context::shut_down): what runs is finished and answered, and the
/// process ends within 2 s, also if stdin stays open, nobody reads stdout, or a handler blocks or
/// spins. What anything prints goes to stderr, so that stdout carries messages alone. The specification has
/// [the rules](crate::proto::specification#5-life-of-the-daemon).
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

/// A server on stdin and stdout, or for all who connect, with more to be set than [`serve`] has.
///
/// # What changes for the whole process
///
/// [`run`](Server::run), and so [`serve`], is meant to be the last thing that a process does:
///
/// - The panic hook is replaced for good. A panic in a handler is no longer printed, because its
///   message may hold anything; it is logged with its place. Every other panic goes to the hook that
///   was there before. A hook that is set later replaces this one.
/// - SIGINT, SIGTERM and SIGHUP are received, unless they were ignored at the start (Linux), and
///   SIGXFSZ no longer ends the process. None of them has its default effect again afterwards.
/// - Descriptor 0 reads as empty, and descriptor 1 points to stderr.
/// - With [`listen`](Server::listen), the soft limit of open files (`RLIMIT_NOFILE`) is raised to the
///   hard one. A program that is started inherits that; [`Child`](crate::transport::Child) gives its
///   program the limit of before (Linux).
/// - When it returns, every [`Child`](crate::transport::Child) is killed, and the process is ended by
///   force within 2 s.
pub struct Server {
    /// The settings of all connections, even of the one on stdin and stdout.
    hub: HubBuilder,
    listeners: Vec<Listener>,
    on_listening: Option<OnListening>,
    threads: usize,
    /// The process to end with, or that there is none to be seen.
    parent: Option<Option<Parent>>,
    before_exit: Option<LastAct>,
}

type OnListening = Box<dyn FnOnce(&[Address]) + Send>;

impl Server {
    /// Begins a server: set what it needs, then [`run`](Server::run) it.
    pub fn new() -> Self {
        Server {
            hub: Hub::builder(),
            listeners: Vec::new(),
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

    /// Serves those who connect here, and not stdin and stdout. It can be said of several. A signal
    /// ends the server then; what shuts down, or the end of a client, ends one connection.
    #[must_use]
    pub fn listen(mut self, listener: Listener) -> Self {
        self.listeners.push(listener);
        self
    }

    /// How many connections there may be at the same time; see
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

    /// Serves this router to those who can be answered but not called; see
    /// [`HubBuilder::one_way`](crate::HubBuilder::one_way).
    #[must_use]
    pub fn one_way(mut self, router: Router) -> Self {
        self.hub = self.hub.one_way(router);
        self
    }

    /// Called before the first connection is accepted, if there are listeners, with where they
    /// listen: to tell those who wait for it. Signals are received by then.
    #[must_use]
    pub fn on_listening(mut self, tell: impl FnOnce(&[Address]) + Send + 'static) -> Self {
        self.on_listening = Some(Box::new(tell));
        self
    }

    /// Maximum number of worker threads for handlers that may block. Default: 32. Threads start on
    /// demand. With 0, all handlers run on the thread that calls [`run`](Server::run), and one that
    /// blocks it keeps everything waiting.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Ends gracefully when the process that started this one dies, even if some other process
    /// still holds stdin open. Call it early: a parent that has died before cannot be told from the
    /// process that takes its place. Whoever starts this one can pass its process id, for
    /// [`exit_with_process`](Server::exit_with_process), and leave no gap.
    #[must_use]
    pub fn exit_with_parent(mut self) -> Self {
        self.parent = Some(Parent::find());
        self
    }

    /// Ends gracefully when the process with this id dies, or is dead already: that of the process
    /// which started this one, or had a wrapper start it.
    #[must_use]
    pub fn exit_with_process(mut self, id: u32) -> Self {
        self.parent = Some(Parent::with_id(id));
        self
    }

    /// Called with the [`Peer`] of each new connection, inside its runtime and before its first message is
    /// handled: to keep the peer, or to spawn a task that calls the client. On stdin and stdout there is one
    /// connection, and signals are received by then.
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

    /// The connections that are open, to list them or to notify all of them: a handle for threads that run beside
    /// the server. Handlers ask their [`Context`](crate::Context::peers). On stdin and stdout it is one connection.
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

    /// Called when all is done, to write out logs and the like. It is given half a second, and
    /// less if the time is over; what takes longer is cut off. It may be called on any thread.
    #[must_use]
    pub fn before_exit(mut self, last_act: impl Fn() + Send + Sync + 'static) -> Self {
        self.before_exit = Some(Arc::new(last_act));
        self
    }

    /// Serves until the process is to end. An error is what could not be survived: exit with a
    /// code other than 0. The process has at most the rest of 1.87 s to exit by itself.
    ///
    /// It blocks the calling thread, and has a runtime of its own. Inside a multi-thread runtime
    /// (`#[tokio::main]`) it works, on a thread of its own. Inside a current-thread runtime it returns an
    /// error, because all tasks of that runtime would stand still: call it after the runtime's
    /// `block_on`, from a plain `fn main`.
    pub fn run(self) -> Result<(), Error> {
        let Ok(outer) = Handle::try_current() else { return self.run_here() };
        if outer.runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Err(cannot_start(io::Error::other(INSIDE_CURRENT_THREAD)));
        }
        thread::scope(|scope| {
            let server = threads::builder("duet-rpc server", STACK)
                .and_then(|thread| thread.spawn_scoped(scope, || self.run_here()))
                .map_err(cannot_start)?;
            // A panic is caught inside.
            server.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Panic)))
        })
    }

    /// Serves on this thread.
    fn run_here(self) -> Result<(), Error> {
        panic_guard::silence_hook();
        let last_act = self.before_exit.clone().map(once);
        let watch = Watch::start(last_act.clone()).map_err(cannot_start)?;
        // It panics where it should fail, if there are too many open files for it.
        let runtime = panic_guard::catch(|| Builder::new_current_thread().enable_all().build());
        let runtime = runtime.map_err(|_| io::Error::other("too many open files for the runtime"));
        let runtime = runtime.and_then(|runtime| runtime).map_err(cannot_start)?;
        let workers = WorkerPool::of_server(self.threads);
        let ended = match self.listeners.is_empty() {
            true => {
                panic_guard::catch(|| runtime.block_on(self.run_inside(&watch, workers.clone())))
            }
            false => {
                panic_guard::catch(|| runtime.block_on(self.run_listening(&watch, workers.clone())))
            }
        };
        // A handler that blocks a thread is not waited for.
        runtime.shutdown_background();
        if let Some(workers) = workers {
            workers.shut_down();
        }
        // Nor can what it holds be dropped in time.
        at_exit::kill_all(EXIT_HOOK);
        let ended = ended.inspect_err(|panic| {
            tracing::error!(error = %Logged(panic), "the connection broke");
        });
        let ended = ended.and_then(|ended| ended);
        watch.alarm.arm(FORCED_EXIT, CountsFrom::Trigger, i32::from(ended.is_err()));
        if let Some(last_act) = last_act
            && !run_within(EXIT_HOOK, Arc::clone(&last_act))
        {
            // It is done here then, and the watchdog sees to it that it comes to an end.
            let _ = panic_guard::catch(|| last_act());
        }
        ended
    }

    async fn run_inside(
        self,
        watch: &Watch,
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
        // Without further threads, everything runs on this one.
        let handoff = stdio.handoff().filter(|_| self.threads > 0);
        let farewell_is_due = Arc::new(AtomicBool::new(false));
        let transport = Watched::new(stdio, watch, &farewell_is_due);
        let HubBuilder { profile, router, on_connect, registry, .. } = self.hub;
        let peer = Peer::builder(transport).profile(profile).router(router).registry(&registry);
        let (peer, mut driver) = peer.build_driver();
        driver.use_pool(workers);
        let alarm = watch.alarm.clone();
        let _ = peer.shared().on_close.set(Box::new(move |asked_by| {
            if asked_by.is_some() {
                // A message that asked for it has a client that reads the answer.
                farewell_is_due.store(true, Ordering::Relaxed);
                tracing::info!("asked to shut down, shutting down gracefully");
            }
            alarm.arm(FORCED_EXIT, CountsFrom::Trigger, 0);
        }));
        watch.close_on_call(&peer);
        watch_parent(self.parent, watch);
        if let Some(on_connect) = on_connect {
            panic_guard::catch(|| on_connect(&peer))?;
        }
        let _entry = registry.enter(peer, || false);
        let disconnect = match handoff {
            Some((handoff, input)) => HandedOver::new(driver, handoff, input).await?,
            None => driver.await,
        };
        // With nothing to wait for, the connection may have closed before anybody saw it close.
        watch.calls.log();
        judge(&disconnect)?;
        match watch.calls.is_unread() {
            false => Ok(()),
            true => {
                let cause = "nobody reads stdout any more";
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

fn watch_parent(parent: Option<Option<Parent>>, watch: &Watch) {
    match parent {
        Some(Some(parent)) => watch.alarm.watch_parent(parent),
        Some(None) => tracing::warn!("there is no parent process to be watched"),
        None => {}
    }
}

fn judge(disconnect: &Disconnect) -> Result<(), Error> {
    match disconnect.reason() {
        CloseReason::Closed | CloseReason::RemoteClosed => Ok(()),
        CloseReason::ReadFailed | CloseReason::WriteFailed | CloseReason::ConnectFailed => {
            let error = disconnect.to_error();
            tracing::error!(error = %Logged(&error), "the connection broke");
            Err(error)
        }
    }
}

fn cannot_start(cause: io::Error) -> Error {
    tracing::error!(%cause, "the server cannot start");
    Error::new(ErrorKind::Transport).caused_by(cause)
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Server");
        shown.field("profile", &self.hub.profile).field("router", &self.hub.router);
        shown.finish_non_exhaustive()
    }
}
