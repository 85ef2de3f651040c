//! One connection: a single task owns the session, the transport and all messages that wait to be sent.
//!
//! ```text
//!   handles, tasks ── Command ──▶ mailbox
//!                                    │
//!   one turn:                        ▼
//!   1 handle_time ▶ 2 handle_commands ▶ 3 send_queued ▶ 4 begin_ready
//!                                                              │
//!        ┌─────────────────────────────────────────────────────┘
//!        ▼
//!   5 receive ▶ 6 handle_arrived ──▶ session ──▶ dispatch ──▶ handler
//!                                                              │
//!        ┌───────────────────── outbox ◀── answer ◀────────────┘
//!        ▼
//!   7 send_events ▶ 8 settle ▶ 9 flush ▶ 10 check_over
//!                        (under back-pressure, 5 comes behind 9)
//! ```
//!
//! The task takes turns until there is nothing to do. Then it sleeps until the transport, a command or the
//! earliest deadline wakes it. Every message that has arrived is handled before the next read, and all
//! answers leave with one write.
//!
//! | file | state machine |
//! |---|---|
//! | `receive` | reading, the read timeout, framing detection |
//! | `dispatch`, `inline_host` | a handler runs inline, as a task or on the pool; the one `answer` |
//! | `tasks`, `worker_pool` | handlers that wait; threads for those that may block |
//! | `mailbox`, `send_queue` | commands from handles and tasks; messages that wait for room |
//! | `outgoing`, `caller`, `events` | our calls, notifications and events |
//! | `subscriptions` | notifications that the application awaits |
//! | `budget`, `memory` | the limits on waiting messages, handlers and answers |
//! | `closing` | running, draining, closed; all times of the end |
//! | `inline_sender` | calls that their caller sends itself, without waking the task |
//! | `exchange` | the end of a connection for one message, as over HTTP |

mod budget;
mod caller;
pub(crate) mod closing;
mod dispatch;
mod driver;
mod events;
mod exchange;
mod inline_host;
mod inline_sender;
mod log;
mod mailbox;
pub(crate) mod memory;
mod outgoing;
mod receive;
mod send_queue;
mod shared;
mod state;
mod subscriptions;
mod tasks;
mod uncorrelated;
pub(crate) mod worker_pool;

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use duet_rpc_proto::frame::Framing;
use duet_rpc_proto::session::Session;
use tokio::time::Sleep;

pub(crate) use self::caller::{Caller, Settlement};
use self::closing::Stage;
use self::dispatch::Dispatch;
pub(crate) use self::driver::Driver;
pub use self::events::EventStream;
pub(crate) use self::inline_sender::SharedDriver;
pub use self::log::{CONNECTION, REQUEST, TRAFFIC};
pub(crate) use self::mailbox::Command;
use self::outgoing::Outgoing;
use self::receive::Receive;
pub(crate) use self::shared::Shared;
pub(crate) use self::subscriptions::ClientSubscriptions;
pub use self::subscriptions::Subscription;
use self::uncorrelated::Uncorrelated;
pub use self::uncorrelated::UnusableAnswer;
use crate::error::Disconnect;
use crate::peer::Handle;
use crate::router::{Router, Stopwatch};
use crate::transport::{Inbox, Outbox, Transport, TransportKind, let_others_run};

/// The number of turns before other tasks of the thread run, even if there is more to do.
const TURNS: usize = 64;

/// The number of turns if other connections share the thread, because their clients wait meanwhile.
const TURNS_OF_MANY: usize = 4;

/// The longest time that a connection runs before other connections of its thread. Without this limit, a
/// client that sends at full speed would get a thousand messages served before each message of another
/// client.
const SLICE: Duration = Duration::from_micros(100);

/// Memory that large messages needed is freed after this time without a message.
const IDLE: Duration = Duration::from_secs(5);

/// A connection without its inbox.
struct Connection {
    shared: Arc<Shared>,
    session: Session<Caller>,
    transport: Box<dyn Transport>,
    kind: TransportKind,
    outbox: Outbox,
    /// `true` if everything was sent, even from buffers of the transport.
    is_flushed: bool,
    receive: Receive,
    dispatch: Dispatch,
    outgoing: Outgoing,
    window: budget::Window,
    uncorrelated: Uncorrelated,
    stage: Stage,
    /// `true` if other connections share this thread and its buffers.
    shares_thread: bool,
    /// The end of this connection's slice, if others share the thread.
    slice_ends: Option<Instant>,
    /// The time at which memory is freed, if no message comes before.
    idle_at: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    fn new(
        transport: Box<dyn Transport>,
        router: Router,
        shared: Arc<Shared>,
        handle: Weak<Handle>,
        framing: Option<Framing>,
    ) -> Self {
        let mut session = Session::new(&shared.profile);
        if let Some(lane_of) = router.lane_of() {
            session.set_lanes(lane_of);
        }
        if let Some(closes) = router.closing() {
            session.set_closing(closes);
        }
        session.ignore_noise(transport.reports_exit());
        let kind = transport.kind();
        let outbox = Outbox::for_transport(kind, framing);
        let is_open = kind == TransportKind::Bytes && framing.is_none();
        Connection {
            receive: Receive::new(shared.profile.read_timeout, is_open),
            outgoing: Outgoing::new(router.send_observer()),
            dispatch: Dispatch::new(router, handle),
            window: budget::Window::new(&shared.profile.limits),
            uncorrelated: Uncorrelated::default(),
            stage: Stage::default(),
            shares_thread: false,
            slice_ends: None,
            idle_at: None,
            sleep: None,
            is_flushed: true,
            shared,
            session,
            transport,
            kind,
            outbox,
        }
    }

    /// Takes turns until there is nothing to do, or other tasks of the thread should run. An error ends the
    /// connection.
    fn run(&mut self, inbox: &mut Inbox, cx: &mut Context<'_>) -> Result<(), Disconnect> {
        let mut now = self::now();
        self.slice_ends = self.shares_thread.then(|| now + SLICE);
        let turns = if self.shares_thread { TURNS_OF_MANY } else { TURNS };
        for turn in 0..turns {
            if turn > 0 {
                let last = std::mem::replace(&mut now, self::now());
                self.dispatch.note_turn(now.saturating_duration_since(last));
                if self.slice_is_over(now) {
                    break;
                }
            }
            let has_more = self.turn(inbox, cx, now)?;
            if self.is_answered() {
                return Ok(());
            }
            if !has_more {
                if self.sleep_until_next(inbox, cx, now) {
                    return Ok(());
                }
            } else if !self.is_flushed {
                // Only the runtime learns that there is room for the rest. Without this yield, endless input
                // would keep it from checking.
                break;
            }
        }
        // Wake senders that wait for room, even if the connection is never idle.
        self.publish();
        let_others_run(cx);
        Ok(())
    }

    /// One turn, as drawn above. Returns `true` if there is more to do without waiting.
    fn turn(
        &mut self,
        inbox: &mut Inbox,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Result<bool, Disconnect> {
        self.dispatch.stopwatch = Stopwatch::new(now);
        self.handle_time(now);
        self.handle_commands(now);
        self.send_queued(now);
        self.begin_ready(cx);
        // Handle the received messages first: reading more would only add to them.
        let mut moved = self.receive.is_drained && self.receive(inbox, cx, now)?;
        moved |= self.handle_arrived(inbox, cx, now);
        self.send_events();
        self.settle();
        self.flush(cx, now);
        // Under back-pressure this only detects that the remote has gone. It runs after the write: if the
        // write fails first, answers to our calls are still read.
        if !self.receive.is_drained && !self.may_read() {
            moved |= self.receive(inbox, cx, now)?;
        }
        self.check_over(now)?;
        Ok(moved || self.shared.mailbox.has_commands() || self.can_go_on())
    }

    /// Returns `true` if work that back-pressure stopped can continue, now that bytes were sent. Nothing else
    /// would wake the task for this work.
    fn can_go_on(&self) -> bool {
        self.session.has_ready()
            || self.can_send_queued()
            || (!self.receive.is_drained && self.may_read())
            || self.can_send_events()
    }

    fn slice_is_over(&self, now: Instant) -> bool {
        self.slice_ends.is_some_and(|end| end <= now)
    }

    /// Hands everything that waits to the transport.
    fn flush(&mut self, cx: &mut Context<'_>, now: Instant) {
        if self.stage.can_write()
            && (!self.outbox.is_empty() || !self.is_flushed)
            && let Err(error) = self.send(cx, now)
        {
            self.handle_write_failure(error, now);
        }
        self.session.hold(self.must_hold());
        self.window.note_flush(self.is_full());
    }

    /// Hands to the transport as much as it takes.
    fn send(&mut self, cx: &mut Context<'_>, now: Instant) -> io::Result<()> {
        let signs = self.outbox.signs();
        let sent = self.transport.poll_send(cx, &mut self.outbox);
        self.outbox.clear_signals();
        self.is_flushed = sent.is_ready();
        if self.outbox.signs() != signs {
            self.session.handle_progress(now);
        }
        match sent {
            Poll::Ready(sent) => sent,
            Poll::Pending => Ok(()),
        }
    }

    /// The earliest deadline. Only this function lists the deadlines.
    fn next_deadline(&self) -> Option<Instant> {
        let deadlines = [
            self.session.poll_timeout(),
            self.outgoing_deadline(),
            self.receive.deadline(),
            self.dispatch.trial_ends,
            self.window.deadline(),
            self.stage.deadline(),
            self.idle_at,
        ];
        deadlines.into_iter().fold(None, |earliest, time| match (earliest, time) {
            (Some(earliest), Some(time)) => Some(std::cmp::min(earliest, time)),
            (earliest, time) => earliest.or(time),
        })
    }

    /// Waits for commands and for the next deadline; `false` if there is something to do already.
    fn sleep_until_next(&mut self, inbox: &mut Inbox, cx: &mut Context<'_>, now: Instant) -> bool {
        self.publish();
        if self.idle_at.take_if(|idle_at| *idle_at <= now).is_some() {
            inbox.shrink();
            self.outbox.shrink();
            self.dispatch.shrink();
            self.outgoing.shrink();
        }
        let alarm = self.next_deadline();
        let Some(next) = alarm else {
            self.sleep = None;
            return self.shared.mailbox.park(cx.waker(), alarm, !self.is_full());
        };
        if next <= now {
            return false;
        }
        let next = tokio::time::Instant::from_std(next);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(next)));
        // A timer that fires early does no harm; setting it again for each message would.
        if sleep.deadline() > next || sleep.is_elapsed() {
            sleep.as_mut().reset(next);
        }
        sleep.as_mut().poll(cx).is_pending()
            && self.shared.mailbox.park(cx.waker(), alarm, !self.is_full())
    }

    fn is_idle(&self) -> bool {
        self.stage.is_running()
            && self.session.running() + self.session.waiting() == 0
            && self.dispatch.tasks.is_empty()
            && self.outbox.is_empty()
            && self.is_flushed
            && self.receive.is_drained
            && self.may_read()
    }
}

/// The time, by tokio's clock, which tests can stop.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
