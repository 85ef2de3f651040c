//! Calls, events and notifications, recorded in the journal.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use duet_rpc::{Error, ErrorKind, Failure, Peer, Priority};

use crate::journal::{Call, Emitted, Event, Journal};
use crate::plan::{End, Plan};

/// The difference between the number of a call and the number of its notification. The numbers in between are
/// for call-backs.
const BESIDE: u64 = 5;

/// The number of the request, and the padding of the answer.
pub(crate) type Answer = (u64, String);

pub(crate) struct Called<'a> {
    pub(crate) peer: &'a Peer,
    pub(crate) journal: &'a Journal,
    pub(crate) side: usize,
    pub(crate) number: u64,
}

pub(crate) struct Terms {
    pub(crate) timeout: u64,
    pub(crate) total: Option<u64>,
    pub(crate) dropped: Option<u64>,
    /// `true` if it is polled only once before it is dropped.
    pub(crate) is_parked: bool,
}

impl Terms {
    pub(crate) fn new(timeout: u64) -> Self {
        Terms { timeout, total: None, dropped: None, is_parked: false }
    }
}

/// Ends a call in the journal, even if the handler that makes it is dropped.
struct Entry<'a> {
    journal: &'a Journal,
    place: usize,
    end: Option<End>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.journal.end(self.place, self.end.take());
    }
}

/// The error of a call that was dropped.
#[derive(Debug)]
pub(crate) struct Dropped;

impl From<Dropped> for Failure {
    fn from(_: Dropped) -> Self {
        Failure::new(-1, "dropped")
    }
}

impl Called<'_> {
    pub(crate) async fn make(
        self,
        plan: Plan,
        pad: usize,
        terms: Terms,
    ) -> Result<Result<Answer, Error>, Dropped> {
        let params = (self.number, plan, "p".repeat(pad));
        self.ask("do", params, terms).await
    }

    pub(crate) async fn ask(
        self,
        method: &str,
        params: impl serde::Serialize,
        terms: Terms,
    ) -> Result<Result<Answer, Error>, Dropped> {
        let Terms { timeout, total, dropped, is_parked } = terms;
        let mut call = self.peer.call::<Answer>(method, params).timeout(millis(timeout));
        if let Some(total) = total {
            call = call.restart_on_progress(self.number, millis(total));
        }
        let (side, number, begun, ended) = (self.side, self.number, 0, None);
        let id = call.id().as_raw().to_owned();
        let place =
            self.journal.begin(Call { side, id, number, begun, timeout, total, is_parked, ended });
        let mut entry = Entry { journal: self.journal, place, end: None };
        let answer = match dropped {
            None => call.await,
            Some(time) if is_parked => {
                let mut call = pin!(call);
                match poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await {
                    Poll::Ready(answer) => answer,
                    Poll::Pending => {
                        // Messages that the same task sends meanwhile must not wait for this call.
                        let beside = self.number + BESIDE;
                        let told = self.peer.notify("do", (beside, Plan::Now, "")).await;
                        note_told(self.journal, side, beside, &told);
                        sleep(time).await;
                        return Err(Dropped);
                    }
                }
            }
            Some(time) => match tokio::time::timeout(millis(time), call).await {
                Ok(answer) => answer,
                Err(_) => return Err(Dropped),
            },
        };
        entry.end = Some(end_of(&answer));
        Ok(answer)
    }
}

fn end_of(answer: &Result<Answer, Error>) -> End {
    match answer {
        Ok((number, _)) => End::Value(*number),
        Err(error) => match (error.kind(), error.remote()) {
            (ErrorKind::Timeout, _) => End::Timeout,
            (ErrorKind::Remote, Some(remote)) => End::Code(remote.code),
            (ErrorKind::Capacity, _) => End::Capacity,
            (ErrorKind::Disconnected, _) => End::Disconnected,
            (kind, _) => End::Other(format!("{kind:?}")),
        },
    }
}

/// Sends this many events on a stream of this side. The stream holds only a few.
pub(crate) async fn emit(call: Called<'_>, count: u64, most_events: usize) {
    let Called { peer, journal, side, number } = call;
    let stream = peer.events("event", &number.to_string()).bounded(most_events, 10_000);
    let mut taken = 0;
    for n in 0..count {
        let priority = if n % 3 == 0 { Priority::High } else { Priority::Low };
        match stream.send(priority, &n) {
            Ok(()) => taken += 1,
            Err(error) if error.kind() == ErrorKind::Disconnected => break,
            Err(error) => journal.object(format!("an event of side {side} failed: {error:#}")),
        }
        if n % 4 == 3 {
            tokio::task::yield_now().await;
        }
    }
    let topic = format!("\"{number}\"");
    journal.book().streams.push(Emitted { side, topic, taken, stream });
}

/// Records whether a notification was sent. It waits for room as long as a call would. It fails after that
/// time, or if the connection is over.
pub(crate) fn note_told(journal: &Journal, side: usize, number: u64, told: &Result<(), Error>) {
    match told {
        Err(error) if error.kind() == ErrorKind::Timeout => journal.note(Event::NoRoom(side)),
        Err(error) if error.kind() != ErrorKind::Disconnected => {
            journal.object(format!("a notification of side {side} failed: {error:#}"));
        }
        _ => {}
    }
    journal.note(Event::Told { side, number, is_sent: told.is_ok() });
}

pub(crate) async fn sleep(ms: u64) {
    tokio::time::sleep(millis(ms)).await;
}

pub(crate) fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
