//! Stdin and stdout of a server. They report reads, writes and their end to the watchdog.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::time::Sleep;

use super::shutdown::{ShutdownWatch, Triggers};
use super::watchdog::{Alarm, CountsFrom};
use crate::connection::closing::{FORCED_EXIT, LINGER};
use crate::stdio::Stdio;
use crate::transport::{ExitReport, Inbox, Outbox, Received, Transport};

/// Stdin and stdout that report to the watchdog.
pub(super) struct WatchedStdio {
    stdio: Stdio,
    alarm: Alarm,
    triggers: Arc<Triggers>,
    /// `true` if the client gets time to read the last answer before stdout closes.
    must_linger: Arc<AtomicBool>,
    linger: Option<Pin<Box<Sleep>>>,
    has_ended: bool,
}

impl WatchedStdio {
    pub(super) fn new(stdio: Stdio, watch: &ShutdownWatch, must_linger: &Arc<AtomicBool>) -> Self {
        WatchedStdio {
            stdio,
            alarm: watch.alarm.clone(),
            triggers: Arc::clone(&watch.triggers),
            must_linger: Arc::clone(must_linger),
            linger: None,
            has_ended: false,
        }
    }

    fn handle_end(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.alarm.arm(FORCED_EXIT, CountsFrom::LastByte, 0);
            self.triggers.handle_end();
        }
    }
}

impl Transport for WatchedStdio {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        let received = self.stdio.poll_receive(cx, inbox);
        if let Poll::Ready(Ok(Received::Eof)) = received {
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

    fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let gone = self.stdio.poll_remote_closed(cx);
        if gone.is_ready() {
            self.handle_end();
        }
        gone
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
        if self.must_linger.load(Ordering::Relaxed) && !self.has_ended {
            let linger = self.linger.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
            let is_over = linger.as_mut().poll(cx).is_ready();
            if !is_over && self.stdio.poll_remote_closed(cx).is_pending() {
                return Poll::Pending;
            }
        }
        // The reader of stdout treats its end as the end of this process.
        self.alarm.forget_output();
        self.stdio.poll_close(cx)
    }
}
