//! Wire: the socket below hyper, with the timeouts that hyper does not have.
//!
//! | received so far | timeout | starts at |
//! |---|---|---|
//! | nothing | the idle timeout | the beginning, or the last answer |
//! | a part of a head | the read timeout, or without one the idle timeout | the first byte |
//! | a part of a body | the read timeout, or none | the first byte of the head |
//! | a request, and the client does not read its answer | the idle timeout; 5 s while the memory for answers is used up | the last byte that the client read |
//!
//! So a connection that sends nothing, never ends a head or never reads holds its permit for a bounded time (P8).
//!
//! hyper answers a head that it cannot read with a bare status. The wire drops that answer, and the server writes
//! its own refusal, with the reason.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop;
use tokio::time::{Instant, Sleep};

use crate::connection::closing::STALLED;
use crate::connection::memory::Budget;
use crate::net::Socket;
use crate::transport::let_others_run;

/// The socket of a connection that hyper serves.
pub(super) struct HttpWire {
    socket: Socket,
    progress: Arc<Progress>,
    timeouts: Timeouts,
    /// Arrival time of the first byte of the current request.
    begun: Option<Instant>,
    read_wait: Wait,
    write_wait: Wait,
    /// `true` if hyper waits for bytes. hyper does not wait while it holds a part of the request after the current
    /// one.
    is_read: bool,
}

/// The timeouts of a connection.
#[derive(Clone)]
pub(super) struct Timeouts {
    pub(super) read: Option<Duration>,
    pub(super) idle: Option<Duration>,
    /// The memory for answers, if connections share it.
    pub(super) budget: Option<Arc<Budget>>,
}

/// The stage of a request, which the wire and the service share.
#[derive(Default)]
pub(super) struct Progress {
    stage: AtomicU8,
    is_late: AtomicBool,
}

/// Before a request, or while its head arrives.
const IDLE: u8 = 0;
/// Its body is being read.
const BODY: u8 = 1;
/// A handler runs, or its answer is being written.
const SERVED: u8 = 2;
/// hyper has the whole answer.
const ANSWERED: u8 = 3;

impl Progress {
    /// Call it when a head has arrived.
    pub(super) fn begin(&self) {
        self.stage.store(BODY, Ordering::Relaxed);
    }

    /// Call it when the whole request has arrived.
    pub(super) fn serve(&self) {
        self.stage.store(SERVED, Ordering::Relaxed);
    }

    /// Call it when hyper has the whole answer.
    pub(super) fn end(&self) {
        self.stage.store(ANSWERED, Ordering::Relaxed);
    }

    /// Returns `true` if the request took too long to arrive.
    pub(super) fn is_late(&self) -> bool {
        self.is_late.load(Ordering::Relaxed)
    }
}

impl HttpWire {
    pub(super) fn new(socket: Socket, progress: Arc<Progress>, timeouts: Timeouts) -> Self {
        HttpWire {
            socket,
            progress,
            timeouts,
            begun: None,
            read_wait: Wait::default(),
            write_wait: Wait::default(),
            is_read: false,
        }
    }

    pub(super) fn into_socket(self) -> Socket {
        self.socket
    }

    /// Returns `true` if every request with a whole head is answered.
    pub(super) fn is_between(&self) -> bool {
        self.stage() == IDLE
    }

    /// Returns `true` if a part of a request has arrived, and no part of its answer was sent.
    pub(super) fn is_in_head(&self) -> bool {
        self.is_between() && self.begun.is_some()
    }

    fn stage(&self) -> u8 {
        self.progress.stage.load(Ordering::Relaxed)
    }

    /// Ready with an error when the rest of a request, or the next one, takes too long.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let Timeouts { read, idle, .. } = self.timeouts;
        let timeout = match (self.stage(), self.begun) {
            (IDLE, None) => idle,
            (IDLE, Some(_)) => read.or(idle),
            (BODY, _) => read,
            _ => None,
        };
        let is_late = match timeout {
            None => false,
            Some(timeout) => {
                let until = self.begun.unwrap_or_else(|| self.read_wait.start());
                self.read_wait.poll(cx, until.checked_add(timeout)).is_ready()
            }
        };
        if !is_late {
            return Poll::Pending;
        }
        self.progress.is_late.store(true, Ordering::Relaxed);
        Poll::Ready(io::ErrorKind::TimedOut.into())
    }

    /// Ready with an error when the client reads nothing of its answer for too long.
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let Timeouts { idle, budget, .. } = &self.timeouts;
        let since = self.write_wait.start();
        let until = idle.and_then(|idle| since.checked_add(idle));
        let why = "the client took nothing of its answer for too long";
        let late = || Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, why));
        let Some(budget) = budget else {
            return if self.write_wait.poll(cx, until).is_ready() { late() } else { Poll::Pending };
        };
        loop {
            let now = Instant::now();
            let is_over = until.is_some_and(|until| until <= now);
            if is_over || (now >= since + STALLED && budget.is_spent_by_many()) {
                return late();
            }
            let look = now + STALLED;
            let next = until.map_or(look, |until| until.min(look));
            if self.write_wait.poll(cx, Some(next)).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl AsyncRead for HttpWire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = AsyncRead::poll_read(Pin::new(&mut self.socket), cx, buffer);
        self.is_read = read.is_pending();
        if self.is_read {
            return self.poll_late(cx).map(Err);
        }
        self.read_wait.stop();
        // The head may have arrived together with the previous request; then the first bytes read here belong to the
        // body.
        let is_request = matches!(self.stage(), IDLE | BODY);
        if self.begun.is_none() && is_request && buffer.filled().len() > before {
            self.begun = Some(Instant::now());
        }
        read
    }
}

impl AsyncWrite for HttpWire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    /// Writes, unless the bytes are an answer that hyper made itself.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_between() {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        match Pin::new(&mut self.socket).poll_write_vectored(cx, slices) {
            Poll::Pending => self.poll_stalled(cx).map(Err),
            written => {
                self.write_wait.stop();
                written
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        if flushed.is_pending() {
            // TLS keeps bytes that the client does not read.
            return self.poll_stalled(cx).map(Err);
        }
        self.write_wait.stop();
        match self.stage() {
            ANSWERED => {
                self.begun = None;
                self.progress.stage.store(IDLE, Ordering::Relaxed);
            }
            // hyper flushes whenever it is polled, and an error here drops the request.
            SERVED if !self.is_read && self.socket.poll_remote_closed(cx).is_ready() => {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            _ => {}
        }
        flushed
    }

    /// Does nothing, because the server still has to send the reason if hyper has refused a head.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A wait for the remote.
#[derive(Default)]
struct Wait {
    since: Option<Instant>,
    /// `true` if the time is over, and the runtime checks the socket once more: the process may have been stopped, or
    /// a handler may have blocked the thread.
    is_last_look: bool,
    /// Kept for the next wait, because a new timer would cost an allocation.
    sleep: Option<Pin<Box<Sleep>>>,
    /// The task that the timer wakes.
    sleeper: Option<Waker>,
}

impl Wait {
    fn start(&mut self) -> Instant {
        *self.since.get_or_insert_with(Instant::now)
    }

    fn stop(&mut self) {
        self.since = None;
        self.is_last_look = false;
    }

    /// Ready at this time; never ready for `None`.
    fn poll(&mut self, cx: &mut Context<'_>, until: Option<Instant>) -> Poll<()> {
        let Some(until) = until else { return Poll::Pending };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        loop {
            // A timer that fires early does no harm; resetting it for each request would.
            if sleep.deadline() > until || sleep.is_elapsed() {
                sleep.as_mut().reset(until);
                self.sleeper = None;
            }
            // The timer knows this task already: most polls are about bytes.
            if self.sleeper.as_ref().is_some_and(|sleeper| sleeper.will_wake(cx.waker())) {
                return Poll::Pending;
            }
            // A timer that is polled without cooperative budget does not learn its task.
            let is_known = coop::has_budget_remaining();
            if sleep.as_mut().poll(cx).is_pending() {
                self.sleeper = is_known.then(|| cx.waker().clone());
                return Poll::Pending;
            }
            if Instant::now() >= until {
                break;
            }
        }
        if !std::mem::replace(&mut self.is_last_look, true) {
            let_others_run(cx);
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}
