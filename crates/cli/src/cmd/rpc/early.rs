//! Signals that come while the daemon starts, before the server receives them (L4). They would end the
//! process at once, and what it has made by then, such as a socket's file, would stay.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// Notes the signals that ask for the end.
pub(super) struct EarlySignals {
    signals: [(i32, Arc<AtomicBool>); 3],
    /// Whether each signal ends the process, as it does by default.
    is_released: Arc<AtomicBool>,
}

impl EarlySignals {
    /// From here on none of them ends the process by itself. A signal that is ignored stays ignored.
    pub(super) fn note() -> io::Result<Self> {
        let signals = [SIGHUP, SIGINT, SIGTERM].map(|signal| (signal, Arc::default()));
        let is_released = Arc::new(AtomicBool::new(false));
        for (signal, came) in &signals {
            if duet_rpc::is_signal_ignored(*signal) {
                continue;
            }
            flag::register_conditional_default(*signal, Arc::clone(&is_released))?;
            flag::register(*signal, Arc::clone(came))?;
        }
        Ok(EarlySignals { signals, is_released })
    }

    /// Lets each signal end the process again, because the daemon does not start. The message about that may
    /// block on a full stderr.
    pub(super) fn release(&self) {
        self.is_released.store(true, Ordering::SeqCst);
        self.pass_on();
    }

    /// Sends those again that have come, to whoever receives them now.
    pub(super) fn pass_on(&self) {
        for (signal, came) in &self.signals {
            if came.swap(false, Ordering::SeqCst) {
                // It fails only for a number that is no signal.
                let _ = low_level::raise(*signal);
            }
        }
    }
}
