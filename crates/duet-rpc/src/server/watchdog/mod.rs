//! Watchdog: the thread that ends the process in time, whatever the runtime does (L5).
//!
//! A handler may block its thread or spin. On a runtime with one thread, nothing else runs then: no timer, no
//! signal, no task. So the final decision belongs to a thread outside the runtime. That thread waits for
//! everything in one `poll` call: stdin, stdout, the parent process and a socket, with the deadline as the
//! timeout. A signal, or a thread that changes a deadline, writes a byte into that socket.

mod deadline;
mod parent;
mod signals;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::retry_on_intr;

use crate::panic_guard;
use crate::sync::lock;
use crate::threads;
use deadline::{Deadlines, WriteProgress};
use signals::Signals;

pub(crate) use deadline::CountsFrom;
pub use parent::Parent;
pub(crate) use signals::Signal;
pub use signals::is_ignored;

/// The pause after a read that failed for an unknown reason.
const REST: Duration = Duration::from_millis(10);

/// The poll flag that reports the end of the input. The system always reports a closed pipe. It reports
/// the closed half of a socket only with this flag.
#[cfg(any(target_os = "linux", target_os = "android"))]
const END: PollFlags = PollFlags::RDHUP;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const END: PollFlags = PollFlags::empty();

/// An event that asks the process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShutdownTrigger {
    Signal(Signal),
    ParentEnded,
    InputEnded,
    OutputEnded,
}

impl fmt::Display for ShutdownTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShutdownTrigger::Signal(signal) => write!(f, "received {}", signal.name()),
            ShutdownTrigger::ParentEnded => f.write_str("the parent process has ended"),
            ShutdownTrigger::InputEnded => f.write_str("stdin closed"),
            ShutdownTrigger::OutputEnded => f.write_str("stdout closed"),
        }
    }
}

/// Called on the watchdog's thread for each trigger. It must not block. It should arm the alarm, because
/// the runtime may be stuck.
pub(crate) type OnTrigger = Box<dyn Fn(ShutdownTrigger, &Alarm) + Send>;

/// Owns the watchdog's thread. When it is dropped, the thread ends, unless the alarm is armed: then the
/// thread runs until the process ends. After the thread has ended, the process ignores the signals.
#[derive(Debug)]
pub(crate) struct Watchdog(Alarm);

/// The handle that sets the watchdog's deadlines. It may be cloned and sent to any thread.
#[derive(Clone, Debug)]
pub(crate) struct Alarm(Arc<WatchdogShared>);

#[derive(Debug)]
struct WatchdogShared {
    deadlines: Mutex<Deadlines>,
    progress: WriteProgress,
    /// An input to watch, until the thread takes it.
    input: Mutex<Option<OwnedFd>>,
    /// The parent to watch, until the thread takes it.
    parent: Mutex<Option<Parent>>,
    /// The output to watch from now on, or `None` to stop watching, until the thread takes it.
    output: Mutex<Option<Option<OwnedFd>>>,
    /// The watchdog was dropped.
    is_left: AtomicBool,
    /// Wakes the thread. It never blocks.
    wake_tx: UnixStream,
}

impl Watchdog {
    /// Starts the thread. From here on it receives SIGINT, SIGTERM and SIGHUP.
    ///
    /// After a deadline the thread calls `before_forced_exit`, which must not block, and then
    /// ends the process immediately. No destructor and no exit handler runs, because a stuck thread may
    /// hold the locks that they need.
    pub(crate) fn start(
        on_trigger: OnTrigger,
        before_forced_exit: Box<dyn Fn() + Send>,
    ) -> io::Result<Watchdog> {
        let end = Box::new(|code| signal_hook::low_level::exit(code));
        Self::start_with_end(on_trigger, before_forced_exit, end)
    }

    fn start_with_end(
        on_trigger: OnTrigger,
        before_forced_exit: Box<dyn Fn() + Send>,
        end: Box<dyn Fn(i32) + Send>,
    ) -> io::Result<Watchdog> {
        let (wake_rx, wake_tx) = UnixStream::pair()?;
        wake_tx.set_nonblocking(true)?;
        let signals = Signals::receive(&wake_tx)?;
        let alarm = Alarm(Arc::new(WatchdogShared {
            deadlines: Mutex::new(Deadlines::default()),
            progress: WriteProgress::new(),
            input: Mutex::new(None),
            parent: Mutex::new(None),
            output: Mutex::new(None),
            is_left: AtomicBool::new(false),
            wake_tx,
        }));
        let (input, parent, output) = (None, None, None);
        let alarm_of_thread = alarm.clone();
        let thread = WatchdogThread {
            alarm: alarm_of_thread,
            signals,
            on_trigger,
            before_forced_exit,
            end,
            wake_rx,
            input,
            parent,
            output,
        };
        threads::spawn("duet-rpc watchdog", move || thread.watch())?;
        Ok(Watchdog(alarm))
    }

    /// Returns a handle of its own.
    pub(crate) fn alarm(&self) -> Alarm {
        self.0.clone()
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.0.is_left.store(true, Ordering::Release);
        self.0.wake();
    }
}

impl Alarm {
    /// Ends the process with this exit code after `patience`. It cannot be taken back. The earliest of
    /// several deadlines counts: a signal after the end of input leaves less time, never more.
    pub(crate) fn arm(&self, patience: Duration, counts_from: CountsFrom, code: i32) {
        self.deadlines().add(Instant::now(), patience, counts_from, code, &self.0.progress);
        self.wake();
    }

    /// Records that bytes were sent. It is cheap enough for every write.
    pub(crate) fn progress(&self) {
        self.0.progress.now();
    }

    /// Watches this input. Its end is a trigger.
    pub(crate) fn watch(&self, input: OwnedFd) {
        *self.input() = Some(input);
        self.wake();
    }

    /// Watches the parent. Its end is a trigger.
    pub(crate) fn watch_parent(&self, parent: Parent) {
        *lock(&self.0.parent) = Some(parent);
        self.wake();
    }

    /// Watches the reader of this output. Its end is a trigger.
    pub(crate) fn watch_output(&self, output: OwnedFd) {
        self.set_output(Some(output));
    }

    /// Closes the descriptor of the watched output.
    pub(crate) fn forget_output(&self) {
        self.set_output(None);
    }

    fn set_output(&self, output: Option<OwnedFd>) {
        *lock(&self.0.output) = Some(output);
        self.wake();
    }

    fn input(&self) -> std::sync::MutexGuard<'_, Option<OwnedFd>> {
        lock(&self.0.input)
    }

    fn deadlines(&self) -> std::sync::MutexGuard<'_, Deadlines> {
        lock(&self.0.deadlines)
    }

    /// Wakes the thread. If the socket has no room for a byte, an earlier byte wakes it.
    fn wake(&self) {
        let _ = (&self.0.wake_tx).write(&[0]);
    }
}

/// The state of the watchdog's thread.
struct WatchdogThread {
    alarm: Alarm,
    signals: Signals,
    on_trigger: OnTrigger,
    before_forced_exit: Box<dyn Fn() + Send>,
    end: Box<dyn Fn(i32) + Send>,
    wake_rx: UnixStream,
    /// The input, until it ends.
    input: Option<OwnedFd>,
    /// The parent, until it ends.
    parent: Option<Parent>,
    /// The output, until its reader is gone.
    output: Option<OwnedFd>,
}

impl WatchdogThread {
    fn watch(mut self) {
        loop {
            let is_left = self.alarm.0.is_left.load(Ordering::Acquire);
            let next = self.alarm.deadlines().next(&self.alarm.0.progress);
            match next {
                None if is_left => return,
                Some((at, code)) if at <= Instant::now() => return self.end_it(code),
                _ => {}
            }
            if self.tell_signals() {
                // The trigger may have armed the alarm, and handling it took time.
                continue;
            }
            self.wait(next.map(|(at, _)| at));
        }
    }

    /// Returns `true` if there were any signals.
    fn tell_signals(&self) -> bool {
        let mut any = false;
        for signal in self.signals.take() {
            any = true;
            self.tell(ShutdownTrigger::Signal(signal));
        }
        any
    }

    fn tell(&self, trigger: ShutdownTrigger) {
        // If the callback panics, the deadline still counts.
        let _ = panic_guard::catch(|| (self.on_trigger)(trigger, &self.alarm));
    }

    fn wait(&mut self, until: Option<Instant>) {
        let time = until.map(|at| at.saturating_duration_since(Instant::now()));
        if time == Some(Duration::ZERO) {
            return;
        }
        match self.poll(time) {
            Ok(true) => self.listen(),
            Ok(false) => {}
            // This error should not occur. If it does, the thread must neither end nor spin.
            Err(_) => thread::sleep(REST),
        }
    }

    /// Waits for a wake byte, the end of the input, the output or the parent, or the timeout. Returns `true`
    /// for a wake byte.
    fn poll(&mut self, time: Option<Duration>) -> rustix::io::Result<bool> {
        if let Some(input) = self.alarm.input().take() {
            self.input = Some(input);
        }
        let parent = lock(&self.alarm.0.parent).take();
        if let Some(parent) = parent {
            // The parent may have ended before the watch began, and its pid may belong to another
            // process.
            match parent.is_gone() {
                true => self.tell(ShutdownTrigger::ParentEnded),
                false => self.parent = Some(parent),
            }
        }
        if let Some(output) = lock(&self.alarm.0.output).take() {
            self.output = output;
        }
        let glance = self.parent.as_ref().and_then(Parent::glance);
        let time = [time, glance].into_iter().flatten().min();
        // Rounded up, because a timeout that is rounded down would make this spin. A timeout that does not
        // fit counts as none.
        let time = time.map(|time| time + Duration::from_millis(1));
        let time = time.and_then(|time| rustix::event::Timespec::try_from(time).ok());
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
        retry_on_intr(|| rustix::event::poll(&mut fds, time.as_ref()))?;
        let [is_woken, has_ended, is_told, is_unread] = fds.map(|fd| !fd.revents().is_empty());
        if self.input.take_if(|_| has_ended).is_some() {
            self.tell(ShutdownTrigger::InputEnded);
        }
        if self.parent.take_if(|parent| is_told || parent.is_gone()).is_some() {
            self.tell(ShutdownTrigger::ParentEnded);
        }
        // Checked after the input: a client that closes both has ended normally.
        if self.output.take_if(|_| is_unread).is_some() {
            self.tell(ShutdownTrigger::OutputEnded);
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

    fn end_it(&self, code: i32) {
        let _ = panic_guard::catch(|| (self.before_forced_exit)());
        (self.end)(code);
    }
}
