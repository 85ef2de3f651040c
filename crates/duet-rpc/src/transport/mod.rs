//! What carries messages between two peers.
//!
//! A [`Transport`] receives into an [`Inbox`] and sends from an [`Outbox`]; both belong to the
//! driver, so a transport holds no message of its own, and none can be lost in it. Most transports
//! carry bytes, and the profile's framing says how messages are cut out of them; some carry whole
//! messages, as WebSockets do.

mod child;
mod inbox;
pub mod memory;
mod outbox;
#[cfg(unix)]
mod stdio;
mod stream;

use std::fmt;
use std::io;
use std::process::ExitStatus;
use std::task::{Context, Poll};

pub use child::Child;
pub use inbox::Inbox;
pub use outbox::Outbox;
#[cfg(unix)]
pub(crate) use stdio::{Borrower, Lender};
#[cfg(unix)]
pub use stdio::{Restore, Stdio};
pub use stream::Stream;

/// One end of a connection.
///
/// The driver polls it from one task. Every method may be called again after it was pending or
/// ready, and none is called after [`poll_close`](Transport::poll_close) was ready.
pub trait Transport: Send + 'static {
    /// Whether it carries bytes or whole messages.
    fn carries(&self) -> Carries {
        Carries::Bytes
    }

    /// Receives what has come: appends bytes to [`Inbox::space`], or a message with
    /// [`Inbox::push`].
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>>;

    /// Sends what waits in the outbox; ready when all of it has left.
    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>>;

    /// Notices, without receiving, that the remote has closed its end: ready then. It is asked
    /// while nothing is received because too much waits already. One that cannot tell stays
    /// pending.
    fn poll_gone(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Closes the connection, and says what became of the other end. What is still in the outbox
    /// is lost.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Farewell>;
}

/// What a transport carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// A stream of bytes; messages are cut out of it by a framing.
    Bytes,
    /// Whole messages.
    Messages,
}

/// What became of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Something came. More may have come already.
    Some,
    /// Something came, and it was all that there is for now.
    All,
    /// The remote will send no more.
    End,
}

/// What became of the other end, as far as it is known.
#[derive(Clone, Default)]
pub struct Farewell {
    /// How the remote process ended, if it was a child of this one.
    pub exit: Option<ExitStatus>,
    /// The last lines that it wrote to stderr.
    pub last_words: Vec<String>,
}

impl fmt::Debug for Farewell {
    /// Shows how the process ended; what it wrote may hold anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Farewell");
        shown.field("exit", &self.exit).field("last_words", &self.last_words.len()).finish()
    }
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn carries(&self) -> Carries {
        (**self).carries()
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        (**self).poll_receive(cx, inbox)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        (**self).poll_send(cx, outbox)
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        (**self).poll_gone(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Farewell> {
        (**self).poll_close(cx)
    }
}
