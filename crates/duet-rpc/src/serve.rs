//! The life of a server on stdin and stdout (L3–L7, L9): one call that serves a router until the
//! input ends, a signal comes or a handler shuts it down, and that always ends in time.

use std::fmt;
use std::io::{self, Write};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use duet_rpc_proto::Profile;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::Sleep;

use crate::driver::Threads;
use crate::error::{Error, ErrorKind, Logged};
use crate::fence;
use crate::peer::Peer;
use crate::router::Router;
use crate::state::{Disconnect, Reason};
use crate::transport::{Farewell, Inbox, Outbox, Received, Restore, Stdio, Transport};
use crate::watchdog::{Alarm, Call, CountsFrom, Parent, Watchdog};

/// How many threads there are for handlers that are not known to be quick.
const THREADS: usize = 2;
/// How long after the trigger the process ends, whatever still runs. Clients kill after 2 s, and on
/// a busy machine it takes a while to get to that.
const PATIENCE: Duration = Duration::from_millis(1870);
/// After so long without a sign of life the connection is stuck in a handler.
const STUCK: Duration = Duration::from_secs(1);
/// How long what is to be done before the exit may take (L6).
const LAST_ACTS: Duration = Duration::from_millis(500);
/// The same, when the patience is over.
const LAST_MOMENT: Duration = Duration::from_millis(30);
/// How long a server that was shut down waits for its client to close stdin. A client that sees
/// the exit before it has read the answer takes it for a crash.
const LINGER: Duration = Duration::from_millis(25);

/// Serves a router on stdin and stdout until the process is to end; return what it returns from
/// `main`.
///
/// It ends when stdin does, when SIGINT, SIGTERM or SIGHUP comes, when a method comes that was
/// registered with [`Router::shutdown`], and when a handler calls
/// [`Context::shut_down`](crate::Context::shut_down): what runs is finished and answered, and the
/// process ends within 2 s, also if stdin stays open, nobody reads stdout, or a handler blocks or
/// spins. What anything prints goes to stderr, so that stdout carries messages alone.
///
/// ```no_run
/// use std::process::ExitCode;
/// use duet_rpc::{Failure, Profile, Router};
///
/// fn main() -> ExitCode {
///     let router = Router::new()
///         .method("add", async |(a, b): (i64, i64)| Ok::<_, Failure>(a + b))
///         .shutdown("shutdown", async || Ok::<_, Failure>("goodbye"));
///     duet_rpc::serve(&Profile::editor(), router)
/// }
/// ```
pub fn serve(profile: &Profile, router: Router) -> ExitCode {
    match Server::new(profile, router).run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If nobody reads stderr, the watchdog ends this.
            let _ = writeln!(io::stderr(), "the server ended: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A server on stdin and stdout, with more to be set than [`serve`] has.
pub struct Server {
    profile: Profile,
    router: Router,
    threads: usize,
    ends_with_parent: bool,
    on_start: Option<OnStart>,
    before_exit: Option<LastAct>,
}

type OnStart = Box<dyn FnOnce(&Peer) + Send>;
type LastAct = Arc<dyn Fn() + Send + Sync>;

impl Server {
    /// Serves this router with these settings.
    pub fn new(profile: &Profile, router: Router) -> Self {
        let profile = *profile;
        let (on_start, before_exit) = (None, None);
        Server { profile, router, threads: THREADS, ends_with_parent: false, on_start, before_exit }
    }

    /// How many threads there are for handlers that are not known to be quick, besides the one
    /// that reads and writes. They are started when they are first needed. With none, all handlers
    /// run on that one thread, and one that blocks it keeps everything waiting.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Ends gracefully when the process that started this one dies, even if some other process
    /// still holds stdin open.
    #[must_use]
    pub fn exit_with_parent(mut self) -> Self {
        self.ends_with_parent = true;
        self
    }

    /// Called inside the runtime before the first message is read: to keep the [`Peer`], or to
    /// spawn what calls the client.
    #[must_use]
    pub fn on_start(mut self, on_start: impl FnOnce(&Peer) + Send + 'static) -> Self {
        self.on_start = Some(Box::new(on_start));
        self
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
    pub fn run(self) -> Result<(), Error> {
        fence::hush();
        let last_act = self.before_exit.clone().map(once);
        let watch = Watch::start(last_act.clone()).map_err(cannot_start)?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot_start)?;
        let slow = Arc::new(SlowThreads { count: self.threads, runtime: Mutex::default() });
        let ended = fence::call(|| runtime.block_on(self.run_inside(&watch, &slow)));
        // A handler that blocks a thread is not waited for.
        runtime.shutdown_background();
        slow.shut_down();
        let ended = ended.and_then(|ended| ended).and_then(|disconnect| judge(&disconnect));
        watch.alarm.arm(PATIENCE, CountsFrom::Trigger, i32::from(ended.is_err()));
        if let Some(last_act) = last_act {
            run_within(LAST_ACTS, last_act);
        }
        ended
    }

    async fn run_inside(self, watch: &Watch, slow: &Arc<SlowThreads>) -> Result<Disconnect, Error> {
        let stdio = Stdio::take().map_err(cannot_start)?;
        let _ = watch.restore.set(stdio.restorer());
        let alarm = watch.alarm.clone();
        let tell = move || alarm.arm(PATIENCE, CountsFrom::LastByte, 0);
        if let Some(input) = stdio.watch_end(tell).map_err(cannot_start)? {
            watch.alarm.watch(input);
        }
        let farewell_is_due = Arc::new(AtomicBool::new(false));
        let transport = Watched {
            stdio,
            alarm: watch.alarm.clone(),
            calls: Arc::clone(&watch.calls),
            farewell_is_due: Arc::clone(&farewell_is_due),
            linger: None,
            has_ended: false,
        };
        let (peer, mut driver) = Peer::new(transport, &self.profile, self.router);
        let slow = Arc::clone(slow);
        driver.use_threads(Threads::Lazy(Arc::new(move || slow.start())));
        let alarm = watch.alarm.clone();
        let _ = peer.shared().on_close.set(Box::new(move |asked_by| {
            if asked_by.is_some() {
                // A message that asked for it has a client that reads the answer.
                farewell_is_due.store(true, Ordering::Relaxed);
                tracing::info!("asked to shut down, shutting down gracefully");
            }
            alarm.arm(PATIENCE, CountsFrom::Trigger, 0);
        }));
        watch.close_on_call(&peer);
        if self.ends_with_parent {
            match Parent::find() {
                Some(parent) => watch.alarm.watch_parent(parent),
                None => tracing::warn!("there is no parent process to be watched"),
            }
        }
        if let Some(on_start) = self.on_start {
            fence::call(|| on_start(&peer))?;
        }
        let disconnect = driver.await;
        // With nothing to wait for, the connection may have closed before anybody saw it close.
        watch.calls.log();
        Ok(disconnect)
    }
}

fn judge(disconnect: &Disconnect) -> Result<(), Error> {
    match disconnect.reason() {
        Reason::Closed | Reason::RemoteClosed => Ok(()),
        Reason::ReadFailed | Reason::WriteFailed => {
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

/// Threads for handlers that are not known to be quick, started when they are first needed. They
/// are a runtime of their own, as one that has several threads hands its work from one to another,
/// and the thread that reads and writes is to hand nothing to anybody.
struct SlowThreads {
    count: usize,
    runtime: Mutex<Option<Runtime>>,
}

impl SlowThreads {
    fn start(&self) -> Option<Handle> {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        if runtime.is_none() && self.count > 0 {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(self.count).thread_name("duet-rpc handler").enable_all();
            // Without them all handlers run in place.
            *runtime = builder.build().ok();
        }
        runtime.as_ref().map(|runtime| runtime.handle().clone())
    }

    fn shut_down(&self) {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }
}

/// The watchdog, and what it has to do with the connection.
struct Watch {
    alarm: Alarm,
    calls: Arc<Calls>,
    restore: Arc<OnceLock<Restore>>,
    /// Ends with this.
    _watchdog: Watchdog,
}

/// What asks the process to end: it may come before there is a connection to close.
#[derive(Default)]
struct Calls {
    peer: OnceLock<Peer>,
    /// The first that is not the end of stdin.
    first: OnceLock<Call>,
    is_logged: AtomicBool,
    input_has_ended: AtomicBool,
    end_is_logged: AtomicBool,
}

impl Calls {
    /// Logs what has come, each once.
    fn log(&self) {
        if self.input_has_ended.load(Ordering::Relaxed) {
            log_once(Call::InputEnded, &self.end_is_logged);
        }
        if let Some(call) = self.first.get() {
            log_once(*call, &self.is_logged);
        }
    }

    fn handle_end(&self) {
        self.input_has_ended.store(true, Ordering::Relaxed);
        log_once(Call::InputEnded, &self.end_is_logged);
    }
}

fn log_once(call: Call, is_logged: &AtomicBool) {
    if !is_logged.swap(true, Ordering::Relaxed) {
        tracing::info!("{call}, shutting down gracefully");
    }
}

/// The connection logs what has come. If it is stuck, somebody else has to: not the watchdog, as who
/// writes a log may block.
fn log_if_stuck(calls: &Arc<Calls>) {
    let calls = Arc::clone(calls);
    let log = move || {
        thread::sleep(STUCK);
        let _ = fence::call(|| calls.log());
    };
    // Without a thread it is not told, and no worse.
    let _ = thread::Builder::new().name("duet-rpc last words".to_owned()).spawn(log);
}

impl Watch {
    fn start(last_act: Option<LastAct>) -> io::Result<Self> {
        let (calls, restore) = (Arc::<Calls>::default(), Arc::<OnceLock<Restore>>::default());
        let (heard, to_restore) = (Arc::clone(&calls), Arc::clone(&restore));
        let on_call = move |call, alarm: &Alarm| {
            match call {
                // What came before it is worked on; the connection will see it for itself.
                Call::InputEnded => {
                    heard.input_has_ended.store(true, Ordering::Relaxed);
                    alarm.arm(PATIENCE, CountsFrom::LastByte, 0);
                }
                Call::Signal(_) | Call::ParentEnded => {
                    alarm.arm(PATIENCE, CountsFrom::Trigger, 0);
                    let _ = heard.first.set(call);
                    if let Some(peer) = heard.peer.get() {
                        peer.begin_close(None);
                    }
                }
            }
            log_if_stuck(&heard);
        };
        let last_rites = move || {
            if let Some(restore) = to_restore.get() {
                restore.put_back();
            }
            if let Some(last_act) = &last_act {
                run_within(LAST_MOMENT, Arc::clone(last_act));
            }
        };
        let watchdog = Watchdog::start(Box::new(on_call), Box::new(last_rites))?;
        Ok(Watch { alarm: watchdog.alarm(), calls, restore, _watchdog: watchdog })
    }

    fn close_on_call(&self, peer: &Peer) {
        let _ = self.calls.peer.set(peer.clone());
        if self.calls.first.get().is_some() {
            peer.begin_close(None);
        }
        let (calls, mut state) = (Arc::clone(&self.calls), peer.watch());
        tokio::spawn(async move {
            // Whatever closes the connection shows in its state.
            let _ = state.wait_for(|state| !state.is_open()).await;
            calls.log();
        });
    }
}

/// The same act, which does nothing the second time: the watchdog may come while it is being done.
fn once(act: LastAct) -> LastAct {
    let is_done = AtomicBool::new(false);
    Arc::new(move || {
        if !is_done.swap(true, Ordering::AcqRel) {
            act();
        }
    })
}

/// Does something on a thread of its own, and goes on when it is done or the time is over.
fn run_within(time: Duration, act: LastAct) {
    let (done, is_done) = mpsc::channel();
    let run = move || {
        let _ = fence::call(|| act());
        let _ = done.send(());
    };
    // Without a thread it cannot be done in a bounded time, and so not at all.
    if thread::Builder::new().name("duet-rpc exit".to_owned()).spawn(run).is_ok() {
        let _ = is_done.recv_timeout(time);
    }
}

/// Stdin and stdout, with the watchdog told of what happens on them.
struct Watched {
    stdio: Stdio,
    alarm: Alarm,
    calls: Arc<Calls>,
    /// Whether the client is to be given a moment to read the last answer.
    farewell_is_due: Arc<AtomicBool>,
    linger: Option<Pin<Box<Sleep>>>,
    has_ended: bool,
}

impl Watched {
    fn handle_end(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.alarm.arm(PATIENCE, CountsFrom::LastByte, 0);
            self.calls.handle_end();
        }
    }
}

impl Transport for Watched {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        let received = self.stdio.poll_receive(cx, inbox);
        if let Poll::Ready(Ok(Received::End)) = received {
            self.handle_end();
        }
        received
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        let signs = outbox.signs();
        let sent = self.stdio.poll_send(cx, outbox);
        if outbox.signs() != signs {
            self.alarm.progress();
        }
        sent
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let gone = self.stdio.poll_gone(cx);
        if gone.is_ready() {
            self.handle_end();
        }
        gone
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Farewell> {
        if self.farewell_is_due.load(Ordering::Relaxed) && !self.has_ended {
            let linger = self.linger.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
            let is_over = linger.as_mut().poll(cx).is_ready();
            if !is_over && self.stdio.poll_gone(cx).is_pending() {
                return Poll::Pending;
            }
        }
        self.stdio.poll_close(cx)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Server");
        shown.field("profile", &self.profile).field("router", &self.router).finish_non_exhaustive()
    }
}
