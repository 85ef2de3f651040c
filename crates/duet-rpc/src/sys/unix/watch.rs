//! The events that the watchdog waits for, in one `poll` call: stdin, stdout, the parent process and a socket, with
//! the deadline as the timeout. A signal, or a thread that changes a deadline, writes a byte into that socket.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

use super::signals::Signals;
use super::{Owned, Parent};
use crate::sync::lock;
use crate::sys::ShutdownTrigger;

/// The pause after a read that failed for an unknown reason.
const REST: Duration = Duration::from_millis(10);

/// The poll flag that reports the end of the input. The system always reports a closed pipe. It reports
/// the closed half of a socket only with this flag.
#[cfg(any(target_os = "linux", target_os = "android"))]
const END: PollFlags = PollFlags::RDHUP;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const END: PollFlags = PollFlags::empty();

/// The handle that wakes the watchdog, and gives it things to watch.
#[derive(Debug)]
// Same name: `windows/watch.rs` has the same interface, for systems without `poll`.
pub(crate) struct Wake {
    /// An input to watch, until the thread takes it.
    input: Mutex<Option<Owned>>,
    /// The parent to watch, until the thread takes it.
    parent: Mutex<Option<Parent>>,
    /// The output to watch from now on, or `None` to stop watching, until the thread takes it.
    output: Mutex<Option<Option<Owned>>>,
    /// It never blocks.
    wake_tx: UnixStream,
}

/// The events, for the thread that waits for them.
// Same name: `windows/watch.rs` has the same interface, for systems without `poll`.
pub(crate) struct Events {
    signals: Signals,
    wake_rx: UnixStream,
    /// The input, until it ends.
    input: Option<Owned>,
    /// The parent, until it ends.
    parent: Option<Parent>,
    /// The output, until its reader is gone.
    output: Option<Owned>,
}

/// Begins to receive signals.
pub(crate) fn start() -> io::Result<(Wake, Events)> {
    let (wake_rx, wake_tx) = UnixStream::pair()?;
    wake_tx.set_nonblocking(true)?;
    let signals = Signals::receive(&wake_tx)?;
    let (input, parent, output) = (Mutex::new(None), Mutex::new(None), Mutex::new(None));
    let wake = Wake { input, parent, output, wake_tx };
    Ok((wake, Events { signals, wake_rx, input: None, parent: None, output: None }))
}

impl Wake {
    /// Wakes the thread. If the socket has no room for a byte, an earlier byte wakes it.
    pub(crate) fn wake(&self) {
        let _ = (&self.wake_tx).write(&[0]);
    }

    pub(crate) fn watch_input(&self, input: Owned) {
        *lock(&self.input) = Some(input);
        self.wake();
    }

    pub(crate) fn watch_parent(&self, parent: Parent) {
        *lock(&self.parent) = Some(parent);
        self.wake();
    }

    /// Watches this output, or closes the descriptor of the watched one.
    pub(crate) fn set_output(&self, output: Option<Owned>) {
        *lock(&self.output) = Some(output);
        self.wake();
    }
}

impl Events {
    /// Reports the signals that have arrived. Returns `true` if there were any.
    pub(crate) fn tell_signals(&mut self, tell: impl Fn(ShutdownTrigger)) -> bool {
        let mut any = false;
        for signal in self.signals.take() {
            any = true;
            tell(ShutdownTrigger::Signal(signal));
        }
        any
    }

    /// Waits for an event or the timeout, and reports the event.
    pub(crate) fn wait(
        &mut self,
        wake: &Wake,
        time: Option<Duration>,
        tell: impl Fn(ShutdownTrigger),
    ) {
        match self.poll(wake, time, tell) {
            Ok(true) => self.listen(),
            Ok(false) => {}
            // This error should not occur. If it does, the thread must neither end nor spin.
            Err(_) => thread::sleep(REST),
        }
    }

    /// Waits for a wake byte, the end of the input, the output or the parent, or the timeout. Returns `true`
    /// for a wake byte.
    fn poll(
        &mut self,
        wake: &Wake,
        time: Option<Duration>,
        tell: impl Fn(ShutdownTrigger),
    ) -> rustix::io::Result<bool> {
        if let Some(input) = lock(&wake.input).take() {
            self.input = Some(input);
        }
        let parent = lock(&wake.parent).take();
        if let Some(parent) = parent {
            // The parent may have ended before the watch began, and its pid may belong to another
            // process.
            match parent.is_gone() {
                true => tell(ShutdownTrigger::ParentEnded),
                false => self.parent = Some(parent),
            }
        }
        if let Some(output) = lock(&wake.output).take() {
            self.output = output;
        }
        let glance = self.parent.as_ref().and_then(Parent::glance);
        let time = [time, glance].into_iter().flatten().min();
        // Rounded up, because a timeout that is rounded down would make this spin. A timeout that does not
        // fit counts as none.
        let time = time.map(|time| time + Duration::from_millis(1));
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        // `wake_rx` without poll flags takes the slot of a missing descriptor, so that the slot is never
        // ready.
        let nothing = || PollFd::new(&self.wake_rx, PollFlags::empty());
        let input = self.input.as_ref().map(|input| PollFd::new(input, END));
        let parent = self.parent.as_ref().and_then(Parent::fd);
        let parent = parent.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        // The system reports a lost reader without a flag: as an error of a pipe, as a hang-up of a
        // socket.
        let output = self.output.as_ref().map(|output| PollFd::new(output, PollFlags::empty()));
        let mut fds = [
            PollFd::new(&self.wake_rx, PollFlags::IN),
            input.unwrap_or_else(nothing),
            parent.unwrap_or_else(nothing),
            output.unwrap_or_else(nothing),
        ];
        retry_on_intr(|| poll(&mut fds, time.as_ref()))?;
        let [is_woken, has_ended, is_told, is_unread] = fds.map(|fd| !fd.revents().is_empty());
        if self.input.take_if(|_| has_ended).is_some() {
            tell(ShutdownTrigger::InputEnded);
        }
        if self.parent.take_if(|parent| is_told || parent.is_gone()).is_some() {
            tell(ShutdownTrigger::ParentEnded);
        }
        // Checked after the input: a client that closes both has ended normally.
        if self.output.take_if(|_| is_unread).is_some() {
            tell(ShutdownTrigger::OutputEnded);
        }
        Ok(is_woken)
    }

    /// Reads the wake bytes.
    fn listen(&mut self) {
        match self.wake_rx.read(&mut [0; 64]).map_err(|error| error.kind()) {
            Ok(1..) | Err(ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Ok(0) | Err(_) => thread::sleep(REST),
        }
    }
}
