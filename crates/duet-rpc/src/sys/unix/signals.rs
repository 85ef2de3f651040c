//! The signals that ask the process to end (L4).

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::{SigId, flag, low_level};

/// A signal that asks the process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The user pressed Ctrl-C.
    Interrupt,
    /// Another process asks this one to end.
    Terminate,
    /// The terminal is gone.
    HangUp,
}

impl Signal {
    const ALL: [Signal; 3] = [Signal::Interrupt, Signal::Terminate, Signal::HangUp];

    /// The usual name of the signal.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Signal::Interrupt => "SIGINT",
            Signal::Terminate => "SIGTERM",
            Signal::HangUp => "SIGHUP",
        }
    }

    /// Returns `true` for the signal that makes servers read their configuration again.
    pub(crate) fn means_reload(self) -> bool {
        self == Signal::HangUp
    }

    pub(crate) fn number(self) -> i32 {
        match self {
            Signal::Interrupt => SIGINT,
            Signal::Terminate => SIGTERM,
            Signal::HangUp => SIGHUP,
        }
    }
}

/// Receives the signals until it is dropped.
pub(crate) struct Signals {
    came: [Arc<AtomicBool>; Signal::ALL.len()],
    registered: Vec<SigId>,
}

impl Signals {
    /// Records each signal, and then writes a byte to `wake_tx`. A signal that was ignored when the process
    /// started, as SIGHUP is under `nohup`, stays ignored.
    pub(crate) fn receive(wake_tx: &UnixStream) -> io::Result<Self> {
        let mut signals = Signals { came: Default::default(), registered: Vec::new() };
        // If stdout is a file at its size limit, the write fails like any other, and no signal ends the
        // process.
        signals.registered.push(flag::register(SIGXFSZ, Arc::default())?);
        for (signal, came) in Signal::ALL.into_iter().zip(&signals.came) {
            if is_ignored(signal.number()) {
                continue;
            }
            // Actions run in the order of registration, so the thread that `wake_tx` wakes finds the recorded
            // signal.
            signals.registered.push(flag::register(signal.number(), Arc::clone(came))?);
            let wake_tx = wake_tx.try_clone()?;
            signals.registered.push(low_level::pipe::register(signal.number(), wake_tx)?);
        }
        // A pending signal arrives now.
        unblock();
        Ok(signals)
    }

    /// The signals that have arrived since the last call.
    pub(crate) fn take(&self) -> impl Iterator<Item = Signal> {
        let all = Signal::ALL.into_iter().zip(&self.came);
        all.filter(|(_, came)| came.swap(false, Ordering::SeqCst)).map(|(signal, _)| signal)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            low_level::unregister(id);
        }
    }
}

/// Unblocks the signals. A process inherits its mask of blocked signals, and some parents forget to clear
/// it.
fn unblock() {
    use nix::sys::signal::{SigSet, Signal};

    let signals = SigSet::from_iter([Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM]);
    // It fails only for an invalid set.
    let _ = signals.thread_unblock();
}

/// Returns `true` if the process was started with this signal ignored.
///
/// The system call for this needs unsafe code, so this reads the mask that Linux shows in `/proc`, once. Its
/// lowest bit is signal 1. Elsewhere it returns `false`.
pub fn is_ignored(signal: i32) -> bool {
    static MASK: LazyLock<u64> = LazyLock::new(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
    });
    *MASK >> (signal - 1) & 1 == 1
}
