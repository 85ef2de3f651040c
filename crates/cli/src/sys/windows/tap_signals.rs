//! The console events of a tap. The server is in our console group, so each event reaches it without us: the tap only
//! records it, and stays until the server has ended.

use std::io;
use std::process::exit;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use duet_rpc::command_support::receive_console_events;

use super::tap_server::SignalSender;
use crate::sys::Ended;

/// The queue of the process: the console has one handler.
static ARRIVED: Mutex<Option<Sender<i32>>> = Mutex::new(None);

/// The console events, as they arrive.
// Same name: the interface of `unix/tap_signals.rs`.
pub(crate) struct TapSignals(Receiver<i32>);

impl TapSignals {
    pub(crate) fn receive() -> io::Result<Self> {
        let (tell, arrived) = channel();
        *ARRIVED.lock().unwrap_or_else(PoisonError::into_inner) = Some(tell);
        receive_console_events(|number| {
            if let Some(tell) = &*ARRIVED.lock().unwrap_or_else(PoisonError::into_inner) {
                let _ = tell.send(number);
            }
        })?;
        Ok(TapSignals(arrived))
    }

    /// Waits for the first event.
    pub(crate) fn first(&self) -> i32 {
        // The sender lives as long as the process.
        self.0.recv().unwrap_or_default()
    }

    /// Calls `before` and `after` with each event, on a thread of its own.
    pub(crate) fn pass_on(
        self,
        _: SignalSender,
        before: impl Fn(i32) + Send + 'static,
        after: impl Fn() + Send + 'static,
    ) {
        let pass_on = move || {
            for number in self.0 {
                before(number);
                after();
            }
        };
        // Without a thread, events are not recorded.
        let _ = thread::Builder::new().name("events".to_owned()).spawn(pass_on);
    }
}

/// Ends this process as the server ended.
pub(crate) fn end_like(ended: Ended) -> ! {
    exit(ended.code.unwrap_or(1))
}

/// Ends this process at a console event: each asks for that.
pub(crate) fn end_by_signal(_: i32) -> ! {
    exit(0)
}
