//! The events that the watchdog waits for: a queue with a condition variable. The console, the thread that waits for the
//! parent process and the thread that reads stdin put events into it.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::{Owned, Parent, Signal, calls};
use crate::sync::lock;
use crate::sys::ShutdownTrigger;
use crate::threads;

/// The queue of the process's watchdog. The console has one handler for the whole process.
static CONSOLE: Mutex<Option<Arc<EventQueue>>> = Mutex::new(None);

#[derive(Debug, Default)]
struct EventQueue {
    state: Mutex<EventQueueState>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct EventQueueState {
    triggers: Vec<ShutdownTrigger>,
    is_woken: bool,
}

impl EventQueue {
    fn push(&self, trigger: ShutdownTrigger) {
        lock(&self.state).triggers.push(trigger);
        self.news.notify_all();
    }
}

/// The handle that wakes the watchdog, and gives it things to watch.
#[derive(Debug)]
// Same name: the interface of `unix/watch.rs`.
pub(crate) struct Wake(Arc<EventQueue>);

/// The events, for the thread that waits for them.
// Same name: the interface of `unix/watch.rs`.
pub(crate) struct Events(Arc<EventQueue>);

/// Begins to receive console events.
pub(crate) fn start() -> io::Result<(Wake, Events)> {
    let queue = Arc::<EventQueue>::default();
    let is_first = lock(&CONSOLE).replace(Arc::clone(&queue)).is_none();
    if is_first {
        calls::receive_console_events(handle_console_event)?;
    }
    Ok((Wake(Arc::clone(&queue)), Events(queue)))
}

/// Runs on a thread of the system. Without a watchdog the event has no effect.
fn handle_console_event(event: u32) {
    let signal = Signal::new(event);
    if let Some(queue) = lock(&CONSOLE).as_ref() {
        queue.push(ShutdownTrigger::Signal(signal));
    }
    while signal.ends_with_its_handler() {
        // The watchdog ends the process; returning would end it now.
        thread::park();
    }
}

impl Wake {
    pub(crate) fn wake(&self) {
        lock(&self.0.state).is_woken = true;
        self.0.news.notify_all();
    }

    /// Nothing can watch a handle for its end: the thread that reads it reports the end.
    pub(crate) fn watch_input(&self, input: Owned) {
        drop(input);
    }

    /// Waits for the parent on a thread, which ends with the process.
    pub(crate) fn watch_parent(&self, parent: Parent) {
        let queue = Arc::clone(&self.0);
        let wait = move || {
            parent.wait();
            queue.push(ShutdownTrigger::ParentEnded);
        };
        if threads::spawn("duet-rpc parent", wait).is_err() {
            tracing::warn!("cannot watch the parent process: no thread can start");
        }
    }

    /// Nothing reports a lost reader. The next write does.
    pub(crate) fn set_output(&self, output: Option<Owned>) {
        drop(output);
    }
}

impl Events {
    /// Reports the events that have arrived. Returns `true` if there were any.
    pub(crate) fn tell_signals(&mut self, tell: impl Fn(ShutdownTrigger)) -> bool {
        let triggers = std::mem::take(&mut lock(&self.0.state).triggers);
        triggers.iter().for_each(|trigger| tell(*trigger));
        !triggers.is_empty()
    }

    /// Waits for an event or the timeout. `tell_signals` reports the event.
    pub(crate) fn wait(&mut self, _: &Wake, time: Option<Duration>, _: impl Fn(ShutdownTrigger)) {
        let is_idle = |state: &mut EventQueueState| !state.is_woken && state.triggers.is_empty();
        let state = lock(&self.0.state);
        let mut state = match time {
            Some(time) => {
                let waited = self.0.news.wait_timeout_while(state, time, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let waited = self.0.news.wait_while(state, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner)
            }
        };
        state.is_woken = false;
    }
}
