//! Inline sender: sends a call on the thread of its caller, without waking the task of the connection.
//!
//! ```text
//!   caller ── Command ──▶ mailbox                          caller ── Command ──▶ mailbox
//!      wakes the task ──▶ driver ──▶ transport                └── the task sleeps: driver ──▶ transport
//! ```
//!
//! A wake-up costs little by itself. But tokio's scheduler runs only three tasks in a row that wake each other, and then
//! wakes another thread for the fourth. The answer to a call behind a broker wakes the client of the broker, the
//! connection and the caller. If the next call woke the connection again, each call would wake a thread.
//!
//! Only steps that send run here. So no handler runs on the thread of a caller, which may hold a lock.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, TryLockError, Weak};
use std::task::{Context, Poll, Waker};

use super::{Driver, Shared, now};
use crate::error::Disconnect;
use crate::sync::lock;

/// With more pending calls than this, the task sends. It is seldom asleep then, and sends many calls in one turn.
const MOST_INLINE: usize = 4;

/// The way of a caller to the driver.
pub(super) struct InlineSender(Weak<Mutex<Box<Driver>>>);

impl InlineSender {
    /// Sends the commands in the mailbox, unless the driver runs. This is its waker: what the driver waits for wakes its
    /// task, as if the task had polled it.
    pub(super) fn send(&self, waker: Waker) {
        let Some(driver) = self.0.upgrade() else { return waker.wake() };
        let sleeps = match driver.try_lock() {
            Ok(mut driver) => driver.send_now(&mut Context::from_waker(&waker)),
            Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => false,
        };
        if !sleeps {
            waker.wake();
        }
    }
}

impl Shared {
    /// Sends the commands in the mailbox: here, or by waking the connection's task.
    #[inline]
    pub(crate) fn wake_to_send(&self, driver: Waker) {
        match self.inline_sender.get() {
            Some(sender) if self.counts.pending_calls.load(Ordering::Relaxed) < MOST_INLINE => {
                sender.send(driver);
            }
            _ => driver.wake(),
        }
    }
}

impl Driver {
    /// Does the steps of a turn that send: 2, 9 and 10. Returns `true` if the connection sleeps then, until this context
    /// wakes it; `false` if it has more to do, or has not begun.
    fn send_now(&mut self, cx: &mut Context<'_>) -> bool {
        let Driver { inbox, connection } = self;
        if !connection.dispatch.has_begun || !connection.stage.is_running() {
            return false;
        }
        let span = &connection.shared.span;
        let _inside = (!span.is_disabled()).then(|| span.clone().entered());
        let now = now();
        connection.handle_commands(now);
        connection.flush(cx, now);
        connection.stage.is_running()
            && connection.receive.is_drained
            && !connection.can_go_on()
            && connection.sleep_until_next(inbox, cx, now)
    }
}

/// A driver that its task shares with callers. Handlers run while its lock is held, and may call; callers only try the
/// lock, so nobody waits for them.
#[must_use = "nothing happens on a connection whose driver is not polled"]
pub(crate) struct SharedDriver(Arc<Mutex<Box<Driver>>>);

impl SharedDriver {
    /// Shares the driver of a new connection.
    pub(crate) fn new(driver: Box<Driver>, shared: &Shared) -> Self {
        let driver = Arc::new(Mutex::new(driver));
        // The connection is new, so there is no sender yet.
        let _ = shared.inline_sender.set(InlineSender(Arc::downgrade(&driver)));
        SharedDriver(driver)
    }
}

impl Future for SharedDriver {
    type Output = Disconnect;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Disconnect> {
        Pin::new(&mut **lock(&self.0)).poll(cx)
    }
}
