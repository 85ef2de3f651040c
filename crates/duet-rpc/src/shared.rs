//! What the handles of a connection share with its driver.
//!
//! The driver alone owns the session and the transport. Handles, and handlers that had to wait,
//! write their messages elsewhere and post them; the driver takes all posts of a moment at once.
//! So no code of the application ever runs under this lock. The driver takes it a few times per turn,
//! never per message.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Instant;

use duet_rpc_proto::Profile;
use duet_rpc_proto::message::{ErrorObject, Id};
use duet_rpc_proto::session::{Ids, Key, Terms};
use tokio::sync::{Notify, SetOnce, oneshot, watch};

use crate::budget::{AnswerSize, Budget, Reservation};
use crate::context::Flag;
use crate::driver::{UnusableAnswer, connection_span, now};
use crate::error::{Error, ErrorKind, RemoteError};
use crate::events::Stream;
use crate::extensions::Extensions;
use crate::handler::Outcome;
use crate::random;
use crate::send_queue::{SendQueue, Sender, Sent, Ticket, Unsent};
use crate::state::ConnectionState;

pub(crate) struct Shared {
    pub(crate) profile: Profile,
    /// The connection, for the log.
    pub(crate) span: tracing::Span,
    /// Whether messages can be sent that answer nothing.
    has_way_back: bool,
    /// What bounds the answers that handlers make on other threads.
    pub(crate) budget: Arc<Budget>,
    pub(crate) ids: Ids,
    pub(crate) state: watch::Sender<ConnectionState>,
    mail: Mutex<Mail>,
    has_mail: AtomicBool,
    /// Whether messages wait for room.
    has_unsent: AtomicBool,
    /// Wakes one of the handlers that wait for room to begin; it passes the wake-up on. Waking all of
    /// them each time would cost the square of their number, because most find no room again. Only
    /// tasks wait here, which are always polled.
    room: Notify,
    /// How many handlers wait for room. It is changed and read with the mail locked.
    waiting_handlers: AtomicUsize,
    pub(crate) counts: Counts,
    /// The answers to batches hold so much that no more of their requests should begin.
    pub(crate) is_full_of_batches: AtomicBool,
    /// The first error that the remote answered to it does not know what.
    pub(crate) uncorrelated_error: SetOnce<RemoteError>,
    /// The first answer that cannot be used.
    pub(crate) unusable: SetOnce<UnusableAnswer>,
    /// Told at once, on whatever thread, that the connection is to be closed.
    pub(crate) on_close: OnceLock<OnClose>,
    /// Set when the connection ends, before its handlers are stopped.
    pub(crate) gone: Flag,
    /// What the application keeps with the connection.
    pub(crate) extensions: Extensions,
}

/// Hears that the connection is to be closed, and by which message, if it was one.
pub(crate) type OnClose = Box<dyn Fn(Option<Key>) + Send + Sync>;

/// Figures of a connection, for whoever looks.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) pending_calls: AtomicUsize,
    pub(crate) running: AtomicUsize,
    pub(crate) waiting: AtomicUsize,
    pub(crate) unmatched: AtomicUsize,
    pub(crate) messages: AtomicU64,
    pub(crate) faults: AtomicU64,
    pub(crate) bytes_received: AtomicU64,
    pub(crate) bytes_sent: AtomicU64,
}

/// How much memory streams may take that have ended with events in them, because nothing can be sent.
const MOST_ENDED: usize = 4 * 1024 * 1024;

#[derive(Default)]
struct Mail {
    posts: Vec<Post>,
    /// How many bytes the posts and the outbox hold.
    outgoing: usize,
    /// How many bytes of memory that takes, as the budget has counted it.
    charged: usize,
    /// Messages that found no room.
    unsent: SendQueue,
    streams: Vec<Arc<Stream>>,
    /// The memory of streams that ended with something in them since it was counted the last time.
    ended_bytes: usize,
    /// How many calls are among the posts, also those that were given up since.
    calls: usize,
    /// Whether a [`Post::Event`] is among the posts.
    has_events: bool,
    is_closed: bool,
    driver: Option<Waker>,
}

impl Mail {
    /// Forgets the streams that nobody will send on, and that hold nothing.
    fn forget_streams(&mut self) {
        self.streams.retain(|stream| Arc::strong_count(stream) > 1 || !stream.is_empty());
    }

    /// Forgets the oldest of the streams that have ended, until the rest takes half of what it may: then
    /// there is nothing to do for a while.
    fn forget_oldest_streams(&mut self) {
        let is_ended = |stream: &&Arc<Stream>| Arc::strong_count(stream) == 1;
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

/// A message to the driver.
pub(crate) enum Post {
    Call {
        id: Id,
        message: Outgoing,
        caller: Caller,
        terms: Terms,
    },
    Cancel(Id),
    Notify(Vec<u8>),
    /// A handler has ended; without an outcome if it was stopped.
    Ended(Key, Option<Outcome>),
    Close(Option<Key>),
    /// Events wait in the streams. One stands for all of them.
    Event,
    /// The first poll of a method that runs for the first time is over.
    TrialOver,
}

/// The message of a call.
pub(crate) enum Outgoing {
    Ready(Vec<u8>),
    /// It waits in the queue for room.
    Waits(Ticket),
}

impl Post {
    fn size(&self) -> usize {
        match self {
            Post::Call { message: Outgoing::Ready(message), .. } | Post::Notify(message) => {
                message.len()
            }
            Post::Ended(_, Some(Ok(result))) => result.len(),
            Post::Call { .. }
            | Post::Cancel(_)
            | Post::Ended(..)
            | Post::Close(_)
            | Post::Event
            | Post::TrialOver => 0,
        }
    }
}

/// Who waits for the answer to a call: the raw result, or why there is none.
pub(crate) type Caller = oneshot::Sender<Result<String, Error>>;

/// A notification that was given to the connection.
pub(crate) enum Given {
    /// It is on its way.
    Sent,
    /// It waits for room.
    Waits(WaitForRoom),
}

/// A notification that waits for room. Dropping this takes the notification back.
pub(crate) struct WaitForRoom {
    shared: Arc<Shared>,
    ticket: Ticket,
    sent: oneshot::Receiver<Sent>,
}

impl WaitForRoom {
    /// Waits until the notification is on its way, or gives up at its deadline.
    pub(crate) async fn wait(mut self) -> Result<(), Error> {
        match (&mut self.sent).await {
            Ok(Sent::Done) => Ok(()),
            Ok(Sent::TimedOut) => Err(no_room_in_time()),
            Err(_) => Err(self.shared.closed_error()),
        }
    }
}

impl Drop for WaitForRoom {
    fn drop(&mut self) {
        let unsent = self.shared.mail().unsent.withdraw(self.ticket);
        drop(unsent);
    }
}

/// The error of a message that waited for room until its time was over.
pub(crate) fn no_room_in_time() -> Error {
    Error::new(ErrorKind::Timeout).caused_by("the remote reads nothing")
}

impl Shared {
    /// What a connection shares with its handles. Without a budget that it has in common with other
    /// connections, it gets its own.
    pub(crate) fn new(profile: &Profile, has_way_back: bool, budget: Option<Arc<Budget>>) -> Self {
        let profile = profile.with(|it| it.limits = it.limits.usable());
        let own = || Budget::of_connection(profile.limits.outgoing_bytes);
        Shared {
            profile,
            span: connection_span(),
            budget: budget.unwrap_or_else(own),
            has_way_back,
            ids: Ids::new(profile.ids, random::seed()),
            state: watch::Sender::new(ConnectionState::Connecting),
            mail: Mutex::default(),
            has_mail: AtomicBool::new(false),
            has_unsent: AtomicBool::new(false),
            room: Notify::new(),
            waiting_handlers: AtomicUsize::new(0),
            counts: Counts::default(),
            is_full_of_batches: AtomicBool::new(false),
            uncorrelated_error: SetOnce::new(),
            unusable: SetOnce::new(),
            on_close: OnceLock::new(),
            gone: Flag::new(),
            extensions: Extensions::default(),
        }
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a call. Without room, its message waits; its time runs all the same.
    pub(crate) fn call(
        &self,
        id: Id,
        message: Vec<u8>,
        caller: Caller,
        terms: Terms,
    ) -> Result<(), Error> {
        let Some(mut mail) = self.open_mail() else { return Err(self.closed_error()) };
        // The session counts those that it knows of; the driver may be kept from running for long.
        if mail.calls >= self.profile.limits.pending_calls {
            return Err(Error::new(ErrorKind::Capacity));
        }
        mail.calls += 1;
        let message = match self.has_room(&mail) {
            true => Outgoing::Ready(message),
            false => {
                let unsent = Unsent { message, sender: Sender::Call(id.clone()) };
                Outgoing::Waits(self.queue(&mut mail, unsent, None))
            }
        };
        self.deliver(mail, Post::Call { id, message, caller, terms });
        Ok(())
    }

    /// Sends a notification, or lets it wait for room.
    pub(crate) fn notify(self: &Arc<Self>, message: Vec<u8>) -> Result<Given, Error> {
        let Some(mut mail) = self.open_mail() else { return Err(self.closed_error()) };
        if self.has_room(&mail) {
            self.deliver(mail, Post::Notify(message));
            return Ok(Given::Sent);
        }
        let (sender, sent) = oneshot::channel();
        let unsent = Unsent { message, sender: Sender::Notification(sender) };
        // A deadline beyond what the clock can tell is none.
        let deadline = self.profile.call_timeout.and_then(|time| now().checked_add(time));
        let ticket = self.queue(&mut mail, unsent, deadline);
        self.wake_driver(mail);
        Ok(Given::Waits(WaitForRoom { shared: Arc::clone(self), ticket, sent }))
    }

    /// The mail, if something may still be sent that answers nothing.
    fn open_mail(&self) -> Option<MutexGuard<'_, Mail>> {
        Some(self.mail()).filter(|mail| !mail.is_closed && self.has_way_back)
    }

    /// Whether a message can be sent now. One that comes while others wait has its place behind them.
    fn has_room(&self, mail: &Mail) -> bool {
        mail.unsent.is_empty() && mail.outgoing < self.profile.limits.outgoing_bytes
    }

    fn queue(&self, mail: &mut Mail, unsent: Unsent, deadline: Option<Instant>) -> Ticket {
        self.has_unsent.store(true, Ordering::Release);
        mail.unsent.push(unsent, deadline)
    }

    /// Posts something that must get through: there is at most one for each call or handler.
    pub(crate) fn post(&self, post: Post) {
        let mail = self.mail();
        if !mail.is_closed {
            self.deliver(mail, post);
        }
    }

    /// Tells the driver that an event waits in a stream, unless it is to learn that anyway: sending an
    /// event is never refused, so what it posts must be bounded (P9).
    pub(crate) fn post_event(&self) {
        let mut mail = self.mail();
        if !mail.is_closed && !std::mem::replace(&mut mail.has_events, true) {
            self.deliver(mail, Post::Event);
        }
    }

    fn deliver(&self, mut mail: MutexGuard<'_, Mail>, post: Post) {
        mail.outgoing += post.size();
        mail.charged += post.size();
        self.budget.add(post.size());
        mail.posts.push(post);
        self.has_mail.store(true, Ordering::Release);
        self.wake_driver(mail);
    }

    fn wake_driver(&self, mut mail: MutexGuard<'_, Mail>) {
        let driver = mail.driver.take();
        drop(mail);
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Waits with the beginning of a handler until there is room for its answer.
    pub(crate) async fn wait_to_begin(self: &Arc<Self>, size: &Arc<AnswerSize>) -> Room {
        loop {
            let is_kept = self.wait_for_room().await;
            // From here on others wait for this task to pass the room on, even if it is stopped.
            let mut room = Room { reservation: None, shared: Arc::clone(self) };
            room.reservation = self.budget.try_reserve(size);
            if room.reservation.is_some() && is_kept {
                return room;
            }
            if room.reservation.is_none() {
                room.reservation = Some(self.budget.reserve(size).await);
            }
            // The answers that it waited for may have taken the room.
            if self.has_room_to_begin(&self.mail()) {
                return room;
            }
        }
    }

    /// Waits until this connection has room for an answer, or is closed; whether the room is kept for this
    /// handler, because it was woken. Messages that always wait may have filled the room again before its
    /// thread runs.
    async fn wait_for_room(&self) -> bool {
        let room = self.room.notified();
        tokio::pin!(room);
        room.as_mut().enable();
        let _waiting = {
            let mail = self.mail();
            if self.has_room_to_begin(&mail) {
                return false;
            }
            self.waiting_handlers.fetch_add(1, Ordering::Relaxed);
            WaitingHandler(self)
        };
        room.await;
        true
    }

    fn has_room_to_begin(&self, mail: &Mail) -> bool {
        mail.is_closed || mail.outgoing < self.profile.limits.outgoing_bytes
    }

    /// Wakes the next handler that waits for room to begin, if there is room.
    fn pass_room_on(&self) {
        let mail = self.mail();
        let has_room = mail.outgoing < self.profile.limits.outgoing_bytes;
        self.wake_handler(mail, has_room);
    }

    /// Wakes the next handler that waits for room to begin, if there is room and one waits.
    fn wake_handler(&self, mail: MutexGuard<'_, Mail>, has_room: bool) {
        let is_awaited = has_room && self.waiting_handlers.load(Ordering::Relaxed) > 0;
        drop(mail);
        if is_awaited {
            self.room.notify_one();
        }
    }

    /// What a request of a batch is answered with that has not begun, if the answers to batches
    /// hold too much already.
    pub(crate) fn refusal_of_batch(&self) -> Option<ErrorObject> {
        let most = self.profile.limits.batch_bytes as u64;
        let is_full =
            self.is_full_of_batches.load(Ordering::Relaxed) || self.budget.is_full_of_batches();
        is_full.then(|| ErrorObject::server_busy(self.profile.busy_code, most))
    }

    pub(crate) fn add_stream(&self, stream: Arc<Stream>) {
        let mut mail = self.mail();
        if mail.is_closed || !self.has_way_back {
            return;
        }
        // Those that were dropped and never sent anything must not gather here. To look when the
        // list would grow costs no more than the growing.
        if mail.streams.len() == mail.streams.capacity() {
            mail.forget_streams();
        }
        mail.streams.push(stream);
    }

    /// A stream ends with events in it, which take so much memory.
    pub(crate) fn end_stream(&self, cost: usize) {
        let mut mail = self.mail();
        mail.ended_bytes += cost;
        if mail.ended_bytes > MOST_ENDED {
            mail.forget_oldest_streams();
        }
    }

    /// Fails if the connection is gone, or carries answers alone.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.gone.initialized() || !self.has_way_back {
            return Err(self.closed_error());
        }
        Ok(())
    }

    /// The error of an operation that came too late.
    pub(crate) fn closed_error(&self) -> Error {
        match &*self.state.borrow() {
            ConnectionState::Disconnected(disconnect) => disconnect.to_error(),
            _ if !self.has_way_back => Error::new(ErrorKind::OneWay),
            _ => Error::new(ErrorKind::Disconnected).caused_by("it is closing"),
        }
    }

    // ---- for the driver

    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::Acquire)
    }

    /// Takes all posts. What they hold is to be in the outbox before the next
    /// [`park`](Shared::park).
    pub(crate) fn take_mail(&self, into: &mut Vec<Post>) {
        let mut mail = self.mail();
        self.has_mail.store(false, Ordering::Release);
        (mail.calls, mail.has_events) = (0, false);
        std::mem::swap(&mut mail.posts, into);
    }

    /// Whether messages may wait for room.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        self.has_unsent.load(Ordering::Acquire)
    }

    /// Takes something out of the queue of messages that wait for room.
    pub(crate) fn unsent<T>(&self, take: impl FnOnce(&mut SendQueue) -> T) -> T {
        let mut mail = self.mail();
        let taken = take(&mut mail.unsent);
        self.has_unsent.store(!mail.unsent.is_empty(), Ordering::Release);
        taken
    }

    /// The streams of events that are still in use.
    pub(crate) fn streams(&self) -> Vec<Arc<Stream>> {
        let mut mail = self.mail();
        mail.forget_streams();
        mail.streams.clone()
    }

    /// Says how many bytes wait to be sent, and how much memory they take.
    pub(crate) fn set_outgoing(&self, outbox: usize, held: usize) {
        let mut mail = self.mail();
        if mail.is_closed {
            return;
        }
        let posted: usize = mail.posts.iter().map(Post::size).sum();
        let before = std::mem::replace(&mut mail.outgoing, outbox + posted);
        let charged = std::mem::replace(&mut mail.charged, held + posted);
        let most = self.profile.limits.outgoing_bytes;
        let has_room_now = before >= most && mail.outgoing < most;
        self.wake_handler(mail, has_room_now);
        match charged < held + posted {
            true => self.budget.add(held + posted - charged),
            false => self.budget.remove(charged - held - posted),
        }
    }

    /// Leaves a waker for the next post; `false` if there is something to do already: a post, a message
    /// that waits although there is room for it, or one that gives up before the alarm.
    pub(crate) fn park(&self, waker: &Waker, alarm: Option<Instant>, has_room: bool) -> bool {
        let mut mail = self.mail();
        let gives_up = mail.unsent.next_deadline();
        let is_earlier = gives_up.is_some_and(|due| alarm.is_none_or(|alarm| due < alarm));
        if !mail.posts.is_empty() || is_earlier || (has_room && !mail.unsent.is_empty()) {
            return false;
        }
        if !mail.driver.as_ref().is_some_and(|driver| driver.will_wake(waker)) {
            mail.driver = Some(waker.clone());
        }
        true
    }

    /// Takes no more posts, and returns those that were not taken.
    pub(crate) fn close(&self) -> Vec<Post> {
        let mut mail = self.mail();
        mail.is_closed = true;
        let charged = std::mem::take(&mut mail.charged);
        mail.streams.clear();
        self.has_mail.store(false, Ordering::Release);
        self.has_unsent.store(false, Ordering::Release);
        let posts = std::mem::take(&mut mail.posts);
        let unsent = std::mem::take(&mut mail.unsent);
        drop(mail);
        // Their senders learn that the connection is closed.
        drop(unsent);
        self.budget.remove(charged);
        self.room.notify_waiters();
        self.extensions.close();
        posts
    }
}

/// Room for the answer of a handler that begins. Drop it when the answer is counted among the bytes that
/// wait, or when the handler awaits: the next handler may have waited for this one.
pub(crate) struct Room {
    reservation: Option<Reservation>,
    shared: Arc<Shared>,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.reservation = None;
        self.shared.pass_room_on();
    }
}

/// A handler that waits for room to begin.
struct WaitingHandler<'a>(&'a Shared);

impl Drop for WaitingHandler<'_> {
    fn drop(&mut self) {
        let _mail = self.0.mail();
        self.0.waiting_handlers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use duet_rpc_proto::Profile;
    use duet_rpc_proto::session::Priority;

    use super::Shared;
    use crate::budget::Budget;
    use crate::events::EventStream;

    /// Nothing takes the posts here, as if the driver were never polled.
    #[test]
    fn p9_events_leave_one_post_however_many_are_sent() {
        let kinds: [fn(EventStream) -> EventStream; 4] = [
            |events| events,
            |events| events.bounded(10, 4),
            |events| events.bounded(0, 0),
            |events| {
                events.close();
                events
            },
        ];
        for (row, kind) in kinds.into_iter().enumerate() {
            let shared = Arc::new(Shared::new(&Profile::agent(), true, None));
            for _ in 0..3 {
                let events = kind(EventStream::new(Arc::clone(&shared), "event", "topic"));
                for _ in 0..1000 {
                    events.send(Priority::Low, "longer than 4").expect("a text is JSON");
                }
            }
            assert_eq!(shared.mail().posts.len(), usize::from(row == 0), "row {row}");
            let mut posts = Vec::new();
            shared.take_mail(&mut posts);
            EventStream::new(Arc::clone(&shared), "event", "topic")
                .send(Priority::Low, &1)
                .expect("a number is JSON");
            assert_eq!(shared.mail().posts.len(), 1, "row {row}: the next one is told of");
        }
    }

    #[test]
    fn p9_streams_that_were_dropped_do_not_gather() {
        let shared = Arc::new(Shared::new(&Profile::agent(), true, None));
        let kept = EventStream::new(Arc::clone(&shared), "event", "kept");
        for _ in 0..10_000 {
            drop(EventStream::new(Arc::clone(&shared), "event", "dropped"));
        }
        assert!(shared.mail().streams.len() < 16);
        assert_eq!(shared.streams().len(), 1, "{kept:?}");
        for _ in 0..1000 {
            let events = EventStream::new(Arc::clone(&shared), "event", "ended");
            events.send(Priority::High, &"x".repeat(100_000)).expect("a text is JSON");
        }
        let ended = shared.streams().len() - 1;
        assert!((20..=42).contains(&ended), "{ended} streams that have ended are kept");
        shared.close();
        let late = EventStream::new(Arc::clone(&shared), "event", "late");
        assert_eq!(shared.streams().len(), 0, "{late:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn p9_room_for_a_handler_is_kept_until_its_thread_runs() {
        let profile = Profile::agent().with(|it| it.limits.outgoing_bytes = 100);
        let shared = Arc::new(Shared::new(&profile, true, None));
        shared.set_outgoing(100, 100);
        let handler = Arc::clone(&shared);
        let handler =
            tokio::spawn(async move { drop(handler.wait_to_begin(&Arc::default()).await) });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!handler.is_finished());
        shared.set_outgoing(50, 200);
        // A remote that reads slowly, and messages that always wait.
        shared.set_outgoing(150, 200);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(handler.is_finished(), "it begins");
    }

    #[tokio::test(start_paused = true)]
    async fn p3_a_handler_that_is_cancelled_while_it_waits_for_memory_passes_the_room_on() {
        let profile = Profile::agent().with(|it| it.limits.outgoing_bytes = 100);
        let shared = Arc::new(Shared::new(&profile, true, Some(Budget::shared(100))));
        let begin = || {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move { drop(shared.wait_to_begin(&Arc::default()).await) })
        };
        shared.set_outgoing(100, 200);
        let (first, second) = (begin(), begin());
        // The tasks run whenever the clock moves.
        let pause = || tokio::time::sleep(Duration::from_secs(1));
        pause().await;
        // The connection has room, and the first handler hears of it; the memory is still in use.
        shared.set_outgoing(50, 150);
        pause().await;
        first.abort();
        pause().await;
        shared.set_outgoing(0, 0);
        let begun = tokio::time::timeout(Duration::from_secs(10), second).await;
        begun.expect("the second handler begins").expect("no panic");
    }
}
