//! What the handles want, and what handlers elsewhere have made.

use std::time::Instant;

use duet_rpc_proto::message::{Code, ErrorObject, Id};
use duet_rpc_proto::session::{Key, Outlet, Phase, Terms};

use super::core::Core;
use super::records;
use crate::error::{Error, ErrorKind};
use crate::handler::Outcome;
use crate::send_queue::{SendQueue, Sender, Sent};
use crate::shared::{Caller, Outgoing, Post, no_room_in_time};

impl Core {
    #[inline]
    pub(super) fn take_mail(&mut self, now: Instant) {
        while self.shared.has_mail() {
            let mut posts = std::mem::take(&mut self.posts);
            self.shared.take_mail(&mut posts);
            for post in posts.drain(..) {
                self.handle_post(post, now);
            }
            self.posts = posts;
        }
    }

    fn handle_post(&mut self, post: Post, now: Instant) {
        match post {
            Post::Call { id, message, caller, terms } => {
                self.begin_call(id, message, caller, terms, now);
            }
            Post::Cancel(id) => {
                if self.end_call(&id).is_some() {
                    self.transport.handle_abandoned(&id);
                }
            }
            Post::Notify(message) => self.outbox.send_text(message),
            Post::Ended(key, outcome) => self.finish(key, outcome),
            Post::Close(asked_by) => {
                self.session.close(asked_by, now, &mut self.outbox);
                self.publish_phase();
            }
            Post::Event => self.has_events = true,
            Post::TrialOver => self.trial = None,
        }
    }

    fn begin_call(
        &mut self,
        id: Id,
        message: Outgoing,
        caller: Caller,
        terms: Terms,
        now: Instant,
    ) {
        // The call counts as pending while its message waits, so its answer keeps us reading: two peers
        // that both wait for room would otherwise wait for ever.
        match (self.session.call(id.clone(), caller, terms, now), message) {
            (Ok(()), Outgoing::Ready(message)) => self.outbox.send_call(&id, message),
            (Ok(()), Outgoing::Waits(ticket)) => {
                self.unsent_calls.insert(id, ticket);
            }
            (Err(caller), message) => {
                if let Outgoing::Waits(ticket) = message {
                    self.shared.unsent(|unsent| unsent.withdraw(ticket));
                }
                let error = match self.session.phase() {
                    Phase::Open => Error::new(ErrorKind::Capacity),
                    _ => self.shared.closed_error(),
                };
                // The caller may have given up already.
                let _ = caller.send(Err(error));
            }
        }
    }

    /// Gives a call up. The remote hears of it only if it has heard of the call.
    fn end_call(&mut self, id: &Id) -> Option<Caller> {
        match self.unsent_calls.remove(id) {
            None => self.session.cancel(id, &mut self.outbox),
            Some(ticket) => {
                self.shared.unsent(|unsent| unsent.withdraw(ticket));
                self.session.fail(id)
            }
        }
    }

    /// Ends the calls and notifications whose time is over.
    pub(super) fn expire_outgoing(&mut self, now: Instant) {
        while let Some(id) = self.session.next_expired(now).cloned() {
            let error = match self.unsent_calls.contains_key(&id) {
                true => no_room_in_time(),
                false => self.timed_out(&id),
            };
            let Some(caller) = self.end_call(&id) else { break };
            records::call_timed_out(&id);
            self.transport.handle_abandoned(&id);
            let _ = caller.send(Err(error));
        }
        while self.shared.has_unsent()
            && let Some(unsent) = self.shared.unsent(|unsent| unsent.expire(now))
        {
            if let Sender::Notification(sender) = unsent.sender {
                let _ = sender.send(Sent::TimedOut);
            }
        }
    }

    /// Sends what waits for room, as long as there is some. If events wait too, they go first every other
    /// time: whoever always went first could take all the room, for ever.
    #[inline]
    pub(super) fn send_waiting(&mut self, now: Instant) {
        if self.can_send_events() && self.shared.has_unsent() {
            self.events_go_first = !self.events_go_first;
            if self.events_go_first {
                self.send_events();
            }
        }
        while self.shared.has_unsent() && !self.is_crowded() {
            let Some(unsent) = self.shared.unsent(SendQueue::pop) else { return };
            match unsent.sender {
                Sender::Notification(sender) => {
                    // The sender may be gone: then the notification is taken back.
                    if sender.send(Sent::Done).is_ok() {
                        self.outbox.send_text(unsent.message);
                    }
                }
                Sender::Call(id) => {
                    // It may have come behind the posts that were taken.
                    if !self.unsent_calls.contains_key(&id) {
                        self.take_mail(now);
                    }
                    self.send_call(&id, unsent.message);
                }
            }
        }
    }

    fn send_call(&mut self, id: &Id, message: Vec<u8>) {
        // It may have ended meanwhile.
        if self.unsent_calls.remove(id).is_none() {
            return;
        }
        if self.session.phase() == Phase::Open {
            self.outbox.send_call(id, message);
        } else if let Some(caller) = self.session.fail(id) {
            // Nobody would wait for its answer.
            let _ = caller.send(Err(self.shared.closed_error()));
        }
    }

    fn finish(&mut self, key: Key, outcome: Option<Outcome>) {
        let origin = self.tasks.remove(key);
        let method = origin.as_ref().map(|origin| &*origin.entry.name);
        let logged_at = origin.as_ref().and_then(|origin| origin.logged_at);
        let job = self.session.finish(key);
        let id = job.as_ref().and_then(|job| job.id().filter(|_| logged_at.is_some()).cloned());
        let error = match (job, outcome) {
            (Some(job), Some(Ok(text))) => {
                self.session.answer_text(&job, text, &mut self.outbox);
                None
            }
            (Some(job), Some(Err(failure))) => {
                Some(self.fail(job, failure, method.unwrap_or_default()).0)
            }
            // Its runtime is going down, and it with it.
            (Some(job), None) => {
                self.session.answer_error(job, &ErrorObject::internal_error(), &mut self.outbox);
                Some(Code::INTERNAL_ERROR.0)
            }
            // It was answered when it was cancelled.
            (None, outcome) => {
                if let Some(Err(failure)) = outcome {
                    records::failed_in_vain(failure, method);
                }
                return;
            }
        };
        records::end(method.unwrap_or_default(), id.as_ref(), logged_at, error);
    }

    /// Whether events wait, and there is room for one.
    pub(super) fn can_send_events(&self) -> bool {
        self.has_events && !self.is_crowded()
    }

    /// Moves events to the outbox while there is room.
    pub(super) fn send_events(&mut self) {
        if !self.can_send_events() {
            return;
        }
        let mut streams = self.shared.streams();
        // One event of each in turn, beginning behind the last: a stream that is never empty must
        // not keep the others from theirs.
        let first = self.next_stream.checked_rem(streams.len()).unwrap_or(0);
        streams.rotate_left(first);
        self.next_stream = first;
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for stream in &streams {
                if self.is_crowded() {
                    return;
                }
                moved |= stream.send_one(&mut self.outbox);
                self.next_stream = self.next_stream.wrapping_add(1);
            }
        }
        self.has_events = false;
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::{Pin, pin};
    use std::time::Duration;

    use tokio::io::AsyncReadExt;

    use crate::budget::Budget;
    use crate::transport::Stream;
    use crate::{Peer, Profile, Router};

    /// A driver that finds something to do again and again would keep the clock from moving, and others
    /// from running.
    #[tokio::test(start_paused = true)]
    async fn p9_messages_that_wait_while_a_shared_budget_is_spent_do_not_keep_the_driver_busy() {
        let budget = Budget::shared(1000);
        budget.add(1000);
        let profile = Profile::agent().with(|it| it.limits.outgoing_bytes = 100);
        let (here, mut there) = tokio::io::duplex(10);
        let transport = Box::new(Stream::of(here));
        let (peer, mut driver) = Peer::boxed(transport, &profile, Router::new(), Some(budget));
        peer.notify("fill", ["x".repeat(500)]).await.expect("there is room");
        let mut waiting = pin!(peer.notify("next", ()));
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("there is no room"),
            () = std::future::ready(()) => {}
        }
        let mut polls = 0;
        let driver = poll_fn(|cx| {
            polls += 1;
            assert!(polls < 1000, "the driver never rests");
            Pin::new(&mut driver).poll(cx)
        });
        let remote = async {
            // Less than the bound is left of the first message; the second one waits for the budget.
            let mut text = vec![0; 500];
            there.read_exact(&mut text).await.expect("it comes");
            tokio::time::sleep(Duration::from_secs(1)).await;
            let mut rest = vec![0; 100];
            while !text.ends_with(b"\"next\"}\n") {
                let count = there.read(&mut rest).await.expect("it comes");
                text.extend_from_slice(&rest[..count]);
            }
        };
        tokio::select! {
            end = driver => panic!("the connection ended: {end}"),
            () = remote => {}
        }
        waiting.await.expect("it was sent");
    }
}
