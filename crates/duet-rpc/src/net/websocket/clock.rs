//! Times of a WebSocket: messages that take too long, and remotes that are silent.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use duet_rpc_proto::frame::{Partial, ReadTimer};
use tokio::task::coop;
use tokio::time::Sleep;

/// The timers of a WebSocket: read timeout and keep-alive. They stop while nothing is read, and while bytes come they
/// only read the clock.
pub(super) struct WebSocketClock {
    /// The time that a message may take, and the timer of the current one.
    read_timeout: Option<Duration>,
    timer: ReadTimer,
    keep_alive: Option<Duration>,
    /// The start of the silence; `None` if something has come since the last check.
    silent_since: Option<Instant>,
    asked_at: Option<Instant>,
    /// The time at which a message or a remote, overdue already, is given up.
    last_look: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

/// The action that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Ping the remote.
    Ping,
    /// Give up on a message.
    Late,
    /// Give up on the remote.
    Gone,
}

/// Time for the runtime to find bytes that have arrived after all: the process may have been stopped, or a handler
/// may have blocked the thread.
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

    /// Records that bytes have arrived.
    pub(super) fn hear(&mut self) {
        self.silent_since = None;
        self.asked_at = None;
        self.last_look = None;
    }

    /// Stops the timers until the next [`poll`](WebSocketClock::poll), because nothing is read.
    pub(super) fn pause(&mut self) {
        self.timer.pause(now());
        self.hear();
    }

    /// Waits for the next action, while nothing comes and this message is being received.
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
            // A timer that fires early does no harm; setting it again for each message would.
            if sleep.deadline() > at || sleep.is_elapsed() {
                sleep.as_mut().reset(at);
            }
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// The time of the next ping, or of the end of the connection.
    fn next_sign(&mut self, now: Instant) -> Option<(Instant, Due)> {
        let keep_alive = self.keep_alive?;
        let (since, due) = match self.asked_at {
            Some(asked_at) => (asked_at, Due::Gone),
            None => (*self.silent_since.get_or_insert(now), Due::Ping),
        };
        Some((since.checked_add(keep_alive)?, due))
    }

    /// Returns `true` if the time is over and the runtime has looked for bytes since. A runtime without
    /// budget has not looked.
    fn is_over(&mut self, now: Instant) -> bool {
        *self.last_look.get_or_insert(now + LAST_LOOK) <= now && coop::has_budget_remaining()
    }
}

/// The time, by tokio's clock, which tests can stop.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
