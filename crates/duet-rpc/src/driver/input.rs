//! What comes in: reading, in time, and handing over what was read.

use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use duet_rpc_proto::frame::Event;
use duet_rpc_proto::message::Incoming;
use duet_rpc_proto::session::Phase;

use super::{Driver, QUIET, records};
use crate::state::CloseReason;
use crate::transport::Received;

/// How long the runtime, or the thread that reads, has to find out whether the rest of a late frame has
/// come.
const LAST_LOOK: Duration = Duration::from_millis(20);

impl Driver {
    /// Handles the messages that have arrived, as long as that makes sense; `true` if there were
    /// any, or if it was found only now that there are none: then it is time to read on.
    pub(super) fn handle_arrived(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut moved = false;
        let mut messages = 0_usize;
        while !self.is_drained && self.core.takes_messages() {
            // The clock is looked at only now and then.
            messages += 1;
            if self.slice_ends.is_some()
                && messages.is_multiple_of(16)
                && self.slice_is_over(super::now())
            {
                break;
            }
            let Some(event) = self.inbox.next_event() else {
                self.is_drained = true;
                moved = true;
                break;
            };
            moved = true;
            self.core.begin_exchange();
            match event {
                Event::Fault(fault) => self.core.handle_fault(&fault, now),
                Event::Frame(text) => {
                    records::frame(text.as_str().len());
                    if self.core.express(&text) {
                        continue;
                    }
                    let profile = &self.core.shared.profile;
                    match Incoming::classify(&text, profile.batch, &profile.limits) {
                        Incoming::Batch(entries) => self.core.handle_batch(entries, cx, now),
                        message => self.core.handle(message, &text, None, cx, now),
                    }
                }
            }
        }
        moved
    }

    /// Frames what is sent as the first bytes that were received are framed. This is known before any
    /// message is handled, because the first one may be answered immediately.
    fn find_framing(&mut self) {
        if self.core.framing_is_open
            && let Some(framing) = self.inbox.framing()
        {
            self.core.outbox.set_framing(framing);
            self.core.framing_is_open = false;
        }
    }

    pub(super) fn try_receive(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Result<bool, (CloseReason, io::Error)> {
        self.receive(cx, now).map_err(|error| (CloseReason::ReadFailed, error))
    }

    /// Reads what there is, if it can be used now; `true` if there was something.
    fn receive(&mut self, cx: &mut Context<'_>, now: Instant) -> io::Result<bool> {
        if self.core.input_ended {
            return Ok(false);
        }
        if !self.core.takes_messages() {
            self.timer.observe(self.inbox.partial(), now);
            self.timer.pause(now);
            // That the remote has gone is noticed all the same.
            if self.core.session.phase() == Phase::Open
                && self.core.transport.poll_remote_closed(cx).is_ready()
            {
                self.core.handle_end(None, now);
                return Ok(true);
            }
            return Ok(false);
        }
        self.timer.resume(now);
        let before = self.inbox.size();
        let received = self.core.transport.poll_receive(cx, &mut self.inbox);
        self.core.tally.bytes_received += self.inbox.size().saturating_sub(before) as u64;
        while let Some((id, error)) = self.inbox.next_failed_call() {
            self.core.fail_call(&id, error);
        }
        match received {
            Poll::Pending => {
                self.timer.observe(self.inbox.partial(), now);
                if self.is_late(now)
                    && tokio::task::coop::has_budget_remaining()
                    && let Some(dropped) = self.inbox.handle_timeout()
                {
                    records::late_frame(&dropped, self.core.shared.profile.read_timeout);
                    self.timer.observe(self.inbox.partial(), now);
                    self.is_drained = false;
                    return Ok(true);
                }
                Ok(false)
            }
            Poll::Ready(Ok(Received::Data | Received::Drained)) => {
                self.find_framing();
                self.is_drained = false;
                // The transport itself may have something to say to what came.
                self.core.has_sent_all &= self.core.carries_bytes;
                self.rest.is_restless = true;
                self.rest.look_at.get_or_insert(now + QUIET);
                Ok(true)
            }
            Poll::Ready(Ok(Received::Eof)) => {
                self.inbox.finish();
                // What was being received will never be late: it is over.
                self.timer.observe(None, now);
                self.is_drained = false;
                self.core.input_ended = true;
                // The end may have completed a last message, and with it an answer.
                self.handle_arrived(cx, now);
                self.core.handle_end(self.inbox.take_end(), now);
                Ok(true)
            }
            Poll::Ready(Err(error)) => Err(error),
        }
    }

    /// Whether the frame that is being received is late. That nothing waits in the pipe is known only
    /// when the runtime has had a look since the time was over: the process may have been stopped, or
    /// a handler have held the thread.
    fn is_late(&mut self, now: Instant) -> bool {
        if self.timer.deadline().is_none_or(|deadline| deadline > now) {
            self.last_look = None;
            return false;
        }
        *self.last_look.get_or_insert(now + LAST_LOOK) <= now
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Waker};

    use duet_rpc_proto::frame::FramingChoice;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    use crate::transport::Stream;
    use crate::{Peer, Profile, Router};

    /// A writer that is made anew forgets how long the last length was, and moves each answer.
    #[tokio::test]
    async fn f5_auto_framing_is_detected_once_and_keeps_its_writer() {
        let (here, there) = tokio::io::duplex(1024);
        let profile = Profile::agent().with(|it| it.framing = FramingChoice::Auto);
        let (_peer, mut driver) = Peer::new(Stream::of(here), &profile, Router::new());
        let mut remote = BufReader::new(there);
        let request = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"unknown\"}\n";
        for (row, (bytes, is_open)) in
            [(" \n", true), (request, false), (request, false)].into_iter().enumerate()
        {
            remote.write_all(bytes.as_bytes()).await.expect("there is room");
            let mut cx = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut driver).poll(&mut cx).is_pending());
            assert_eq!(driver.core.framing_is_open, is_open, "row {row}");
            if !is_open {
                let mut answer = String::new();
                remote.read_line(&mut answer).await.expect("it answers");
                assert!(answer.starts_with("{\"jsonrpc\":\"2.0\",\"id\":1,"), "{answer}");
            }
        }
    }
}
