//! The task of a shared server: starts it when a client needs it, passes messages on, and starts it again.
//!
//! ```text
//!             a client, or a message       cannot start, or ended          `--restart`, after a delay
//!   waiting ──────────────────────▶ running ───────────────▶ lost ───────────────────────────▶ waiting
//!      ▲                               │                       └── else: every client is closed
//!      └───── no client for `--idle` ──┘
//! ```

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use duet_rpc::Backoff;
use duet_rpc::transport::PipeEvent;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::super::faults::FaultCount;
use super::super::routes::lost_because;
use super::super::server_pipe::ServerPipe;
use super::super::{FULL, StopSignal};
use super::queues::Closing;
use super::{PIPE_ROOM, ServerEnd, SharedServer};

/// The time after which a client is closed whose queue stays full.
const SLOW: Duration = Duration::from_secs(5);

/// The delays between restarts of a server.
const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(100),
    factor: 2.0,
    most: Duration::from_secs(10),
    good_after: Some(Duration::from_secs(10)),
    jitter: 0.0,
};

impl SharedServer {
    /// Runs the server whenever a client needs it. Returns if the server cannot be kept running, or on stop.
    pub(in super::super) async fn run(self: Arc<Self>, mut stop: StopSignal) -> ServerEnd {
        let mut failed = 0;
        loop {
            if self.wait_for_work(&mut stop).await.is_none() {
                return ServerEnd::Wanted;
            }
            let started = Instant::now();
            let end = self.run_once(&mut stop).await;
            if let ServerEnd::Wanted = end {
                if *stop.borrow() {
                    return end;
                }
                // Clients may come already; they belong to the next server, which is initialized as this one was.
                failed = 0;
                continue;
            }
            if let ServerEnd::CannotStart(_) = end {
                self.lose_server();
            }
            let Some(most) = self.restarts else { return end };
            failed = if started.elapsed() > BACKOFF.most { 1 } else { failed + 1 };
            if failed > most {
                self.lose_server();
                self.state().close_all();
                return end;
            }
            let delay = BACKOFF.delay(failed, 0);
            let reason = end.reason().unwrap_or_default();
            tracing::warn!(attempt = failed, ?delay, "{reason}; it is started again");
            let mut delay = pin!(sleep(delay));
            let is_over = poll_fn(|cx| match stop.poll(cx) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending => delay.as_mut().poll(cx).map(|()| false),
            });
            if is_over.await {
                return ServerEnd::Wanted;
            }
        }
    }

    /// Waits until a server is needed; `None` on stop.
    async fn wait_for_work(&self, stop: &mut StopSignal) -> Option<()> {
        poll_fn(|cx| {
            if stop.poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            let mut state = self.state();
            if state.needs_server() {
                return Poll::Ready(Some(()));
            }
            state.to_server.taker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Starts a server, and passes messages on until it ends.
    async fn run_once(&self, stop: &mut StopSignal) -> ServerEnd {
        let opened = {
            let mut opening = pin!(self.servers.open());
            poll_fn(|cx| match stop.poll(cx) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => opening.as_mut().poll(cx).map(Some),
            })
            .await
        };
        let transport = match opened {
            None => return ServerEnd::Wanted,
            Some(Err(error)) => return ServerEnd::CannotStart(error),
            Some(Ok(transport)) => transport,
        };
        let mut server = {
            let state = &mut *self.state();
            let mut out = Vec::new();
            state.routes.handle_start(&mut out);
            state.apply(out);
            self.servers.pipe(transport)
        };
        let mut faults = FaultCount::default();
        let mut timer = None;
        let is_wanted = poll_fn(|cx| {
            if stop.poll(cx).is_ready() {
                return Poll::Ready(true);
            }
            self.poll_server(&mut server, &mut faults, &mut timer, cx)
        })
        .await;
        if !is_wanted {
            // The clients need not wait until its processes have ended. What comes from now on is for the next one.
            self.lose_server();
        }
        let report = poll_fn(|cx| server.poll_close(cx)).await;
        match is_wanted {
            true => ServerEnd::Wanted,
            false => ServerEnd::Ended(report),
        }
    }

    /// Passes messages to and from the server. Ready with `true` if the server is not needed any more, and with
    /// `false` if it has ended.
    fn poll_server(
        &self,
        server: &mut ServerPipe,
        faults: &mut FaultCount,
        timer: &mut Option<Pin<Box<Sleep>>>,
        cx: &mut Context<'_>,
    ) -> Poll<bool> {
        loop {
            if let Some(signal) = self.state().kill.take() {
                server.transport_mut().kill(signal);
            }
            let mut moved = self.fill_server(server, cx);
            if let Poll::Ready(Err(error)) = server.poll_flush(cx) {
                tracing::debug!(%error, "cannot write to the server");
                return Poll::Ready(false);
            }
            if self.state().ports.values().all(|port| port.full_since.is_none()) {
                let received = server.poll_receive(cx, |event| {
                    let (state, mut out) = (&mut *self.state(), Vec::new());
                    match event {
                        PipeEvent::Message(text) => state.routes.handle_server(&text, &mut out),
                        PipeEvent::Fault(fault) => faults.log(&fault),
                        PipeEvent::Failed(id, error) => {
                            tracing::warn!(%error, "the server did not answer a request");
                            state.routes.handle_failure(&id, &lost_because(&error), &mut out);
                        }
                    }
                    state.apply(out);
                });
                if !server.is_undecided() {
                    self.state().server_framing = Some(server.framing_for_client());
                }
                match received {
                    Poll::Ready(Ok(true)) => moved = true,
                    Poll::Ready(Ok(false) | Err(_)) => return Poll::Ready(false),
                    Poll::Pending => {}
                }
            }
            if moved || (server.unsent() < PIPE_ROOM && self.state().has_work()) {
                continue;
            }
            match self.next_deadline() {
                None => return Poll::Pending,
                Some(next) => {
                    let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(next)));
                    if timer.deadline() != next {
                        timer.as_mut().reset(next);
                    }
                    if timer.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
            if self.check_time() {
                return Poll::Ready(true);
            }
        }
    }

    /// Gives waiting messages to the server. Returns `true` if there were any.
    fn fill_server(&self, server: &mut ServerPipe, cx: &Context<'_>) -> bool {
        let mut moved = false;
        let state = &mut *self.state();
        for message in state.handshake.drain(..) {
            server.send(&message, state.framing);
            moved = true;
        }
        while server.unsent() < PIPE_ROOM
            && !state.routes.is_starting()
            && let Some(message) = state.to_server.pop()
        {
            server.send(&message, state.framing);
            moved = true;
        }
        if state.to_server.bytes < FULL {
            state.blocked.drain(..).for_each(Waker::wake);
        }
        state.to_server.taker = Some(cx.waker().clone());
        moved
    }

    fn next_deadline(&self) -> Option<Instant> {
        let state = self.state();
        let slow = state.ports.values().filter_map(|port| port.full_since).min();
        let empty = state.empty_since.zip(self.idle).map(|(since, idle)| since + idle);
        slow.map(|since| since + SLOW).into_iter().chain(empty).min()
    }

    /// Closes clients that are too slow. Returns `true` if the server has had no client for too long.
    fn check_time(&self) -> bool {
        let (state, now) = (&mut *self.state(), Instant::now());
        for port in state.ports.values_mut() {
            if port.full_since.is_some_and(|since| now >= since + SLOW) {
                port.full_since = None;
                port.close(Closing::Slow);
            }
        }
        let empty = state.empty_since.zip(self.idle);
        let is_unused = empty.is_some_and(|(since, idle)| now >= since + idle);
        if is_unused {
            state.routes.handle_unused();
            state.handshake.clear();
            state.to_server.clear();
        }
        is_unused
    }

    /// Fails what the server has not answered. Without restarts, its clients are closed; others may come.
    fn lose_server(&self) {
        let (state, mut out) = (&mut *self.state(), Vec::new());
        state.handshake.clear();
        state.to_server.clear();
        state.kill = None;
        state.routes.handle_loss(&mut out);
        state.apply(out);
        state.blocked.drain(..).for_each(Waker::wake);
        if self.restarts.is_none() {
            state.close_all();
        }
    }
}
