//! The driver: moves bytes and time between a session and the world.
//!
//! One task owns the session, the transport and what waits to be sent. Each turn it takes the
//! posts of the handles, begins what may begin, handles every message that has arrived, sends all
//! answers with one write, and only then reads on. A handler runs in place; only if it has to wait
//! does it become a task of its own.
//!
//! Reading never waits for a handler. It stops only when so much waits that the remote has to wait
//! too, and no answer that we need can stand behind what is not read.

mod core;
mod ends;
mod express;
mod handlers;
mod in_place;
mod input;
mod posts;
mod records;
mod tasks;
mod uncorrelated;
mod unusable;

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use duet_rpc_proto::frame::ReadTimer;
use duet_rpc_proto::session::{Ending, Phase};
use tokio::time::Sleep;

use self::core::Core;
pub(crate) use self::records::connection as connection_span;
pub use self::records::{CONNECTION, REQUEST, TRAFFIC};
pub(crate) use self::tasks::Threads;
pub use self::unusable::UnusableAnswer;
use crate::peer::Handle;
use crate::router::Router;
use crate::shared::Shared;
use crate::state::{CloseReason, ConnectionState, Disconnect};
use crate::transport::{Inbox, Transport, let_others_run};

/// Does the work of a [`Peer`](crate::Peer): a future that ends when the connection does, and says
/// why it did.
#[must_use = "nothing happens on a connection whose driver is not polled"]
pub struct Driver {
    core: Core,
    inbox: Inbox,
    /// Whether large buffers are laid aside for others.
    is_one_of_many: bool,
    /// When others have their turn, if there are others.
    slice_ends: Option<Instant>,
    /// Whether nothing of what was received is still to be handled.
    is_drained: bool,
    timer: ReadTimer,
    /// When a frame that seems to be late is late.
    last_look: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
    rest: Rest,
    deaf: Option<Deaf>,
    /// For a remote that has closed its end and still has answers to read: the last count of signs that it
    /// reads, and since when the count has not changed.
    slow_reader: Option<(u64, Instant)>,
    progress: Progress,
}

/// After so long without a message, memory that large ones needed is given back.
const QUIET: Duration = Duration::from_secs(5);

/// After so many turns other tasks have theirs, however much there is still to do.
const TURNS: usize = 64;

/// The same where there are other connections, whose clients wait for each other then.
const FEW_TURNS: usize = 4;

/// How long one of many connections is served before others have their turn. A client that sends as much
/// as it can would otherwise keep a thousand messages of its own before each message of another.
const SLICE: Duration = Duration::from_micros(100);

/// How long a remote that does not take what is sent may go on to answer.
const HEARING_OUT: Duration = Duration::from_millis(500);

/// How long the remote of a listener may read nothing of its last answers after it has closed its end. The
/// system shows only in steps of several hundred kilobytes what the reader of a socket takes.
const SLOW_READER: Duration = Duration::from_secs(30);

/// A remote that cannot be written to. One that answers and goes is often found gone by who writes
/// to it before what it has sent is read.
struct Deaf {
    error: io::Error,
    until: Instant,
}

/// Whether the connection has gone quiet.
#[derive(Default)]
struct Rest {
    /// When to look.
    look_at: Option<Instant>,
    /// Whether something came since the last look.
    is_restless: bool,
}

/// How far the connection is.
enum Progress {
    Running,
    Closing(Disconnect),
    Closed(Disconnect),
}

impl Driver {
    pub(crate) fn new(
        transport: Box<dyn Transport>,
        router: Router,
        shared: Arc<Shared>,
        handle: Weak<Handle>,
    ) -> Self {
        let profile = shared.profile;
        let inbox = Inbox::new(transport.kind(), &profile);
        Driver {
            core: Core::new(transport, router, shared, handle, inbox.framing()),
            inbox,
            is_one_of_many: false,
            slice_ends: None,
            is_drained: true,
            timer: ReadTimer::new(profile.read_timeout),
            last_look: None,
            sleep: None,
            rest: Rest::default(),
            deaf: None,
            slow_reader: None,
            progress: Progress::Running,
        }
    }

    /// Keeps no large buffer that others on this thread could use.
    pub(crate) fn share_buffers(&mut self) {
        self.is_one_of_many = true;
    }

    /// Runs handlers that may be slow on these threads.
    pub(crate) fn use_threads(&mut self, threads: Threads) {
        self.core.threads = threads;
    }

    /// Whether nothing is under way that needs the runtime: nothing runs, waits or is to be sent.
    #[cfg(unix)]
    pub(crate) fn is_calm(&self) -> bool {
        matches!(self.progress, Progress::Running)
            && self.is_drained
            && self.deaf.is_none()
            && self.core.is_calm()
    }

    /// Whether a method runs for the first time, to show its pace.
    #[cfg(unix)]
    pub(crate) fn is_trying(&self) -> bool {
        self.core.trial.is_some()
    }

    /// How many messages have come so far.
    #[cfg(unix)]
    pub(crate) fn messages(&self) -> u64 {
        self.core.tally.messages
    }

    /// Goes on until there is nothing to do without waiting, or others should run too. An error is
    /// the connection's end.
    fn run(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Result<Option<Disconnect>, (CloseReason, io::Error)> {
        let mut before = None;
        self.slice_ends = self.is_one_of_many.then(|| now() + SLICE);
        let turns = if self.is_one_of_many { FEW_TURNS } else { TURNS };
        for _ in 0..turns {
            let now = now();
            if let Some(before) = before.replace(now) {
                self.core.note_turn(now.saturating_duration_since(before));
                if self.slice_is_over(now) {
                    break;
                }
            }
            self.core.handle_time(now);
            self.core.take_mail(now);
            self.core.send_waiting(now);
            self.core.begin_ready(cx);
            // What is at hand comes first: to read on would only make it more.
            let mut moved = self.is_drained && self.try_receive(cx, now)?;
            moved |= self.handle_arrived(cx, now);
            self.core.send_events();
            if self.is_drained || self.is_closing() {
                self.core.settle();
            }
            if self.deaf.is_none()
                && let Err(error) = self.core.flush(cx, now)
            {
                self.core.begin_no_more(now);
                self.deaf = Some(Deaf { error, until: now + HEARING_OUT });
            }
            if (!self.core.has_sent_all || self.core.stall.is_some())
                && let Some(error) = self.core.check_stall(now)
            {
                return Err((CloseReason::WriteFailed, error));
            }
            if !self.is_drained && !self.core.takes_messages() {
                moved |= self.try_receive(cx, now)?;
            }
            if let Some(error) = self.heard_out(now) {
                return Err((CloseReason::WriteFailed, error));
            }
            if self.deaf.is_none()
                && let Some(disconnect) = self.is_over(now)
            {
                return Ok(Some(disconnect));
            }
            if moved || self.core.shared.has_mail() || self.can_go_on() {
                if self.core.has_sent_all {
                    continue;
                }
                // Only the runtime learns that there is room for the rest, and if input never ends,
                // it would not get to it.
                break;
            }
            if self.wait(cx, now) {
                return Ok(None);
            }
        }
        // Who waits for room to send must hear of it, also on a connection that is never idle.
        self.core.publish();
        let_others_run(cx);
        Ok(None)
    }

    /// Whether it is the turn of other connections of this thread.
    fn slice_is_over(&self, now: Instant) -> bool {
        self.slice_ends.is_some_and(|end| end <= now)
    }

    /// Why the connection is over, if the remote is deaf and has said all that is awaited from it.
    fn heard_out(&mut self, now: Instant) -> Option<io::Error> {
        let is_awaited = self.core.session.pending_calls() > 0 && !self.core.input_ended;
        // It may have been closing already, and that is never longer for it.
        let is_late = self.core.session.drain_deadline().is_some_and(|until| until <= now);
        let is_over = |deaf: &mut Deaf| !is_awaited || is_late || deaf.until <= now;
        self.deaf.take_if(is_over).map(|deaf| deaf.error)
    }

    /// Whether what had to wait because too much was to be sent can go on, now that this has left:
    /// nobody else would wake us for it.
    fn can_go_on(&self) -> bool {
        self.core.session.has_ready()
            || (self.core.shared.has_unsent() && !self.core.is_crowded())
            || (!self.is_drained && self.core.takes_messages())
            || self.core.can_send_events()
    }

    /// Whether what has come and is not begun will not be.
    fn is_closing(&self) -> bool {
        let phase = self.core.session.phase();
        matches!(phase, Phase::Draining(draining) if draining.ending == Ending::Closing)
    }

    /// Whether a connection that is closing has nothing left to do, and why it closes.
    fn is_over(&mut self, now: Instant) -> Option<Disconnect> {
        let Phase::Draining(draining) = self.core.session.phase() else { return None };
        let has_all = match draining.ending {
            Ending::Input => self.core.input_ended && self.is_drained,
            Ending::Closing => true,
        };
        let is_done = has_all
            && self.core.session.is_idle()
            && self.core.outbox.is_empty()
            && self.core.has_sent_all
            && !self.core.has_events
            && !self.core.shared.has_mail()
            && !self.core.shared.has_unsent();
        let is_late = self.core.session.drain_deadline().is_some_and(|until| until <= now)
            && (draining.ending == Ending::Closing || !self.waits_for_reader(now));
        (is_done || is_late).then(|| match (draining.ending, &self.core.remote_end) {
            (Ending::Input, Some(end)) => end.clone(),
            (Ending::Input, None) => Disconnect::new(CloseReason::RemoteClosed, None),
            (Ending::Closing, _) => Disconnect::new(CloseReason::Closed, None),
        })
    }

    /// Whether a remote that has closed its end is given more time, because it has still to take what waits
    /// for it. A process with one client cannot wait so long: it has to end.
    fn waits_for_reader(&mut self, now: Instant) -> bool {
        if !self.is_one_of_many || self.core.has_sent_all {
            return false;
        }
        let signs = self.core.outbox.signs();
        let (_, since) = match self.slow_reader {
            Some(before) if before.0 == signs => before,
            _ => *self.slow_reader.insert((signs, now)),
        };
        let waits = now.saturating_duration_since(since) < SLOW_READER;
        if waits {
            self.core.session.handle_progress(now);
        }
        waits
    }

    /// Waits for time and posts; `false` if there is something to do already.
    fn wait(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        self.core.publish();
        if self.rest.look_at.is_some_and(|look_at| look_at <= now) {
            let is_restless = std::mem::take(&mut self.rest.is_restless);
            self.rest.look_at = is_restless.then_some(now + QUIET);
            if !is_restless {
                self.inbox.shrink();
                self.core.rest();
            }
        }
        let deaf_until = self.deaf.as_ref().map(|deaf| deaf.until);
        let late = self.timer.deadline().map(|late| late.max(self.last_look.unwrap_or(late)));
        let due = self.core.poll_timeout();
        let stall = self.core.stall.as_ref().map(|stall| stall.until);
        let times = [late, self.rest.look_at, deaf_until, self.core.trial, stall];
        let alarm = times.into_iter().fold(due, earliest);
        if let Some(next) = alarm {
            if next <= now {
                return false;
            }
            let next = tokio::time::Instant::from_std(next);
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(next)));
            // One that rings early does no harm; to set it anew for each message would.
            if sleep.deadline() > next || sleep.is_elapsed() {
                sleep.as_mut().reset(next);
            }
            if sleep.as_mut().poll(cx).is_ready() {
                return false;
            }
        } else {
            self.sleep = None;
        }
        self.core.shared.park(cx.waker(), alarm, !self.core.is_crowded())
    }
}

impl Future for Driver {
    type Output = Disconnect;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Disconnect> {
        let this = &mut *self;
        // Nothing is cloned for those who do not log.
        let span = &this.core.shared.span;
        let _inside = (!span.is_disabled()).then(|| span.clone().entered());
        this.poll_inside(cx)
    }
}

impl Driver {
    fn poll_inside(&mut self, cx: &mut Context<'_>) -> Poll<Disconnect> {
        let this = self;
        loop {
            match &mut this.progress {
                Progress::Running => {
                    this.core.begin();
                    let disconnect = match this.run(cx) {
                        Ok(None) => {
                            this.inbox.give_buffer_back();
                            if this.is_one_of_many {
                                this.inbox.recycle_buffer();
                                this.core.outbox.recycle_buffer();
                            }
                            return Poll::Pending;
                        }
                        Ok(Some(disconnect)) => disconnect,
                        Err((reason, error)) => Disconnect::failed(reason, error),
                    };
                    this.core.abandon_all(&disconnect);
                    this.progress = Progress::Closing(disconnect);
                }
                Progress::Closing(disconnect) => {
                    let Poll::Ready(exit_report) = this.core.transport.poll_close(cx) else {
                        return Poll::Pending;
                    };
                    let disconnect = disconnect.with_exit_report(exit_report);
                    this.core
                        .shared
                        .state
                        .send_replace(ConnectionState::Disconnected(disconnect.clone()));
                    this.progress = Progress::Closed(disconnect);
                }
                Progress::Closed(disconnect) => return Poll::Ready(disconnect.clone()),
            }
        }
    }
}

impl Drop for Driver {
    /// A driver that is dropped half-way leaves nobody waiting.
    fn drop(&mut self) {
        if !matches!(self.progress, Progress::Closed(_)) {
            let disconnect = Disconnect::dropped();
            self.core.abandon_all(&disconnect);
            self.core.shared.state.send_replace(ConnectionState::Disconnected(disconnect));
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("session", &self.core.session).finish_non_exhaustive()
    }
}

/// The earlier of two times, or the one that is set.
#[inline]
fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The time, as tokio has it: tests can stop it.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
