//! Send queue: calls and notifications that wait for room to be sent.
//!
//! The connection owns the waiting messages, and sends them in the order of their arrival. If each sender
//! waited for room in its own future, a future that is never polled again could take the wake-up that another
//! sender needs.
//!
//! | a message leaves the queue when | its sender learns |
//! |---|---|
//! | there is room, oldest first | `Sent::Done`; a call becomes sent |
//! | its deadline comes (notifications; the session keeps those of calls) | `Sent::TimedOut` |
//! | its sender gives up | – |
//! | the connection closes | that it is closed |

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use duet_rpc_proto::message::Id;
use tokio::sync::oneshot;

use super::Shared;
use crate::error::{Error, ErrorKind};

/// A place in the queue. Later messages have greater tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// The messages that wait.
#[derive(Default)]
pub(super) struct SendQueue {
    waiting: BTreeMap<Ticket, Queued>,
    /// The calls among them.
    calls: HashMap<Id, Ticket>,
    /// The deadline of each notification. All have the same timeout, so the first one is due first.
    deadlines: BTreeMap<Ticket, Instant>,
    last: u64,
}

/// A message that waits for room.
pub(super) struct Queued {
    pub(super) message: Vec<u8>,
    pub(super) sender: Sender,
}

/// The sender of a waiting message.
pub(super) enum Sender {
    /// The call of this id. The session keeps its deadline.
    Call(Id),
    /// A notification; its sender waits for this.
    Notification(oneshot::Sender<Sent>),
}

/// The outcome of a wait for room.
pub(crate) enum Sent {
    /// The message is in the outbox, after all earlier messages.
    Done,
    /// There was no room in time.
    TimedOut,
}

impl SendQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a message at the end. A notification gives up at its deadline.
    pub(super) fn push(&mut self, queued: Queued, deadline: Option<Instant>) -> Ticket {
        self.last += 1;
        let ticket = Ticket(self.last);
        match (&queued.sender, deadline) {
            (Sender::Call(id), _) => drop(self.calls.insert(id.clone(), ticket)),
            (Sender::Notification(_), Some(deadline)) => {
                self.deadlines.insert(ticket, deadline);
            }
            (Sender::Notification(_), None) => {}
        }
        self.waiting.insert(ticket, queued);
        ticket
    }

    /// Takes out the message that has waited longest.
    pub(super) fn pop(&mut self) -> Option<Queued> {
        let (&ticket, _) = self.waiting.first_key_value()?;
        self.withdraw(ticket)
    }

    /// Takes out one message, because its sender has given up.
    pub(super) fn withdraw(&mut self, ticket: Ticket) -> Option<Queued> {
        let queued = self.waiting.remove(&ticket)?;
        match &queued.sender {
            Sender::Call(id) => drop(self.calls.remove(id)),
            Sender::Notification(_) => drop(self.deadlines.remove(&ticket)),
        }
        Some(queued)
    }

    /// Takes out the message of a call that has ended; `None` if it does not wait.
    pub(super) fn withdraw_call(&mut self, id: &Id) -> Option<Queued> {
        let ticket = *self.calls.get(id)?;
        self.withdraw(ticket)
    }

    /// The message of a call; `None` if it does not wait.
    pub(super) fn message_of(&self, id: &Id) -> Option<&[u8]> {
        self.waiting.get(self.calls.get(id)?).map(|queued| &*queued.message)
    }

    /// Takes out a notification whose deadline has passed.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Queued> {
        let (&ticket, _) = self.deadlines.first_key_value().filter(|(_, due)| **due <= now)?;
        self.withdraw(ticket)
    }

    /// The deadline of the next notification.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first_key_value().map(|(_, &deadline)| deadline)
    }
}

/// A notification that waits for room. Dropping this takes the notification back.
pub(crate) struct WaitForRoom {
    pub(super) shared: Arc<Shared>,
    pub(super) ticket: Ticket,
    pub(super) sent: oneshot::Receiver<Sent>,
}

impl WaitForRoom {
    /// Waits until the notification is in the outbox, or gives up at its deadline.
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
        self.shared.mailbox.withdraw(self.ticket);
    }
}

/// The error of a message that waited for room until its deadline.
pub(super) fn no_room_in_time() -> Error {
    Error::new(ErrorKind::Timeout).caused_by("the remote reads nothing")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use duet_rpc_proto::message::Id;
    use tokio::sync::oneshot;

    use super::{Queued, SendQueue, Sender};

    fn call(id: u64) -> Queued {
        Queued { message: vec![id as u8], sender: Sender::Call(Id::from(id)) }
    }

    fn notification(number: u8) -> Queued {
        Queued { message: vec![number], sender: Sender::Notification(oneshot::channel().0) }
    }

    #[test]
    fn p9_messages_leave_in_order_and_withdrawn_ones_leave_nothing_behind() {
        let (mut queue, now) = (SendQueue::default(), Instant::now());
        let first = queue.push(call(1), Some(now));
        let tickets = [2, 3, 4].map(|number| queue.push(notification(number), Some(now)));
        assert!(queue.withdraw(tickets[1]).is_some());
        assert!(queue.withdraw(tickets[1]).is_none(), "the message is gone");
        let left: Vec<_> =
            std::iter::from_fn(|| queue.pop()).map(|queued| queued.message[0]).collect();
        assert_eq!(left, [1, 2, 4]);
        assert!(queue.withdraw(first).is_none());
        assert!(queue.is_empty() && queue.next_deadline().is_none() && queue.calls.is_empty());
    }

    #[test]
    fn p3_the_message_of_a_call_that_has_ended_is_withdrawn_by_its_id() {
        let mut queue = SendQueue::default();
        queue.push(call(1), None);
        queue.push(call(2), None);
        assert!(queue.withdraw_call(&Id::from(1)).is_some());
        assert!(queue.withdraw_call(&Id::from(1)).is_none(), "the message is gone");
        assert_eq!(queue.pop().map(|queued| queued.message), Some(vec![2]));
        assert!(queue.withdraw_call(&Id::from(2)).is_none(), "the message was sent");
    }

    #[test]
    fn p2_queue_expires_notifications_at_their_deadline_but_not_calls() {
        let (mut queue, now) = (SendQueue::default(), Instant::now());
        let later = now + Duration::from_secs(1);
        queue.push(call(1), Some(now));
        queue.push(notification(2), Some(now));
        queue.push(notification(3), Some(later));
        queue.push(notification(4), None);
        assert_eq!(queue.next_deadline(), Some(now));
        assert_eq!(queue.expire(now).map(|queued| queued.message), Some(vec![2]));
        assert!(queue.expire(now).is_none());
        assert_eq!(queue.next_deadline(), Some(later));
        assert_eq!(queue.expire(later).map(|queued| queued.message), Some(vec![3]));
        assert_eq!(queue.next_deadline(), None);
    }
}
