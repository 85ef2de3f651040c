//! An input that is lent to a thread which waits in `read` itself.
//!
//! The runtime asks what is ready and reads then: two calls of the system for each message, where
//! one does. While the input is lent the runtime forgets it, and what the thread has read is handed
//! in for the driver to take: a lock for each read, and a copy into the decoder's buffer. The thread does
//! not read into that buffer, because the driver may need it while the thread waits in `read`.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;

use super::descriptor::Descriptor;
use crate::sync::lock;
use crate::transport::{Inbox, Received};

/// How much is read at once.
const ROOM: usize = 64 * 1024;

/// The input as both sides know it.
#[derive(Debug, Default)]
pub(super) struct Loan {
    is_lent: AtomicBool,
    has_handed: AtomicBool,
    handed: Mutex<Handed>,
}

/// What was read and not yet taken.
#[derive(Debug, Default)]
struct Handed {
    bytes: Vec<u8>,
    /// How many of the bytes were taken.
    taken: usize,
    /// The end of the input, or why there is no more of it.
    end: Option<io::Result<()>>,
    /// Whether there may be more in the pipe, as the read took all that it had room for.
    may_have_more: bool,
}

impl Loan {
    pub(super) fn is_lent(&self) -> bool {
        self.is_lent.load(Ordering::Relaxed)
    }

    /// Moves what was handed in to the inbox; `None` if there is nothing.
    pub(super) fn take(
        &self,
        descriptor: &Descriptor,
        inbox: &mut Inbox,
    ) -> Option<io::Result<Received>> {
        if !self.has_handed.load(Ordering::Relaxed) {
            return None;
        }
        let mut handed = self.handed();
        let taken = handed.take(descriptor, inbox).transpose();
        if taken.is_none() {
            self.has_handed.store(false, Ordering::Relaxed);
        }
        taken
    }

    fn handed(&self) -> MutexGuard<'_, Handed> {
        lock(&self.handed)
    }
}

impl Handed {
    fn take(&mut self, descriptor: &Descriptor, inbox: &mut Inbox) -> io::Result<Option<Received>> {
        let rest = &self.bytes[self.taken..];
        if !rest.is_empty() {
            let space = inbox.space()?;
            let count = rest.len().min(space.capacity() - space.len());
            space.extend_from_slice(&rest[..count]);
            self.taken += count;
            return Ok(Some(Received::Data));
        }
        if let Some(end) = self.end.take() {
            return end.map(|()| Some(Received::Eof));
        }
        if !self.may_have_more {
            return Ok(None);
        }
        // A long message: the rest of it goes straight to where it belongs.
        let space = inbox.space()?;
        let room = space.capacity() - space.len();
        let read = descriptor.read(space);
        self.may_have_more = read == Ok(room);
        match read {
            Ok(0) => Ok(Some(Received::Eof)),
            Ok(_) => Ok(Some(Received::Data)),
            Err(Errno::AGAIN) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// The side of whoever lends.
#[derive(Clone, Debug)]
pub(crate) struct Lender(Arc<Loan>);

impl Lender {
    /// Takes the input from the runtime, or gives it back. The driver is to be polled after that.
    pub(crate) fn set_lent(&self, is_lent: bool) {
        self.0.is_lent.store(is_lent, Ordering::Relaxed);
    }

    /// Whether all that was handed in has been taken.
    pub(crate) fn has_all(&self) -> bool {
        !self.0.has_handed.load(Ordering::Relaxed)
    }
}

/// The side of the thread that reads.
#[derive(Debug)]
pub(crate) struct Borrower {
    loan: Arc<Loan>,
    input: OwnedFd,
    /// Read into, and then exchanged for what has been taken.
    bytes: Vec<u8>,
}

impl Borrower {
    /// `None` if this input cannot be waited for.
    pub(super) fn new(loan: Arc<Loan>, descriptor: &Descriptor) -> Option<Self> {
        Some(Borrower { loan, input: descriptor.to_wait_in()?, bytes: Vec::new() })
    }

    pub(crate) fn lender(&self) -> Lender {
        Lender(Arc::clone(&self.loan))
    }

    /// Waits for input.
    pub(crate) fn read(&mut self) -> rustix::io::Result<usize> {
        self.bytes.clear();
        self.bytes.reserve_exact(ROOM);
        rustix::io::retry_on_intr(|| {
            rustix::io::read(&self.input, rustix::buffer::spare_capacity(&mut self.bytes))
        })
    }

    /// Hands in what was read, when all of the last has been taken.
    pub(crate) fn hand_in(&mut self, read: rustix::io::Result<usize>) {
        let mut handed = self.loan.handed();
        debug_assert!(handed.taken == handed.bytes.len() && handed.end.is_none());
        std::mem::swap(&mut handed.bytes, &mut self.bytes);
        handed.taken = 0;
        (handed.end, handed.may_have_more) = match read {
            Ok(0) => (Some(Ok(())), false),
            Ok(count) => (None, count >= ROOM),
            Err(errno) => (Some(Err(errno.into())), false),
        };
        self.loan.has_handed.store(true, Ordering::Relaxed);
    }
}
