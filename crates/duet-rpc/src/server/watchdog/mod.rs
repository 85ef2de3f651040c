//! Watchdog: the thread that ends the process in time, whatever the runtime does (L5).
//!
//! A handler may block its thread or spin. On a runtime with one thread, nothing else runs then: no timer, no
//! signal, no task. So the final decision belongs to a thread outside the runtime. `sys::watch` has the events
//! that it waits for; the earliest deadline is the timeout of that wait.

mod deadline;
#[cfg(all(test, unix))]
mod signal_tests;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::panic_guard;
use crate::sync::lock;
use crate::sys::watch::{self, Events, Wake};
use crate::sys::{self, Owned, Parent, ShutdownTrigger};
use crate::threads;
use deadline::{Deadlines, WriteProgress};

pub(crate) use deadline::CountsFrom;

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
    /// The watchdog was dropped.
    is_left: AtomicBool,
    wake: Wake,
}

impl Watchdog {
    /// Starts the thread. From here on it receives the signals that ask the process to end.
    ///
    /// After a deadline the thread calls `before_forced_exit`, which must not block, and then
    /// ends the process immediately. No destructor and no exit handler runs, because a stuck thread may
    /// hold the locks that they need.
    pub(crate) fn start(
        on_trigger: OnTrigger,
        before_forced_exit: Box<dyn Fn() + Send>,
    ) -> io::Result<Watchdog> {
        let end = Box::new(sys::exit_now);
        Self::start_with_end(on_trigger, before_forced_exit, end)
    }

    fn start_with_end(
        on_trigger: OnTrigger,
        before_forced_exit: Box<dyn Fn() + Send>,
        end: Box<dyn Fn(i32) + Send>,
    ) -> io::Result<Watchdog> {
        let (wake, events) = watch::start()?;
        let alarm = Alarm(Arc::new(WatchdogShared {
            deadlines: Mutex::new(Deadlines::default()),
            progress: WriteProgress::new(),
            is_left: AtomicBool::new(false),
            wake,
        }));
        let thread =
            WatchdogThread { alarm: alarm.clone(), events, on_trigger, before_forced_exit, end };
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
        self.0.0.wake.wake();
    }
}

impl Alarm {
    /// Ends the process with this exit code after `patience`. It cannot be taken back. The earliest of
    /// several deadlines counts: a signal after the end of input leaves less time, never more.
    pub(crate) fn arm(&self, patience: Duration, counts_from: CountsFrom, code: i32) {
        self.deadlines().add(Instant::now(), patience, counts_from, code, &self.0.progress);
        self.0.wake.wake();
    }

    /// Records that bytes were sent. It is cheap enough for every write.
    pub(crate) fn progress(&self) {
        self.0.progress.now();
    }

    /// Watches this input. Its end is a trigger.
    pub(crate) fn watch(&self, input: Owned) {
        self.0.wake.watch_input(input);
    }

    /// Watches the parent. Its end is a trigger.
    pub(crate) fn watch_parent(&self, parent: Parent) {
        self.0.wake.watch_parent(parent);
    }

    /// Watches the reader of this output. Its end is a trigger.
    pub(crate) fn watch_output(&self, output: Owned) {
        self.0.wake.set_output(Some(output));
    }

    /// Closes the descriptor of the watched output.
    pub(crate) fn forget_output(&self) {
        self.0.wake.set_output(None);
    }

    fn deadlines(&self) -> std::sync::MutexGuard<'_, Deadlines> {
        lock(&self.0.deadlines)
    }
}

/// The state of the watchdog's thread.
struct WatchdogThread {
    alarm: Alarm,
    events: Events,
    on_trigger: OnTrigger,
    before_forced_exit: Box<dyn Fn() + Send>,
    end: Box<dyn Fn(i32) + Send>,
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
            let Self { alarm, events, on_trigger, .. } = &mut self;
            // If the callback panics, the deadline still counts.
            let tell = |trigger| drop(panic_guard::catch(|| on_trigger(trigger, alarm)));
            if events.tell_signals(tell) {
                // The trigger may have armed the alarm, and handling it took time.
                continue;
            }
            let time = next.map(|(at, _)| at.saturating_duration_since(Instant::now()));
            if time != Some(Duration::ZERO) {
                events.wait(&alarm.0.wake, time, tell);
            }
        }
    }

    fn end_it(&self, code: i32) {
        let _ = panic_guard::catch(|| (self.before_forced_exit)());
        (self.end)(code);
    }
}
