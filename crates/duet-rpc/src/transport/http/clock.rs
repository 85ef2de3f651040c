//! How long a server waits for a request.
//!
//! | what has come | waits for | from |
//! |---|---|---|
//! | nothing | the idle timeout | the beginning, or the last answer |
//! | a part of a head | the read timeout, or without one the idle timeout | the first byte |
//! | a part of a body | the read timeout, or without one for ever | the first byte of the head |
//!
//! So a connection that sends nothing, or never ends a head, holds its place for a bounded time (P8).

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::intake::Progress;
use crate::transport::web::IDLE;

/// How long the runtime has to find out whether the rest of a late request has come: the process may
/// have been stopped, or a handler have held the thread.
const LAST_LOOK: Duration = Duration::from_millis(20);

pub(super) struct Clock {
    read_timeout: Option<Duration>,
    idle_timeout: Option<Duration>,
    wait: Option<Wait>,
    /// Kept from one request to the next: making one for each would cost an allocation.
    sleep: Option<Pin<Box<Sleep>>>,
}

/// What is waited for.
struct Wait {
    is_idle: bool,
    until: Instant,
    /// Whether the time is over, and only what the system has already is waited for.
    is_last_look: bool,
}

impl Clock {
    pub(super) fn new(read_timeout: Option<Duration>) -> Self {
        Clock { read_timeout, idle_timeout: Some(IDLE), wait: None, sleep: None }
    }

    pub(super) fn set_idle_timeout(&mut self, idle_timeout: Option<Duration>) {
        self.idle_timeout = idle_timeout;
    }

    /// A request has come, or is refused: the next wait begins anew.
    pub(super) fn stop(&mut self) {
        self.wait = None;
    }

    /// Ready when the time for what is waited for is over. Called when nothing more can be read now.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, progress: Progress) -> Poll<()> {
        let timeout = match progress {
            Progress::Idle => self.idle_timeout,
            Progress::Head => self.read_timeout.or(self.idle_timeout),
            Progress::Body => self.read_timeout,
        };
        // A time beyond what the clock can tell is none.
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let Some(until) = until else {
            self.wait = None;
            return Poll::Pending;
        };
        let is_idle = progress == Progress::Idle;
        self.wait.take_if(|wait| wait.is_idle != is_idle);
        let begin = || Wait { is_idle, until, is_last_look: false };
        let wait = self.wait.get_or_insert_with(begin);
        loop {
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            // One that rings early does no harm; to set it anew for each request would.
            if sleep.deadline() > wait.until || sleep.is_elapsed() {
                sleep.as_mut().reset(wait.until);
            }
            ready!(sleep.as_mut().poll(cx));
            if Instant::now() < wait.until {
                continue;
            }
            if std::mem::replace(&mut wait.is_last_look, true) {
                self.wait = None;
                return Poll::Ready(());
            }
            wait.until = Instant::now() + LAST_LOOK;
        }
    }
}
