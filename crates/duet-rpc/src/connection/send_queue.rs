//! Send queue: calls and notifications that wait for room to be sent.
//!
//! The connection owns the waiting messages, and sends them in the order in which they came. If each
//! sender waited for room by itself, a future that was polled once and then left alone could swallow
//! the wake-up that others need.
//!
//! | a message leaves the queue when | its sender learns |
//! |---|---|
//! | there is room, oldest first | `Sent::Done`; a call becomes sent |
//! | its deadline comes (notifications; the session keeps those of calls) | `Sent::TimedOut` |
//! | its sender gives up | – |
//! | the connection closes | that it is closed |

use std::collections::BTreeMap;
use std::time::Instant;

use duet_rpc_proto::message::Id;
use tokio::sync::oneshot;

/// A place in the queue. Later messages have greater tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// The messages that wait.
#[derive(Default)]
pub(super) struct SendQueue {
    waiting: BTreeMap<Ticket, Queued>,
    /// When each notification gives up. All have the same timeout, so the first one is due first.
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
    /// The message is on its way, behind all that was sent before.
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
        if let (Sender::Notification(_), Some(deadline)) = (&queued.sender, deadline) {
            self.deadlines.insert(ticket, deadline);
        }
        self.waiting.insert(ticket, queued);
        ticket
    }

    /// Takes out the message that has waited longest.
    pub(super) fn pop(&mut self) -> Option<Queued> {
        let (ticket, queued) = self.waiting.pop_first()?;
        self.deadlines.remove(&ticket);
        Some(queued)
    }

    /// Takes out one message, because its sender has given up.
    pub(super) fn withdraw(&mut self, ticket: Ticket) -> Option<Queued> {
        self.deadlines.remove(&ticket);
        self.waiting.remove(&ticket)
    }

    /// Takes out a notification whose deadline has come.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Queued> {
        let (&ticket, _) = self.deadlines.first_key_value().filter(|(_, due)| **due <= now)?;
        self.withdraw(ticket)
    }

    /// When the next notification gives up.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first_key_value().map(|(_, &deadline)| deadline)
    }
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
        assert!(queue.withdraw(tickets[1]).is_none(), "it is gone");
        let left: Vec<_> =
            std::iter::from_fn(|| queue.pop()).map(|queued| queued.message[0]).collect();
        assert_eq!(left, [1, 2, 4]);
        assert!(queue.withdraw(first).is_none());
        assert!(queue.is_empty() && queue.next_deadline().is_none());
    }

    #[test]
    fn p2_a_notification_gives_up_at_its_deadline_and_a_call_never_does_here() {
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
