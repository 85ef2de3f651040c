//! Timeouts of an HTTP server.
//!
//! | what has come | waits for | from |
//! |---|---|---|
//! | nothing | the idle timeout | the beginning, or the last answer |
//! | a part of a head | the read timeout, or without one the idle timeout | the first byte |
//! | a part of a body | the read timeout, or without one for ever | the first byte of the head |
//! | a request whose answer waits to be taken | the idle timeout | the last byte that was taken |
//!
//! So a connection that sends nothing, never ends a head or never reads holds its place for a bounded time (P8).

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::intake::RequestProgress;
use crate::net::web::IDLE;

/// How long the runtime has to find out whether the rest of a late request has come: the process may
/// have been stopped, or a handler have held the thread.
const LAST_LOOK: Duration = Duration::from_millis(20);

pub(super) struct HttpClock {
    read_timeout: Option<Duration>,
    idle_timeout: Option<Duration>,
    wait: Option<Wait>,
    /// Kept from one request to the next: making one for each would cost an allocation.
    sleep: Option<Pin<Box<Sleep>>>,
}

struct Wait {
    what: Awaited,
    until: Instant,
    /// `true` if the time is over, and only what the system has already is waited for.
    is_last_look: bool,
}

/// The event that ends a wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// A request.
    Request,
    /// The rest of one.
    Rest,
    /// That the client takes more of an answer than these many bytes.
    Reader(usize),
}

impl HttpClock {
    pub(super) fn new(read_timeout: Option<Duration>) -> Self {
        HttpClock { read_timeout, idle_timeout: Some(IDLE), wait: None, sleep: None }
    }

    pub(super) fn set_idle_timeout(&mut self, idle_timeout: Option<Duration>) {
        self.idle_timeout = idle_timeout;
    }

    /// A request has come, or is refused: the next wait begins anew.
    pub(super) fn stop(&mut self) {
        self.wait = None;
    }

    /// Ready when the time for what is waited for is over. Called when nothing more can be read now.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, progress: RequestProgress) -> Poll<()> {
        let (what, timeout) = match progress {
            RequestProgress::Idle => (Awaited::Request, self.idle_timeout),
            RequestProgress::Head => (Awaited::Rest, self.read_timeout.or(self.idle_timeout)),
            RequestProgress::Body => (Awaited::Rest, self.read_timeout),
        };
        self.poll_for(cx, what, timeout)
    }

    /// Ready when the client takes nothing more of an answer of which so many bytes have left. Called when no
    /// more can be written now.
    pub(super) fn poll_reader(&mut self, cx: &mut Context<'_>, written: usize) -> Poll<()> {
        self.poll_for(cx, Awaited::Reader(written), self.idle_timeout)
    }

    fn poll_for(
        &mut self,
        cx: &mut Context<'_>,
        what: Awaited,
        timeout: Option<Duration>,
    ) -> Poll<()> {
        // A time beyond what the clock can tell is none.
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let Some(until) = until else {
            self.wait = None;
            return Poll::Pending;
        };
        self.wait.take_if(|wait| wait.what != what);
        let begin = || Wait { what, until, is_last_look: false };
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
