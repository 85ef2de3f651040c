//! Subscriptions: notifications from the remote that the application awaits.
//!
//! The connection hands each notification that its guards let pass to the subscriptions of its method, in the
//! order of arrival, and never waits for them: each has a bounded queue, and drops its oldest notifications (P9).
//! A connection without subscriptions pays one load of a flag for each notification.

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Poll;

use duet_rpc_proto::message::Params;
use duet_rpc_proto::session::{EventQueue, Priority};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use super::Shared;
use crate::context::Flag;
use crate::error::{Error, ErrorKind};
use crate::params;
use crate::sync::lock;

/// The default bounds of a subscription. A message of the greatest length always fits.
const MOST_NOTIFICATIONS: usize = 1024;
const MOST_BYTES: usize = 1024 * 1024;

/// The cause of the error that reports a gap.
const GAP: &str = "another one was made, and notifications in between are lost";

/// The notifications of one method, in order. Made by [`Peer::subscribe`](crate::Peer::subscribe) and
/// [`Client::subscribe`](crate::Client::subscribe).
///
/// Up to 1024 notifications, or 1 MiB, wait until [`next`](Subscription::next) takes them; beyond that, the
/// oldest are dropped, and [`dropped`](Subscription::dropped) counts them. A subscription of a peer ends with
/// the connection. A subscription of a client continues over all its connections, and ends with the client. A
/// subscription does not keep a connection or a client open. Dropping it unsubscribes.
///
/// ```
/// use duet_rpc::{Error, Peer, transport::memory};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// let (here, there) = memory::pair();
/// let server = Peer::builder(there).spawn();
/// let client = Peer::builder(here).spawn();
///
/// let mut ticks = client.subscribe::<(u64,)>("tick");
/// server.notify("tick", [1]).await?;
/// server.notify("tick", [2]).await?;
/// server.close().await;
///
/// let mut sum = 0;
/// while let Some(tick) = ticks.next().await {
///     sum += tick?.0;
/// }
/// assert_eq!(sum, 3);
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping it unsubscribes"]
pub struct Subscription<T> {
    source: Arc<dyn Source>,
    queue: Arc<Queue>,
    /// The reason why nothing can arrive, until `next` has returned it.
    refusal: Option<Error>,
    params: PhantomData<fn() -> T>,
}

/// The connection, or the client, that a subscription belongs to.
trait Source: Send + Sync {
    /// Set when no more notifications can arrive.
    fn gone(&self) -> &Flag;

    fn remove(&self, queue: &Arc<Queue>);
}

impl Source for Shared {
    fn gone(&self) -> &Flag {
        &self.gone
    }

    fn remove(&self, queue: &Arc<Queue>) {
        self.subscriptions.remove(queue);
    }
}

/// The source of a refused subscription, which has ended from the beginning.
impl Source for Flag {
    fn gone(&self) -> &Flag {
        self
    }

    fn remove(&self, _: &Arc<Queue>) {}
}

/// Notifications of one subscription that wait to be taken.
struct Queue {
    method: Box<str>,
    waiting: Mutex<EventQueue<Item>>,
    arrived: Notify,
    /// `true` if a connection of a client has filled this queue before.
    was_attached: AtomicBool,
    /// `true` if a gap is the last item that waits. Changes only under the lock of `waiting`.
    ends_in_gap: AtomicBool,
}

/// An item that waits in a queue.
enum Item {
    /// The params of a notification.
    Notification(Option<Box<str>>),
    /// The connection of a client was replaced.
    Gap,
}

impl<T> Subscription<T> {
    pub(crate) fn new(shared: Arc<Shared>, method: &str) -> Self {
        let queue = Queue::new(method, shared.profile.limits.message_bytes);
        // The next exchange may have another sender, whose notifications are not for this subscriber.
        if let Err(refusal) = shared.check_two_way() {
            let gone = Flag::new();
            let _ = gone.set(());
            let (source, refusal) = (Arc::new(gone), Some(refusal));
            return Subscription { source, queue, refusal, params: PhantomData };
        }
        shared.subscriptions.add(&queue);
        Subscription { source: shared, queue, refusal: None, params: PhantomData }
    }

    /// A subscription to a method on all connections of a client, including the current one.
    pub(crate) fn of_client(client: Arc<ClientSubscriptions>, method: &str) -> Self {
        let queue = Queue::new(method, client.message_bytes);
        client.add(&queue);
        Subscription { source: client, queue, refusal: None, params: PhantomData }
    }

    /// Sets other bounds: the number of notifications that wait, and the bytes of their params. Notifications
    /// beyond the bounds are dropped, the oldest first.
    pub fn bounded(self, notifications: usize, bytes: usize) -> Self {
        self.queue.waiting().set_bounds(notifications, bytes);
        self
    }

    /// The number of notifications that were dropped because [`next`](Subscription::next) did not take them
    /// in time.
    pub fn dropped(&self) -> u64 {
        self.queue.waiting().dropped_in_all()
    }
}

impl<T: DeserializeOwned> Subscription<T> {
    /// Waits for the next notification, and reads its params as a handler does. Returns `None` when the
    /// connection or the client is gone, and all earlier notifications have been taken. Params of another
    /// type are an error of the kind [`Protocol`](ErrorKind::Protocol), and do not end the subscription. Over
    /// HTTP, where requests of different users share a connection, a server gets one error of the kind
    /// [`OneWay`](ErrorKind::OneWay), and then `None`.
    ///
    /// The subscription of a client yields one error of the kind [`Interrupted`](ErrorKind::Interrupted) for
    /// each reconnect, before the notifications of the new connection: notifications between the two
    /// connections are lost. At that time, `on_connect` of the client may still run, so wait for
    /// [`connected`](crate::Client::connected) before you ask for the current state.
    ///
    /// Dropping the future loses nothing, so it can be used in a `select!`.
    pub async fn next(&mut self) -> Option<Result<T, Error>> {
        if let Some(refusal) = self.refusal.take() {
            return Some(Err(refusal));
        }
        loop {
            // Once this is set, nothing more arrives, so nothing is missed after the check below.
            let is_gone = self.source.gone().initialized();
            if let Some(item) = self.queue.pop() {
                return Some(match item {
                    Item::Notification(params) => read(params.as_deref()),
                    Item::Gap => Err(Error::new(ErrorKind::Interrupted).caused_by(GAP)),
                });
            }
            if is_gone {
                return None;
            }
            let mut arrived = pin!(self.queue.arrived.notified());
            let mut gone = pin!(self.source.gone().wait());
            poll_fn(|cx| match arrived.as_mut().poll(cx) {
                Poll::Pending => gone.as_mut().poll(cx).map(|_| ()),
                Poll::Ready(()) => Poll::Ready(()),
            })
            .await;
        }
    }
}

fn read<T: DeserializeOwned>(raw: Option<&str>) -> Result<T, Error> {
    let params = match raw {
        None => Params::Absent,
        Some(raw) if raw.starts_with('{') => Params::Object(raw),
        Some(raw) if raw.starts_with('[') => Params::Array(raw),
        Some(_) => Params::Null,
    };
    params::read(&params).map_err(|error| Error::new(ErrorKind::Protocol).caused_by(error))
}

impl<T> Drop for Subscription<T> {
    fn drop(&mut self) {
        self.source.remove(&self.queue);
    }
}

impl Queue {
    /// An empty queue that holds a message of this many bytes.
    fn new(method: &str, message_bytes: usize) -> Arc<Self> {
        let most_bytes = message_bytes.max(MOST_BYTES);
        Arc::new(Queue {
            method: method.into(),
            waiting: Mutex::new(EventQueue::new(MOST_NOTIFICATIONS, most_bytes)),
            arrived: Notify::new(),
            was_attached: AtomicBool::new(false),
            ends_in_gap: AtomicBool::new(false),
        })
    }

    fn waiting(&self) -> MutexGuard<'_, EventQueue<Item>> {
        lock(&self.waiting)
    }

    fn push(&self, params: &Params<'_>) {
        let raw: Option<Box<str>> = params.as_raw().map(Box::from);
        let bytes = raw.as_deref().map_or(0, str::len);
        let mut waiting = self.waiting();
        waiting.push(Priority::Low, Item::Notification(raw), bytes);
        self.ends_in_gap.store(false, Ordering::Relaxed);
        drop(waiting);
        self.arrived.notify_one();
    }

    fn pop(&self) -> Option<Item> {
        let mut waiting = self.waiting();
        let item = waiting.pop()?.data;
        if waiting.is_empty() {
            self.ends_in_gap.store(false, Ordering::Relaxed);
        }
        Some(item)
    }

    /// Notes that a connection of a client fills this queue from now on. If another connection filled it
    /// before, that is a gap. Consecutive gaps count as one, so that their number is bounded. A notification
    /// never displaces a gap.
    fn attach(&self) {
        if !self.was_attached.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut waiting = self.waiting();
        if !self.ends_in_gap.swap(true, Ordering::Relaxed) {
            waiting.push(Priority::High, Item::Gap, 0);
        }
        drop(waiting);
        self.arrived.notify_one();
    }
}

/// The subscriptions of a connection, by method.
#[derive(Default)]
pub(super) struct Subscriptions {
    is_used: AtomicBool,
    queues: Mutex<HashMap<Box<str>, Vec<Arc<Queue>>>>,
}

impl Subscriptions {
    fn add(&self, queue: &Arc<Queue>) {
        let mut queues = lock(&self.queues);
        queues.entry(queue.method.clone()).or_default().push(Arc::clone(queue));
        self.is_used.store(true, Ordering::Release);
    }

    fn remove(&self, queue: &Arc<Queue>) {
        let mut queues = lock(&self.queues);
        if let Some(same) = queues.get_mut(&queue.method) {
            same.retain(|other| !Arc::ptr_eq(other, queue));
            if same.is_empty() {
                queues.remove(&queue.method);
            }
        }
        self.is_used.store(!queues.is_empty(), Ordering::Release);
    }

    /// Returns `true` if there are subscriptions to the method.
    #[inline]
    pub(super) fn has(&self, method: &str) -> bool {
        self.is_used.load(Ordering::Acquire) && self.find(method)
    }

    #[cold]
    fn find(&self, method: &str) -> bool {
        lock(&self.queues).contains_key(method)
    }

    /// Hands a notification to the subscriptions of its method.
    pub(super) fn deliver(&self, method: &str, params: &Params<'_>) {
        let queues = lock(&self.queues);
        queues.get(method).into_iter().flatten().for_each(|queue| queue.push(params));
    }
}

/// The subscriptions of a client. Each connection gets them before its first message, so a connection needs
/// only one table of subscriptions.
pub(crate) struct ClientSubscriptions {
    message_bytes: usize,
    of_moment: Mutex<OfMoment>,
    gone: Flag,
}

#[derive(Default)]
struct OfMoment {
    queues: Vec<Arc<Queue>>,
    /// The connection that fills the queues.
    connection: Weak<Shared>,
}

impl ClientSubscriptions {
    pub(crate) fn new(message_bytes: usize) -> Self {
        ClientSubscriptions { message_bytes, of_moment: Mutex::default(), gone: Flag::new() }
    }

    /// Moves the queues to a new connection, which has not received anything yet.
    pub(crate) fn attach(&self, connection: &Arc<Shared>) {
        let mut of_moment = lock(&self.of_moment);
        for queue in &of_moment.queues {
            queue.attach();
            connection.subscriptions.add(queue);
        }
        of_moment.connection = Arc::downgrade(connection);
    }

    /// Ends all subscriptions, because there will be no further connection.
    pub(crate) fn end(&self) {
        let _ = self.gone.set(());
    }

    fn add(&self, queue: &Arc<Queue>) {
        let mut of_moment = lock(&self.of_moment);
        of_moment.queues.push(Arc::clone(queue));
        if let Some(connection) = of_moment.connection.upgrade() {
            queue.attach();
            connection.subscriptions.add(queue);
        }
    }
}

impl Source for ClientSubscriptions {
    fn gone(&self) -> &Flag {
        &self.gone
    }

    fn remove(&self, queue: &Arc<Queue>) {
        let mut of_moment = lock(&self.of_moment);
        of_moment.queues.retain(|other| !Arc::ptr_eq(other, queue));
        if let Some(connection) = of_moment.connection.upgrade() {
            connection.subscriptions.remove(queue);
        }
    }
}

impl<T> fmt::Debug for Subscription<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Subscription");
        shown.field("method", &self.queue.method).field("waiting", &self.queue.waiting().len());
        shown.finish_non_exhaustive()
    }
}
