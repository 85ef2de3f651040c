//! Times of a WebSocket: messages that take too long, and remotes that are silent.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use duet_rpc_proto::frame::{Partial, ReadTimer};
use tokio::task::coop;
use tokio::time::Sleep;

/// Knows what is due while nothing comes. It stands still while nothing is read, and costs nothing
/// but a look at the time as long as something comes.
pub(super) struct WebSocketClock {
    /// How long a message may take, and how long this one has.
    read_timeout: Option<Duration>,
    timer: ReadTimer,
    keep_alive: Option<Duration>,
    /// Since when nothing was heard; `None` if something was, since the last look at the time.
    silent_since: Option<Instant>,
    asked_at: Option<Instant>,
    /// When what seems to be late is late.
    last_look: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

/// What the time has come for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// To ask the remote for a sign of life.
    Ping,
    /// To give up on a message.
    Late,
    /// To give up on the remote.
    Gone,
}

/// How long the runtime has to find out whether something has come after all: the process may have
/// been stopped, or a handler have held the thread.
const LAST_LOOK: Duration = Duration::from_millis(20);

impl WebSocketClock {
    pub(super) fn new(read_timeout: Option<Duration>, keep_alive: Option<Duration>) -> Self {
        WebSocketClock {
            read_timeout,
            timer: ReadTimer::new(read_timeout),
            keep_alive,
            silent_since: None,
            asked_at: None,
            last_look: None,
            sleep: None,
        }
    }

    pub(super) fn set_keep_alive(&mut self, keep_alive: Option<Duration>) {
        self.keep_alive = keep_alive;
    }

    pub(super) fn read_timeout_ms(&self) -> Option<u64> {
        self.read_timeout.map(|timeout| timeout.as_millis() as u64)
    }

    pub(super) fn keep_alive_ms(&self) -> Option<u64> {
        self.keep_alive.map(|keep_alive| keep_alive.as_millis() as u64)
    }

    /// Something came.
    pub(super) fn hear(&mut self) {
        self.silent_since = None;
        self.asked_at = None;
        self.last_look = None;
    }

    /// Nothing is read until the next [`poll`](WebSocketClock::poll), so nothing can be heard.
    pub(super) fn pause(&mut self) {
        self.timer.pause(now());
        self.hear();
    }

    /// Waits for what is due next, while nothing comes and this is being received.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, partial: Option<Partial>) -> Poll<Due> {
        loop {
            let now = now();
            self.timer.resume(now);
            self.timer.observe(partial, now);
            let late = self.timer.deadline().map(|at| (at, Due::Late));
            let next = late.into_iter().chain(self.next_sign(now)).min_by_key(|(at, _)| *at);
            let Some((at, due)) = next else {
                self.sleep = None;
                return Poll::Pending;
            };
            if at > now {
                self.last_look = None;
            } else if due == Due::Ping {
                self.asked_at = Some(now);
                return Poll::Ready(due);
            } else if self.is_over(now) {
                return Poll::Ready(due);
            }
            let at = tokio::time::Instant::from_std(self.last_look.unwrap_or(at));
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
            // One that rings early does no harm; to set it anew for each message would.
            if sleep.deadline() > at || sleep.is_elapsed() {
                sleep.as_mut().reset(at);
            }
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// When the remote is to be asked for a sign of life, or is gone.
    fn next_sign(&mut self, now: Instant) -> Option<(Instant, Due)> {
        let keep_alive = self.keep_alive?;
        let (since, due) = match self.asked_at {
            Some(asked_at) => (asked_at, Due::Gone),
            None => (*self.silent_since.get_or_insert(now), Due::Ping),
        };
        Some((since.checked_add(keep_alive)?, due))
    }

    /// Whether the time is over, and the runtime has looked since whether something came. One that has
    /// let others run first has not looked.
    fn is_over(&mut self, now: Instant) -> bool {
        *self.last_look.get_or_insert(now + LAST_LOOK) <= now && coop::has_budget_remaining()
    }
}

/// The time, as tokio has it: tests can stop it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
