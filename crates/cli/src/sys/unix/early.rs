//! Signals that arrive during startup, before the server receives them (L4). Without this they would end the
//! process immediately and leave a socket's file behind.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// Records the signals that ask for shutdown.
pub(crate) struct EarlySignals {
    signals: [(i32, Arc<AtomicBool>); 3],
    /// True once each signal ends the process again, as it does by default.
    is_released: Arc<AtomicBool>,
}

impl EarlySignals {
    /// Stops these signals from ending the process. An ignored signal stays ignored.
    pub(crate) fn capture() -> io::Result<Self> {
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

    /// Restores the default effect of each signal, because the daemon does not start. Writing the message
    /// about that may block on a full stderr.
    pub(crate) fn release(&self) {
        self.is_released.store(true, Ordering::SeqCst);
        self.pass_on();
    }

    /// Raises the recorded signals again for their current receiver.
    pub(crate) fn pass_on(&self) {
        for (signal, came) in &self.signals {
            if came.swap(false, Ordering::SeqCst) {
                // Fails only for an invalid signal number.
                let _ = low_level::raise(*signal);
            }
        }
    }
}
