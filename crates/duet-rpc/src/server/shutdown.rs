//! Shutdown: the triggers that ask the process to end, and the watchdog that enforces the end.
//!
//! | trigger | the connection | the forced exit counts from | exit code of a forced exit |
//! |---|---|---|---|
//! | stdin ends | detects it itself, and drains | the last byte that the client read | 0 |
//! | stdout has no reader | is closed, unless stdin ends too | the trigger | 1 |
//! | a signal, or the parent ends | is closed | the trigger | 0 |
//! | SIGHUP, if a listener has TLS | is not touched: the certificates are read again | – | – |
//!
//! `connection/closing.rs` has the times.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use tokio::sync::Notify;

use super::exit_hook::{ExitHook, run_within};
use super::watchdog::{Alarm, CountsFrom, Watchdog};
use crate::connection::closing::{
    FORCED_EXIT, LAST_MOMENT, LOG_IF_STUCK, PROGRAMS_END, STDIN_FOLLOWS,
};
use crate::net::at_exit;
use crate::panic_guard;
use crate::peer::Peer;
use crate::sys::ShutdownTrigger;
use crate::threads;

/// Replaces the effect of SIGHUP.
pub(super) type OnHangUp = Arc<dyn Fn() + Send + Sync>;

/// Removes files and restores flags. It must not block, and may run more than once.
type CleanUp = Box<dyn Fn() + Send + Sync>;

/// The watchdog, and its link to the connection.
pub(super) struct ShutdownWatch {
    pub(super) alarm: Alarm,
    pub(super) triggers: Arc<Triggers>,
    clean_up: Arc<OnceLock<CleanUp>>,
    /// Dropping this ends the thread.
    _watchdog: Watchdog,
}

/// The triggers so far. A trigger may come before there is a connection to close.
#[derive(Default)]
pub(super) struct Triggers {
    /// Begins to close the connection or the hub.
    close: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// The first trigger other than the end of stdin.
    first: OnceLock<ShutdownTrigger>,
    is_logged: AtomicBool,
    input_has_ended: AtomicBool,
    end_is_logged: AtomicBool,
    /// Notified when stdout has lost its reader.
    output_ended: Notify,
    /// `true` if the connection was closed because stdout has no reader.
    is_unread: AtomicBool,
}

impl Triggers {
    /// Logs each trigger once.
    pub(super) fn log(&self) {
        if self.input_has_ended.load(Ordering::Relaxed) {
            log_once(ShutdownTrigger::InputEnded, &self.end_is_logged);
        }
        if let Some(trigger) = self.first.get() {
            log_once(*trigger, &self.is_logged);
        }
    }

    /// Returns `true` if the connection was closed because stdout has no reader.
    pub(super) fn is_unread(&self) -> bool {
        self.is_unread.load(Ordering::Relaxed)
    }

    pub(super) fn handle_end(&self) {
        self.input_has_ended.store(true, Ordering::Relaxed);
        log_once(ShutdownTrigger::InputEnded, &self.end_is_logged);
    }
}

fn log_once(trigger: ShutdownTrigger, is_logged: &AtomicBool) {
    if !is_logged.swap(true, Ordering::Relaxed) {
        tracing::info!("{trigger}, shutting down gracefully");
    }
}

/// Logs the triggers from another thread if the connection is stuck. The watchdog does not log them,
/// because writing a log may block.
fn log_if_stuck(triggers: &Arc<Triggers>) {
    let triggers = Arc::clone(triggers);
    let log = move || {
        thread::sleep(LOG_IF_STUCK);
        let _ = panic_guard::catch(|| triggers.log());
    };
    // If no thread can start, this record is not written.
    let _ = threads::spawn("duet-rpc shutdown log", log);
}

/// Kills the programs that handlers have started and that still run shortly before the forced exit. At
/// the exit itself there may be too little time to find all of their processes.
fn end_programs_in_time() {
    let end = || {
        thread::sleep(PROGRAMS_END);
        at_exit::kill_all(FORCED_EXIT - PROGRAMS_END);
    };
    // If no thread can start, the forced exit kills only the processes that it finds in its short time.
    let _ = threads::spawn("duet-rpc programs", end);
}

impl ShutdownWatch {
    pub(super) fn start(
        exit_hook: Option<ExitHook>,
        on_hang_up: Option<OnHangUp>,
    ) -> io::Result<Self> {
        let (triggers, clean_up) =
            (Arc::<Triggers>::default(), Arc::<OnceLock<CleanUp>>::default());
        let (heard, to_clean_up) = (Arc::clone(&triggers), Arc::clone(&clean_up));
        let on_trigger = move |trigger, alarm: &Alarm| {
            let is_new = match trigger {
                // The connection detects the end itself, after it has handled earlier messages.
                ShutdownTrigger::InputEnded => {
                    alarm.arm(FORCED_EXIT, CountsFrom::LastByte, 0);
                    !heard.input_has_ended.swap(true, Ordering::Relaxed)
                }
                // A client that exits closes both, and then the end of stdin counts.
                ShutdownTrigger::OutputEnded if heard.input_has_ended.load(Ordering::Relaxed) => {
                    false
                }
                ShutdownTrigger::OutputEnded => {
                    alarm.arm(FORCED_EXIT, CountsFrom::Trigger, 1);
                    heard.output_ended.notify_one();
                    false
                }
                ShutdownTrigger::Signal(signal)
                    if signal.means_reload() && on_hang_up.is_some() =>
                {
                    // Files may be slow, and the watchdog must not wait.
                    let on_hang_up = on_hang_up.clone();
                    let act = move || drop(on_hang_up.map(|act| panic_guard::catch(|| act())));
                    let _ = threads::spawn("duet-rpc reload", act);
                    false
                }
                ShutdownTrigger::Signal(_) | ShutdownTrigger::ParentEnded => {
                    alarm.arm(FORCED_EXIT, CountsFrom::Trigger, 0);
                    end_programs_in_time();
                    let is_new = heard.first.set(trigger).is_ok();
                    if let Some(close) = heard.close.get() {
                        close();
                    }
                    is_new
                }
            };
            if is_new {
                log_if_stuck(&heard);
            }
        };
        let before_forced_exit = move || {
            if let Some(clean_up) = to_clean_up.get() {
                clean_up();
            }
            run_within(LAST_MOMENT, Arc::new(|| at_exit::kill_all(LAST_MOMENT)));
            at_exit::kill_groups();
            if let Some(exit_hook) = &exit_hook {
                run_within(LAST_MOMENT, Arc::clone(exit_hook));
            }
        };
        let watchdog = Watchdog::start(Box::new(on_trigger), Box::new(before_forced_exit))?;
        Ok(ShutdownWatch { alarm: watchdog.alarm(), triggers, clean_up, _watchdog: watchdog })
    }

    /// Sets the clean-up that runs before a forced exit.
    pub(super) fn clean_up_with(&self, clean_up: impl Fn() + Send + Sync + 'static) {
        let _ = self.clean_up.set(Box::new(clean_up));
    }

    /// Sets the action for a trigger. If there was a trigger already, the action runs now.
    pub(super) fn close_with(&self, close: impl Fn() + Send + Sync + 'static) {
        let _ = self.triggers.close.set(Box::new(close));
        if self.triggers.first.get().is_some()
            && let Some(close) = self.triggers.close.get()
        {
            close();
        }
    }

    pub(super) fn close_on_trigger(&self, peer: &Peer) {
        let to_close = peer.clone();
        self.close_with(move || to_close.begin_close(None));
        let (triggers, mut state) = (Arc::clone(&self.triggers), peer.watch());
        tokio::spawn(async move {
            // The state shows every close, whatever its cause.
            let _ = state.wait_for(|state| !state.is_open()).await;
            triggers.log();
        });
        let (triggers, to_close) = (Arc::clone(&self.triggers), peer.clone());
        tokio::spawn(async move {
            triggers.output_ended.notified().await;
            // A client that exits may close either end first.
            tokio::time::sleep(STDIN_FOLLOWS).await;
            if !triggers.input_has_ended.load(Ordering::Relaxed) {
                triggers.is_unread.store(true, Ordering::Relaxed);
                to_close.begin_close(None);
            }
        });
    }
}
