//! Event streams: notifications for a remote that may be too slow to read all of them (P9).

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use duet_rpc_proto::message::write_notification;
use duet_rpc_proto::session::{EventQueue, Priority, Sink};
use serde::Serialize;
use serde_json::value::RawValue;

use super::Shared;
use crate::error::{Error, ErrorKind};
use crate::panic_guard;
use crate::sync::lock;

/// The default bounds of a stream.
const MOST_EVENTS: usize = 1024;
const MOST_BYTES: usize = 256 * 1024;

/// Approximate memory of a stream, besides the data of its events.
const STREAM: usize = 512;

/// Memory limit for streams that have ended and still hold events, because nothing can be sent.
const MOST_ENDED: usize = 4 * 1024 * 1024;

/// A stream of events to the remote, made by [`Peer::events`](crate::Peer::events).
///
/// Each is a notification with the params `topic`, `sequence` and `data`. Sending never waits: beyond the
/// bound, the oldest events of low priority are dropped, and the first event after the gap has their number
/// in `dropped` ([P9](crate::proto::specification#p9)).
///
/// ```
/// use duet_rpc::{Peer, Priority, Profile, Router, transport::memory};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let (here, _there) = memory::pair();
/// # let peer = Peer::builder(here).profile(Profile::desktop()).router(Router::new()).spawn();
/// let events = peer.events("event", "stats").bounded(100, 64 * 1024);
/// events.send(Priority::Low, &[("messages", 7)]).expect("it is JSON");
/// # }
/// ```
pub struct EventStream {
    shared: Arc<Shared>,
    stream: Arc<TopicStream>,
}

pub(super) struct TopicStream {
    pub(super) method: Box<str>,
    topic: Box<str>,
    queue: Mutex<EventQueue<Box<RawValue>>>,
}

impl EventStream {
    pub(crate) fn new(shared: Arc<Shared>, method: &str, topic: &str) -> Self {
        let queue = Mutex::new(EventQueue::new(MOST_EVENTS, MOST_BYTES));
        let stream = Arc::new(TopicStream { method: method.into(), topic: topic.into(), queue });
        if shared.check_notifiable().is_ok() {
            shared.streams.add(Arc::clone(&stream));
        }
        EventStream { shared, stream }
    }

    /// The same stream with other bounds. Waiting events beyond them are dropped.
    #[must_use]
    pub fn bounded(self, events: usize, bytes: usize) -> Self {
        self.stream.queue().set_bounds(events, bytes);
        self
    }

    /// Sends an event. If there is no room, older events or the event itself are dropped, which is not an
    /// error. It fails if the data cannot be written as JSON, if the connection is gone, and with
    /// [`ErrorKind::OneWay`] if the transport carries only answers, as HTTP does.
    pub fn send(&self, priority: Priority, data: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        self.shared.check_open()?;
        let data = panic_guard::catch(|| serde_json::value::to_raw_value(data))?;
        let data = data.map_err(|error| Error::new(ErrorKind::Params).caused_by(error))?;
        let (size, mut queue) = (data.get().len(), self.stream.queue());
        let was_empty = queue.is_empty();
        queue.push(priority, data, size);
        // The driver empties the whole queue, so only the first event posts a command.
        let is_first = was_empty && !queue.is_empty();
        drop(queue);
        if is_first {
            self.shared.mailbox.post_event();
        }
        Ok(())
    }

    /// Ends the stream: waiting events, and all further ones, are dropped. A stream that is merely
    /// dropped still delivers its waiting events. But while nothing can be sent, a connection keeps only
    /// the latest few MiB of all such streams.
    pub fn close(&self) {
        self.stream.queue().set_bounds(0, 0);
    }

    /// Returns `true` if the connection is gone: events that are sent from here on do not arrive.
    pub fn is_closed(&self) -> bool {
        self.shared.gone.initialized()
    }

    /// Waits until the connection is gone: for a task that makes events and should end with the
    /// connection.
    ///
    /// ```
    /// use duet_rpc::{Peer, Priority, transport::memory};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let (here, there) = memory::pair();
    /// # let peer = Peer::builder(here).spawn();
    /// let events = peer.events("event", "clock");
    /// let ticking = tokio::spawn(async move {
    ///     let mut clock = tokio::time::interval(std::time::Duration::from_millis(1));
    ///     loop {
    ///         tokio::select! {
    ///             () = events.closed() => break,
    ///             _ = clock.tick() => events.send(Priority::Low, "tick").unwrap_or_default(),
    ///         }
    ///     }
    /// });
    /// drop(there); // The remote goes away.
    /// ticking.await.expect("no panic");
    /// # }
    /// ```
    pub async fn closed(&self) {
        self.shared.gone.wait().await;
    }

    /// The number of events that were dropped since the beginning, including those that
    /// [`close`](EventStream::close) dropped.
    pub fn dropped(&self) -> u64 {
        self.stream.queue().dropped_in_all()
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        let cost = self.stream.cost();
        if cost > 0 {
            self.shared.streams.end(cost);
        }
    }
}

impl TopicStream {
    /// The memory of a stream that holds events.
    fn cost(&self) -> usize {
        let queue = self.queue();
        if queue.is_empty() { 0 } else { STREAM + queue.bytes() }
    }

    fn queue(&self) -> MutexGuard<'_, EventQueue<Box<RawValue>>> {
        lock(&self.queue)
    }

    /// Moves one event out; `false` if there is none.
    pub(super) fn send_one(&self, out: &mut impl Sink) -> bool {
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
        // The event is JSON already, so this cannot fail.
        let _ = out.send(|out| write_notification(out, &self.method, Some(&params)));
        true
    }
}

/// The streams of a connection.
#[derive(Default)]
pub(super) struct Streams(Mutex<StreamList>);

#[derive(Default)]
struct StreamList {
    streams: Vec<Arc<TopicStream>>,
    /// The memory of streams that ended with events in them, since the last count.
    ended_bytes: usize,
    is_closed: bool,
}

impl Streams {
    fn add(&self, stream: Arc<TopicStream>) {
        let mut list = lock(&self.0);
        if list.is_closed {
            return;
        }
        // Streams that were dropped and never sent anything must not accumulate here. Searching for them
        // whenever the list would grow costs no more than the growth.
        if list.streams.len() == list.streams.capacity() {
            list.forget_unused();
        }
        list.streams.push(stream);
    }

    /// Notes the end of a stream whose waiting events take this much memory.
    fn end(&self, cost: usize) {
        let mut list = lock(&self.0);
        list.ended_bytes += cost;
        if list.ended_bytes > MOST_ENDED {
            list.forget_oldest();
        }
    }

    /// Returns the streams that are still in use.
    pub(super) fn in_use(&self) -> Vec<Arc<TopicStream>> {
        let mut list = lock(&self.0);
        list.forget_unused();
        list.streams.clone()
    }

    pub(super) fn close(&self) {
        let mut list = lock(&self.0);
        list.is_closed = true;
        list.streams.clear();
    }
}

impl StreamList {
    /// Removes the streams that have ended and are empty.
    fn forget_unused(&mut self) {
        self.streams.retain(|stream| Arc::strong_count(stream) > 1 || !stream.queue().is_empty());
    }

    /// Removes the oldest of the streams that have ended, until the rest takes half of the bound, so that
    /// this runs rarely.
    fn forget_oldest(&mut self) {
        let is_ended = |stream: &&Arc<TopicStream>| Arc::strong_count(stream) == 1;
        let mut bytes: usize = self.streams.iter().filter(is_ended).map(|it| it.cost()).sum();
        self.ended_bytes = bytes.min(MOST_ENDED / 2);
        if bytes <= MOST_ENDED {
            return;
        }
        self.streams.retain(|stream| {
            let is_kept = !is_ended(&stream) || bytes <= MOST_ENDED / 2;
            bytes -= if is_kept { 0 } else { stream.cost() };
            is_kept
        });
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

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
