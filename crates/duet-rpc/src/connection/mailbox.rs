//! Mailbox: commands from handles and tasks to the connection's task.
//!
//! Handles and tasks serialise their messages before they post them, so no code of the application runs under
//! this lock. The connection takes all waiting commands together, so it takes the lock a few times per turn,
//! never per message.
//!
//! | command | posted by |
//! |---|---|
//! | `Call`, `Cancel` | a call that is polled for the first time; a call that is dropped |
//! | `Notify` | a notification that finds room; without room it waits in the [`SendQueue`] |
//! | `Ended`, `TrialOver` | a handler that ran as a task; the first poll of a new method |
//! | `Close` | a handle that closes the connection, or the last handle when it is dropped |
//! | `Event` | an event stream that was empty; one command stands for all streams |

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Instant;

use duet_rpc_proto::Limits;
use duet_rpc_proto::message::Id;
use duet_rpc_proto::session::{CallOptions, Key};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, oneshot};

use super::caller::Caller;
use super::memory::Budget;
use super::send_queue::{Queued, SendQueue, Sender, Sent, Ticket};
use crate::error::ErrorKind;
use crate::handler::Outcome;
use crate::sync::lock;

/// A message to the connection's task.
pub(crate) enum Command {
    Call {
        id: Id,
        /// `None` if the message waits in the send queue for room.
        message: Option<Vec<u8>>,
        caller: Caller,
        options: CallOptions,
    },
    /// Gives up a call of ours.
    Cancel(Id),
    /// Cancels a request of the remote, because it said so on another connection.
    CancelRequest(Id),
    Notify(Vec<u8>),
    /// A handler has ended. There is no outcome if it was stopped.
    Ended(Key, Option<Outcome>),
    Close(Option<Key>),
    Event,
    TrialOver,
}

impl Command {
    /// The number of outgoing bytes in this command.
    fn size(&self) -> usize {
        match self {
            Command::Call { message: Some(message), .. } | Command::Notify(message) => {
                message.len()
            }
            Command::Ended(_, Some(Ok(response))) => response.len(),
            _ => 0,
        }
    }
}

pub(crate) struct Mailbox {
    pub(super) inner: Mutex<MailboxState>,
    has_commands: AtomicBool,
    /// `true` if messages wait for room.
    has_queued: AtomicBool,
    /// Limit for the bytes that wait to be sent.
    most_bytes: usize,
    budget: Arc<Budget>,
    /// The queue of handlers that wait for room. The first handler has the permit, and passes it on when it
    /// begins. Waking all handlers each time would cost the square of their number.
    waiting_handlers: Semaphore,
    /// Wakes the first handler of the queue.
    room: Notify,
    /// Maximum number of calls among the commands. The session limits the calls that it knows of, but it does
    /// not see these until the connection runs.
    most_calls: usize,
}

#[derive(Default)]
pub(super) struct MailboxState {
    commands: Vec<Command>,
    queue: SendQueue,
    /// The number of bytes in the commands and in the outbox.
    outgoing: usize,
    /// The memory for these bytes, as counted by the budget.
    pub(super) charged: usize,
    /// The number of calls among the commands, including calls that were dropped since.
    calls: usize,
    /// `true` if [`Command::Event`] is among the commands.
    has_event: bool,
    is_closed: bool,
    driver: Option<Waker>,
}

impl Mailbox {
    pub(super) fn new(limits: &Limits, budget: Arc<Budget>) -> Self {
        Mailbox {
            inner: Mutex::default(),
            has_commands: AtomicBool::new(false),
            has_queued: AtomicBool::new(false),
            most_bytes: limits.outgoing_bytes,
            budget,
            waiting_handlers: Semaphore::new(1),
            room: Notify::new(),
            most_calls: limits.pending_calls,
        }
    }

    // ---- for handles and tasks

    /// Sends a call. Without room its message waits, but its timeout runs. Returns the waker of the connection's task, if
    /// it sleeps.
    pub(crate) fn call(
        &self,
        id: Id,
        message: Vec<u8>,
        caller: Caller,
        options: CallOptions,
    ) -> Result<Option<Waker>, ErrorKind> {
        let mut inner = self.open()?;
        if inner.calls >= self.most_calls {
            return Err(ErrorKind::Capacity);
        }
        inner.calls += 1;
        let message = match self.has_room(&inner) {
            true => Some(message),
            false => {
                let queued = Queued { message, sender: Sender::Call(id.clone()) };
                self.queue(&mut inner, queued, None);
                None
            }
        };
        self.push(&mut inner, Command::Call { id, message, caller, options });
        Ok(inner.driver.take())
    }

    /// Sends a notification. If there is no room, the notification waits in the queue until the deadline. In
    /// that case this returns its ticket, and a receiver that is notified when it leaves the queue.
    pub(super) fn notify(
        &self,
        message: Vec<u8>,
        deadline: impl FnOnce() -> Option<Instant>,
    ) -> Result<Option<(Ticket, oneshot::Receiver<Sent>)>, ErrorKind> {
        let mut inner = self.open()?;
        if self.has_room(&inner) {
            self.deliver(inner, Command::Notify(message));
            return Ok(None);
        }
        let (sender, sent) = oneshot::channel();
        let queued = Queued { message, sender: Sender::Notification(sender) };
        let ticket = self.queue(&mut inner, queued, deadline());
        wake_driver(inner);
        Ok(Some((ticket, sent)))
    }

    /// Sends a notification if there is room; `false` if not. While a budget that connections share is spent,
    /// there is room only where nothing waits to be sent.
    pub(super) fn try_notify(&self, message: &[u8]) -> Result<bool, ErrorKind> {
        let inner = self.open()?;
        let is_spent = inner.outgoing > 0 && self.budget.is_spent_by_many();
        if is_spent || !self.has_room(&inner) {
            return Ok(false);
        }
        self.deliver(inner, Command::Notify(message.to_vec()));
        Ok(true)
    }

    /// Removes a message that waits for room.
    pub(super) fn withdraw(&self, ticket: Ticket) {
        let queued = lock(&self.inner).queue.withdraw(ticket);
        drop(queued);
    }

    /// Posts a command that must not be refused: there is at most one for each call or handler.
    pub(crate) fn post(&self, command: Command) {
        if let Ok(inner) = self.open() {
            self.deliver(inner, command);
        }
    }

    /// Tells the connection that an event waits in a stream. Sending an event is never refused, so the number
    /// of commands for events must be bounded (P9): one command stands for all events.
    pub(super) fn post_event(&self) {
        if let Ok(mut inner) = self.open()
            && !std::mem::replace(&mut inner.has_event, true)
        {
            self.deliver(inner, Command::Event);
        }
    }

    /// Waits until a handler may make an answer: the connection has room for it, or is closed. Returns `true`
    /// if it had to wait. `first` keeps the permit of the queue between calls.
    pub(super) async fn wait_for_room<'a>(
        &'a self,
        first: &mut Option<SemaphorePermit<'a>>,
    ) -> bool {
        if self.has_room_to_begin() {
            return false;
        }
        if first.is_none() {
            // The semaphore is never closed.
            *first = self.waiting_handlers.acquire().await.ok();
        }
        let room = self.room.notified();
        tokio::pin!(room);
        // This wait notices room that comes from now on, and the check below notices room that came earlier.
        room.as_mut().enable();
        if !self.has_room_to_begin() {
            room.await;
        }
        true
    }

    pub(super) fn has_room_to_begin(&self) -> bool {
        let inner = lock(&self.inner);
        inner.is_closed || inner.outgoing < self.most_bytes
    }

    fn open(&self) -> Result<MutexGuard<'_, MailboxState>, ErrorKind> {
        let inner = lock(&self.inner);
        if inner.is_closed { Err(ErrorKind::Disconnected) } else { Ok(inner) }
    }

    /// Returns `true` if a message can be sent now. If other messages wait already, a new one must wait after
    /// them.
    fn has_room(&self, inner: &MailboxState) -> bool {
        inner.queue.is_empty() && inner.outgoing < self.most_bytes
    }

    fn queue(&self, inner: &mut MailboxState, queued: Queued, deadline: Option<Instant>) -> Ticket {
        self.has_queued.store(true, Ordering::Release);
        inner.queue.push(queued, deadline)
    }

    fn deliver(&self, mut inner: MutexGuard<'_, MailboxState>, command: Command) {
        self.push(&mut inner, command);
        wake_driver(inner);
    }

    fn push(&self, inner: &mut MailboxState, command: Command) {
        let bytes = command.size();
        if bytes > 0 {
            inner.outgoing += bytes;
            inner.charged += bytes;
            self.budget.add(bytes);
        }
        inner.commands.push(command);
        self.has_commands.store(true, Ordering::Release);
    }

    // ---- for the connection

    #[inline]
    pub(super) fn has_commands(&self) -> bool {
        self.has_commands.load(Ordering::Acquire)
    }

    /// Takes all commands. The caller moves their messages to the outbox before the next
    /// [`count_outbox`](Mailbox::count_outbox).
    pub(super) fn take(&self, into: &mut Vec<Command>) {
        let mut inner = lock(&self.inner);
        self.has_commands.store(false, Ordering::Release);
        (inner.calls, inner.has_event) = (0, false);
        std::mem::swap(&mut inner.commands, into);
    }

    /// Returns `true` if messages may wait for room.
    #[inline]
    pub(super) fn has_queued(&self) -> bool {
        self.has_queued.load(Ordering::Acquire)
    }

    /// Takes the message that has waited longest out of the queue, unless there are commands. The call of
    /// this message, or its cancellation, may be among the commands.
    pub(super) fn pop_queued(&self) -> Option<Queued> {
        let mut inner = lock(&self.inner);
        let queued = inner.commands.is_empty().then(|| inner.queue.pop()).flatten();
        self.has_queued.store(!inner.queue.is_empty(), Ordering::Release);
        queued
    }

    /// Changes the queue of messages that wait for room.
    pub(super) fn with_queue<T>(&self, change: impl FnOnce(&mut SendQueue) -> T) -> T {
        let mut inner = lock(&self.inner);
        let changed = change(&mut inner.queue);
        self.has_queued.store(!inner.queue.is_empty(), Ordering::Release);
        changed
    }

    /// Records the number of bytes that wait in the outbox, and their memory.
    pub(super) fn count_outbox(&self, bytes: usize, held: usize) {
        let mut inner = lock(&self.inner);
        if inner.is_closed {
            return;
        }
        let posted: usize = inner.commands.iter().map(Command::size).sum();
        let (outgoing, held) = (bytes + posted, held + posted);
        let before = std::mem::replace(&mut inner.outgoing, outgoing);
        let charged = std::mem::replace(&mut inner.charged, held);
        drop(inner);
        if before >= self.most_bytes && outgoing < self.most_bytes {
            self.room.notify_waiters();
        }
        match charged < held {
            true => self.budget.add(held - charged),
            false => self.budget.remove(charged - held),
        }
    }

    /// Registers a waker for the next command. Returns `false` if there is something to do already: a
    /// command, a message that can leave because there is room, or a message whose deadline comes before the
    /// alarm.
    pub(super) fn park(&self, waker: &Waker, alarm: Option<Instant>, has_room: bool) -> bool {
        let mut inner = lock(&self.inner);
        let gives_up = inner.queue.next_deadline();
        let is_earlier = gives_up.is_some_and(|due| alarm.is_none_or(|alarm| due < alarm));
        if !inner.commands.is_empty() || is_earlier || (has_room && !inner.queue.is_empty()) {
            return false;
        }
        if !inner.driver.as_ref().is_some_and(|driver| driver.will_wake(waker)) {
            inner.driver = Some(waker.clone());
        }
        true
    }

    /// Closes the mailbox, and returns the remaining commands. Dropping the messages that wait for room
    /// notifies their senders.
    pub(super) fn close(&self) -> Vec<Command> {
        let mut inner = lock(&self.inner);
        inner.is_closed = true;
        self.has_commands.store(false, Ordering::Release);
        self.has_queued.store(false, Ordering::Release);
        let (commands, queue) =
            (std::mem::take(&mut inner.commands), std::mem::take(&mut inner.queue));
        let charged = std::mem::take(&mut inner.charged);
        drop(inner);
        drop(queue);
        self.budget.remove(charged);
        self.room.notify_waiters();
        commands
    }
}

fn wake_driver(mut inner: MutexGuard<'_, MailboxState>) {
    let driver = inner.driver.take();
    drop(inner);
    if let Some(driver) = driver {
        driver.wake();
    }
}
