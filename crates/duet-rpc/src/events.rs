//! Streams of events to a remote that may be too slow for them (P9).

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duet_rpc_proto::session::{EventQueue, Outlet, Priority};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind};
use crate::shared::Shared;

/// How many events wait, unless said otherwise.
const MOST_EVENTS: usize = 1024;
/// How many bytes of events wait, unless said otherwise.
const MOST_BYTES: usize = 256 * 1024;

/// What a stream takes besides the data of its events, more or less.
const STREAM: usize = 512;

/// A stream of events to the remote, made by [`Peer::events`](crate::Peer::events).
///
/// Each is a notification with the params `topic`, `sequence` and `data`. Sending never waits: past
/// the bound the oldest events of low priority are dropped, and the first event behind the gap says
/// in `dropped` how many ([P9](crate::proto::specification#p9)).
///
/// ```
/// use duet_rpc::{Peer, Priority, Profile, Router, transport::memory};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let (here, _there) = memory::pair();
/// # let peer = Peer::spawn(here, &Profile::desktop(), Router::new());
/// let events = peer.events("event", "stats").bounded(100, 64 * 1024);
/// events.send(Priority::Low, &[("messages", 7)]).expect("it is JSON");
/// # }
/// ```
pub struct EventStream {
    shared: Arc<Shared>,
    stream: Arc<Stream>,
}

pub(crate) struct Stream {
    method: Box<str>,
    topic: Box<str>,
    queue: Mutex<EventQueue<Box<RawValue>>>,
}

impl EventStream {
    pub(crate) fn new(shared: Arc<Shared>, method: &str, topic: &str) -> Self {
        let queue = Mutex::new(EventQueue::new(MOST_EVENTS, MOST_BYTES));
        let stream = Arc::new(Stream { method: method.into(), topic: topic.into(), queue });
        shared.add_stream(Arc::clone(&stream));
        EventStream { shared, stream }
    }

    /// The same stream with other bounds. What waits in it beyond them is dropped.
    #[must_use]
    pub fn bounded(self, events: usize, bytes: usize) -> Self {
        self.stream.queue().set_bounds(events, bytes);
        self
    }

    /// Sends an event. If there is no room, others are dropped, or the event itself, which is not an
    /// error. It fails if the data cannot be written as JSON, if the connection is gone, and with
    /// [`ErrorKind::OneWay`] if it carries answers alone, as HTTP does.
    pub fn send(&self, priority: Priority, data: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        self.shared.check_open()?;
        let data = crate::panic_guard::catch(|| serde_json::value::to_raw_value(data))?;
        let data = data.map_err(|error| Error::new(ErrorKind::Params).caused_by(error))?;
        let (size, mut queue) = (data.get().len(), self.stream.queue());
        let was_empty = queue.is_empty();
        queue.push(priority, data, size);
        // The driver empties the queue once it has begun, so it is told only of the first.
        let is_first = was_empty && !queue.is_empty();
        drop(queue);
        if is_first {
            self.shared.post_event();
        }
        Ok(())
    }

    /// Ends the stream: what waits in it is dropped, and so is what is sent from here on. A stream
    /// that is merely dropped still delivers what waits, but while nothing can be sent, only the latest few MiB of
    /// all such streams of a connection are kept.
    pub fn close(&self) {
        self.stream.queue().set_bounds(0, 0);
    }

    /// How many events were dropped since the beginning, also by [`close`](EventStream::close).
    pub fn dropped(&self) -> u64 {
        self.stream.queue().dropped_in_all()
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        let cost = self.stream.cost();
        if cost > 0 {
            self.shared.end_stream(cost);
        }
    }
}

impl Stream {
    /// The memory that it takes, if something waits in it.
    pub(crate) fn cost(&self) -> usize {
        let queue = self.queue();
        if queue.is_empty() { 0 } else { STREAM + queue.bytes() }
    }

    fn queue(&self) -> MutexGuard<'_, EventQueue<Box<RawValue>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue().is_empty()
    }

    /// Moves one event out; `false` if there is none.
    pub(crate) fn send_one(&self, out: &mut impl Outlet) -> bool {
        #[derive(Serialize)]
        struct Params<'a> {
            topic: &'a str,
            sequence: u64,
            #[serde(skip_serializing_if = "is_zero")]
            dropped: u64,
            data: &'a RawValue,
        }

        let Some(event) = self.queue().pop() else { return false };
        let (sequence, dropped, data) = (event.sequence, event.dropped, &*event.data);
        let params = Params { topic: &self.topic, sequence, dropped, data };
        // All of it is JSON already, so this cannot fail.
        let _ = out.send(|out| {
            duet_rpc_proto::message::write_notification(out, &self.method, Some(&params))
        });
        true
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("EventStream");
        shown.field("waiting", &self.stream.queue().len()).finish_non_exhaustive()
    }
}
