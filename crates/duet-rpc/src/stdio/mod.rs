//! Stdio: the standard input and output of this process.
//!
//! On Unix, the runtime itself drives pipes and sockets, which most clients use (`sys/unix/polled.rs`). Files and
//! terminals, which no runtime can wait for, and everything on Windows have a plain thread for each direction
//! ([`threaded`]). Neither keeps the
//! process alive (T4).

// Only stdio that is polled hands over.
#[cfg_attr(windows, expect(dead_code))]
pub(crate) mod handoff;
#[cfg(all(test, unix))]
mod tests;
mod threaded;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use tokio::runtime::Handle;

use crate::sys::{Descriptor, Owned, polled, standard};
use crate::transport::{ExitReport, Inbox, Outbox, Received, Transport};
use handoff::Handoff;

/// `true` once the standard input and output of this process have been taken.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// A transport over the standard input and output of this process.
///
/// ```no_run
/// # async fn run() -> std::io::Result<()> {
/// use duet_rpc::transport::Stdio;
///
/// let transport = Stdio::take()?;
/// println!("This goes to stderr now, and the client never sees it.");
/// # drop(transport);
/// # Ok(())
/// # }
/// ```
pub struct Stdio {
    /// `None` once it is closed, like `output`.
    input: Option<StdioInput>,
    output: Option<StdioOutput>,
    restore: Restore,
}

enum StdioInput {
    Polled(polled::StdinReader),
    Threaded(threaded::StdinReader),
}

enum StdioOutput {
    Polled(polled::StdoutWriter),
    Threaded(threaded::StdoutWriter),
}

impl Stdio {
    /// Takes the standard input and output for itself.
    ///
    /// From here on, other output of the process (`println!`) goes to stderr, so that it cannot come
    /// between two messages. Other readers of stdin, such as a child that a handler starts, get an empty
    /// input. A second call is an error.
    ///
    /// # Panics
    ///
    /// In a tokio runtime that was built without its I/O driver.
    pub fn take() -> io::Result<Self> {
        if TAKEN.swap(true, Ordering::AcqRel) {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "the standard input and output are taken already",
            ));
        }
        // A failure has changed nothing, so the caller may try again.
        take_descriptors().inspect_err(|_| TAKEN.store(false, Ordering::Release))
    }

    pub(crate) fn over(input: Owned, output: Owned) -> io::Result<Self> {
        // Without a runtime tokio would panic.
        Handle::try_current().map_err(io::Error::other)?;
        let input = Arc::new(Descriptor::new(input)?);
        let output = Arc::new(Descriptor::new(output)?);
        let restore = Restore { input: Arc::downgrade(&input), output: Arc::downgrade(&output) };
        let input = match input.can_be_polled() {
            true => StdioInput::Polled(polled::StdinReader::new(input)?),
            false => StdioInput::Threaded(threaded::StdinReader::start(input)?),
        };
        let output = match output.can_be_polled() {
            true => StdioOutput::Polled(polled::StdoutWriter::new(output)?),
            false => StdioOutput::Threaded(threaded::StdoutWriter::start(output)?),
        };
        Ok(Stdio { input: Some(input), output: Some(output), restore })
    }

    /// Reports the end of the input to a thread outside the runtime. If this returns a descriptor, the caller
    /// polls it. Otherwise the reading thread calls `tell`.
    pub(crate) fn watch_end(
        &self,
        tell: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Option<Owned>> {
        match &self.input {
            Some(StdioInput::Polled(input)) => input.duplicate().map(Some),
            Some(StdioInput::Threaded(input)) => {
                input.on_end(Box::new(tell));
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// A duplicate of the output's descriptor, to watch for a lost reader.
    pub(crate) fn duplicate_output(&self) -> Option<Owned> {
        self.restore.output.upgrade()?.duplicate_to_watch()
    }

    /// The hand-off to a thread that waits for the input, and the descriptor for that wait, if it is
    /// possible.
    pub(crate) fn handoff(&self) -> Option<(Arc<Handoff>, Owned)> {
        match &self.input {
            Some(StdioInput::Polled(input)) => input.handoff(),
            Some(StdioInput::Threaded(_)) | None => None,
        }
    }

    /// A handle that restores the descriptors' flags, for a forced exit, which drops nothing.
    pub(crate) fn restorer(&self) -> Restore {
        self.restore.clone()
    }

    /// Restores the descriptors' flags. Dropping this does it too.
    pub fn put_back(&self) {
        self.restore.put_back();
    }
}

fn take_descriptors() -> io::Result<Stdio> {
    let (input, output) = standard::duplicate()?;
    let stdio = Stdio::over(input, output)?;
    standard::redirect()?;
    Ok(stdio)
}

/// Redirects stdin and stdout for a server on sockets. Returns the real stdout, which nothing writes to. Keep
/// it open: the parent process treats its end as the end of this process, and Emacs loops if one of the two
/// is closed without the other.
pub(crate) fn set_stdio_aside() -> io::Result<Owned> {
    let output = standard::duplicate_output()?;
    standard::redirect()?;
    Ok(output)
}

impl Transport for Stdio {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        match &mut self.input {
            Some(StdioInput::Polled(input)) => input.poll_receive(cx, inbox),
            Some(StdioInput::Threaded(input)) => input.poll_receive(cx, inbox),
            None => Poll::Ready(Ok(Received::Eof)),
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        match &mut self.output {
            Some(StdioOutput::Polled(output)) => output.poll_send(cx, outbox),
            Some(StdioOutput::Threaded(output)) => output.poll_send(cx, outbox),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.input {
            Some(StdioInput::Polled(input)) => input.poll_remote_closed(cx),
            Some(StdioInput::Threaded(input)) => input.poll_remote_closed(cx),
            None => Poll::Ready(()),
        }
    }

    fn poll_reader_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.output {
            Some(StdioOutput::Polled(output)) => output.poll_reader_gone(cx),
            Some(StdioOutput::Threaded(_)) => Poll::Pending,
            None => Poll::Ready(()),
        }
    }

    fn poll_close(&mut self, _cx: &mut Context<'_>) -> Poll<ExitReport> {
        self.put_back();
        self.input = None;
        self.output = None;
        Poll::Ready(ExitReport::default())
    }
}

impl fmt::Debug for Stdio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdio").finish_non_exhaustive()
    }
}

/// Restores the flags of a [`Stdio`]'s descriptors.
///
/// A descriptor's flags belong to every process that shares it: a shell whose terminal or pipe
/// was left non-blocking would fail to read. It may be used from any thread, any number of times,
/// and does nothing once the `Stdio` is gone. It does not keep the descriptors open.
#[derive(Clone, Debug)]
pub(crate) struct Restore {
    input: Weak<Descriptor>,
    output: Weak<Descriptor>,
}

impl Restore {
    /// Restores them. Sending and receiving may block afterwards.
    pub(crate) fn put_back(&self) {
        for descriptor in [&self.input, &self.output] {
            if let Some(descriptor) = descriptor.upgrade() {
                descriptor.put_back();
            }
        }
    }
}
