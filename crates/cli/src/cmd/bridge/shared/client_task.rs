//! The task of one client of a shared server.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use duet_rpc::transport::{PipeEvent, TransportKind};
use tokio::time::{Instant, Sleep, sleep_until};

use super::super::direct::ClientPipe;
use super::super::faults::FaultCount;
use super::super::routes::{ClientId, Out, Takes};
use super::super::{FULL, LAST_ANSWERS, MOST_AHEAD, STUCK, StopSignal};
use super::queues::Closing;
use super::{PIPE_ROOM, SharedServer};

/// The task of one client.
pub(super) struct ClientTask<'a> {
    shared: &'a SharedServer,
    id: ClientId,
    is_exchange: bool,
    faults: FaultCount,
    has_spoken: bool,
    /// The time at which the client closed its output.
    ended: Option<Instant>,
    /// The time at which the client is read although the queue of the server is full.
    stuck_until: Option<Instant>,
    last_message: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<'a> ClientTask<'a> {
    pub(super) fn new(shared: &'a SharedServer, id: ClientId, takes: Takes) -> Self {
        ClientTask {
            shared,
            id,
            is_exchange: takes != Takes::Everything,
            faults: FaultCount::default(),
            has_spoken: false,
            ended: None,
            stuck_until: None,
            last_message: Instant::now(),
            timer: None,
        }
    }

    /// Returns `true` if a message of the client has come.
    pub(super) fn has_spoken(&self) -> bool {
        self.has_spoken
    }

    /// Passes messages to and from the client. Ready at the end of the connection.
    pub(super) fn poll(
        &mut self,
        client: &mut ClientPipe,
        stop: &mut StopSignal,
        cx: &mut Context<'_>,
    ) -> Poll<Closing> {
        if stop.poll(cx).is_ready() {
            return Poll::Ready(Closing::Stopped);
        }
        loop {
            let (mut moved, closing) = self.fill(client, cx);
            if let Poll::Ready(Err(_)) = client.poll_flush(cx) {
                return Poll::Ready(Closing::Wanted);
            }
            if let Some(signal) = client.take_kill() {
                let state = &mut *self.shared.state();
                state.kill = Some(signal);
                state.to_server.wake();
            }
            if let Some(closing) = closing {
                return Poll::Ready(closing);
            }
            // A client that has closed both directions waits for no answer.
            if self.ended.is_some() && client.poll_reader_gone(cx).is_ready() {
                return Poll::Ready(Closing::Wanted);
            }
            match self.receive(client, cx) {
                Poll::Ready(Ok(true)) => moved = true,
                Poll::Ready(Ok(false)) if client.kind() == TransportKind::Bytes => {
                    self.ended = Some(Instant::now());
                    moved = true;
                }
                Poll::Ready(_) => return Poll::Ready(Closing::Wanted),
                Poll::Pending => {}
            }
            if moved {
                continue;
            }
            if self.poll_timer(cx).is_pending() {
                return Poll::Pending;
            }
            if let Some(closing) = self.overdue() {
                return Poll::Ready(closing);
            }
        }
    }

    /// Gives waiting messages to the pipe. Returns whether there were any, and the reason to close, if there is one.
    fn fill(&mut self, client: &mut ClientPipe, cx: &Context<'_>) -> (bool, Option<Closing>) {
        let mut moved = false;
        let state = &mut *self.shared.state();
        let framing = state.framing_for_client();
        let Some(port) = state.ports.get_mut(&self.id) else {
            return (false, Some(Closing::Wanted));
        };
        if client.needs_framing() && !port.waiting.messages.is_empty() {
            client.set_first_framing(framing);
        }
        // At the end everything goes to the pipe, which is flushed for a bounded time.
        while (client.unsent() < PIPE_ROOM || port.closing.is_some())
            && let Some(message) = port.waiting.pop()
        {
            client.send(&message);
            self.last_message = Instant::now();
            moved = true;
        }
        if port.full_since.is_some() && port.waiting.bytes < FULL {
            port.full_since = None;
            state.to_server.wake();
        }
        port.waiting.taker = Some(cx.waker().clone());
        let is_empty = port.waiting.messages.is_empty();
        if is_empty && self.is_exchange && port.is_settled {
            client.settle();
            return (moved, Some(Closing::Wanted));
        }
        // A client that has closed its output gets its answers first.
        let has_left = self.ended.is_some() && is_empty && !state.routes.is_asking(self.id);
        (moved, port.closing.or_else(|| has_left.then_some(Closing::Wanted)))
    }

    fn receive(&mut self, client: &mut ClientPipe, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        self.stuck_until = None;
        if self.ended.is_some() {
            return Poll::Pending;
        }
        {
            let mut state = self.shared.state();
            let (bytes, moved) = (state.to_server.bytes, state.to_server.moved);
            if bytes >= FULL {
                state.wait_for_room(cx.waker());
                let until = moved.map(|moved| moved + STUCK).filter(|_| bytes < MOST_AHEAD);
                if until.is_none_or(|until| Instant::now() < until) {
                    self.stuck_until = until;
                    return Poll::Pending;
                }
            }
        }
        let ClientTask { shared, id, faults, is_exchange, last_message, has_spoken, .. } = self;
        let mut replies = Vec::new();
        let received = client.poll_receive(cx, |event| match event {
            PipeEvent::Message(text) => {
                faults.clear();
                *last_message = Instant::now();
                *has_spoken = true;
                let (state, mut out) = (&mut *shared.state(), Vec::new());
                state.routes.handle_client(*id, &text, &mut out);
                state.apply(out);
            }
            PipeEvent::Fault(fault) => replies.extend(faults.reply(&fault)),
            PipeEvent::Failed(..) => {}
        });
        if *has_spoken {
            // The task of the server has not run since, and needs it for its first message.
            let framing = &mut shared.state().framing;
            *framing = framing.or(client.framing());
        }
        if *is_exchange && !replies.is_empty() {
            shared.state().apply(vec![Out::Settle(*id)]);
        }
        replies.iter().for_each(|reply| client.send(reply));
        received
    }

    /// The time at which the connection ends because nothing happens. A request without an answer is still at work.
    fn idle_until(&self) -> Option<Instant> {
        let is_asking = || self.shared.state().routes.is_asking(self.id);
        let idle = self.shared.idle.filter(|_| !self.is_exchange && !is_asking());
        idle.map(|idle| self.last_message + idle)
    }

    /// The reason to close the connection now, because a time has passed.
    fn overdue(&self) -> Option<Closing> {
        let now = Instant::now();
        let is_over = self.ended.is_some_and(|ended| now >= ended + LAST_ANSWERS);
        let is_idle = self.idle_until().is_some_and(|until| now >= until);
        is_over.then_some(Closing::Wanted).or_else(|| is_idle.then_some(Closing::Idle))
    }

    /// Ready when a time has passed.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let ended = self.ended.map(|ended| ended + LAST_ANSWERS);
        let times = [ended, self.stuck_until, self.idle_until()];
        let Some(next) = times.into_iter().flatten().min() else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(next)));
        if timer.deadline() != next {
            timer.as_mut().reset(next);
        }
        timer.as_mut().poll(cx)
    }
}

/// A client that has joined. Dropping it means that the client leaves.
pub(super) struct SharedMember {
    pub(super) shared: Arc<SharedServer>,
    pub(super) id: ClientId,
}

impl Drop for SharedMember {
    fn drop(&mut self) {
        let (state, mut out) = (&mut *self.shared.state(), Vec::new());
        state.ports.remove(&self.id);
        state.routes.leave(self.id, &mut out);
        state.apply(out);
        if state.ports.is_empty() {
            state.empty_since = Some(Instant::now());
        }
        // The server may have waited for this client.
        state.to_server.wake();
    }
}
