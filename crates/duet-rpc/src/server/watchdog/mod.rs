//! The thread that ends the process in time, whatever the runtime does (L5).
//!
//! A handler may block its thread or spin, and on a runtime of one thread nothing else moves then:
//! no timer, no signal, no task. So the last word belongs to a thread outside of the runtime. It
//! receives the signals, watches for the end of the input, of the output's reader and of the parent,
//! and waits for the deadline, in one call: it polls, with a timeout, these three and a socket, into which
//! a signal, or whoever else has news for it, writes a byte.

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

/// How long the thread rests after a read that failed for no reason known.
const REST: Duration = Duration::from_millis(10);

/// What shows that nobody can write to the input any more. That one end of a pipe is closed is
/// always told; of a socket's half it is only where one can ask for it.
#[cfg(any(target_os = "linux", target_os = "android"))]
const END: PollFlags = PollFlags::RDHUP;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const END: PollFlags = PollFlags::empty();

/// What asks the process to end.
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

/// Called on the watchdog's thread for each call. It must not block. It can arm the alarm, and
/// should: the runtime may be stuck.
pub(crate) type OnTrigger = Box<dyn Fn(ShutdownTrigger, &Alarm) + Send>;

/// Owns the watchdog's thread. When it is dropped, the thread ends and signals are no longer
/// received, unless the alarm is armed: then it stays to the end. A signal that nobody receives
/// any more is ignored, and does not end the process as it would have in the beginning.
#[derive(Debug)]
pub(crate) struct Watchdog(Alarm);

/// What tells the watchdog of a deadline. It may be cloned and sent to any thread.
#[derive(Clone, Debug)]
pub(crate) struct Alarm(Arc<WatchdogShared>);

#[derive(Debug)]
struct WatchdogShared {
    deadlines: Mutex<Deadlines>,
    progress: WriteProgress,
    /// An input to be watched, until the thread takes it.
    input: Mutex<Option<OwnedFd>>,
    /// The parent to be watched, until the thread takes it.
    parent: Mutex<Option<Parent>>,
    /// The output to be watched from now on, or that there is none any more, until the thread takes it.
    output: Mutex<Option<Option<OwnedFd>>>,
    /// The watchdog was dropped.
    is_left: AtomicBool,
    /// Never blocks.
    wake_tx: UnixStream,
}

impl Watchdog {
    /// Starts the thread, which receives SIGINT, SIGTERM and SIGHUP from here on.
    ///
    /// When a deadline has passed it calls `before_forced_exit`, which must not block, and then ends the
    /// process at once. No destructor and no exit handler runs, since a stuck thread may hold the
    /// locks that they need.
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

    /// A handle of its own.
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
    /// Ends the process with this exit code when the patience is over. It cannot be taken back,
    /// and of several deadlines the earliest counts: a signal after the end of input leaves less
    /// time, and never more.
    pub(crate) fn arm(&self, patience: Duration, counts_from: CountsFrom, code: i32) {
        self.deadlines().add(Instant::now(), patience, counts_from, code, &self.0.progress);
        self.wake();
    }

    /// Bytes have left. It is cheap enough to be called after every write.
    pub(crate) fn progress(&self) {
        self.0.progress.now();
    }

    /// Watches for the end of this input, which is a call to end.
    pub(crate) fn watch(&self, input: OwnedFd) {
        *self.input() = Some(input);
        self.wake();
    }

    /// Watches for the end of the parent, which is a call to end.
    pub(crate) fn watch_parent(&self, parent: Parent) {
        *lock(&self.0.parent) = Some(parent);
        self.wake();
    }

    /// Watches for the end of whoever reads this output, which is a call to end.
    pub(crate) fn watch_output(&self, output: OwnedFd) {
        self.set_output(Some(output));
    }

    /// Closes the descriptor of the output that is watched.
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

    /// Makes the thread look again. If there is no room for a byte, it has enough to wake from.
    fn wake(&self) {
        let _ = (&self.0.wake_tx).write(&[0]);
    }
}

/// What the thread has.
struct WatchdogThread {
    alarm: Alarm,
    signals: Signals,
    on_trigger: OnTrigger,
    before_forced_exit: Box<dyn Fn() + Send>,
    end: Box<dyn Fn(i32) + Send>,
    wake_rx: UnixStream,
    /// The input, until its end is seen.
    input: Option<OwnedFd>,
    /// The same of the parent.
    parent: Option<Parent>,
    /// The same of the output.
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
                // That may have armed it, and took time.
                continue;
            }
            self.wait(next.map(|(at, _)| at));
        }
    }

    /// Whether there were any.
    fn tell_signals(&self) -> bool {
        let mut any = false;
        for signal in self.signals.take() {
            any = true;
            self.tell(ShutdownTrigger::Signal(signal));
        }
        any
    }

    fn tell(&self, trigger: ShutdownTrigger) {
        // If it panics, the deadline must still be kept.
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
            // It cannot be, and if it is, the thread must neither end nor spin.
            Err(_) => thread::sleep(REST),
        }
    }

    /// Waits for a wake byte, the end of the input or of the parent, or the time; `true` for the byte.
    fn poll(&mut self, time: Option<Duration>) -> rustix::io::Result<bool> {
        if let Some(input) = self.alarm.input().take() {
            self.input = Some(input);
        }
        let parent = lock(&self.alarm.0.parent).take();
        if let Some(parent) = parent {
            // It may have ended before its watch was set, or have lost its pid to another.
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
        // A time that is rounded down would make this spin; one that does not fit is no time.
        let time = time.map(|time| time + Duration::from_millis(1));
        let time = time.and_then(|time| rustix::event::Timespec::try_from(time).ok());
        // What is not there is never ready: its place is taken by `wake_rx`, polled for nothing.
        let nothing = || PollFd::new(&self.wake_rx, PollFlags::empty());
        let input = self.input.as_ref().map(|input| PollFd::new(input, END));
        let parent = self.parent.as_ref().and_then(Parent::fd);
        let parent = parent.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        // That nobody reads any more is told unasked: as an error of a pipe, as the end of a socket.
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
        // Behind the input: whoever closes both is gone, which is no fault.
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
