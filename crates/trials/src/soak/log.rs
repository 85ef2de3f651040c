//! The log of the daemon: every line is a record, and every error has a cause (G3, G5, G6).

use std::io::{BufRead, BufReader};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::harness::events::is_record;
use crate::harness::prelude::*;

/// Record of a frame that did not complete in time (F6).
const TOO_LATE: &str = "took too long";

/// State read from the log, and the errors that must appear in it.
#[derive(Debug, Default)]
pub(super) struct Log {
    state: Mutex<State>,
    changed: Condvar,
    /// Milliseconds to pause reading before the next line.
    pub(super) nap: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Number of frames that did not complete in time.
    pub(super) timeouts: u64,
    /// Records dropped because nobody read them.
    pub(super) dropped: u64,
    /// Method of the last mark.
    pub(super) last_mark: Option<String>,
    /// Caused errors that are not in the log yet, by method.
    caused: BTreeMap<String, u64>,
    has_ended: bool,
}

/// Prefix of a mark's method. No such method exists, so a call of one shows in the log.
pub(super) const MARK: &str = "soak.mark.";

impl Log {
    /// Reads the log to its end on a separate thread.
    pub(super) fn read(
        self: &Arc<Self>,
        stderr: impl io::Read + Send + 'static,
        counters: &Arc<Counters>,
    ) -> JoinHandle<()> {
        let (log, counters) = (Arc::clone(self), Arc::clone(counters));
        thread::spawn(move || {
            let mut lines = BufReader::with_capacity(64 * 1024, stderr);
            let mut line = Vec::new();
            loop {
                thread::sleep(Duration::from_millis(log.nap.swap(0, Ordering::AcqRel)));
                line.clear();
                if !matches!(lines.read_until(b'\n', &mut line), Ok(1..)) {
                    break;
                }
                log.take(&String::from_utf8_lossy(&line), &counters);
            }
            log.state().has_ended = true;
            log.changed.notify_all();
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn take(&self, line: &str, counters: &Counters) {
        let text = line.strip_suffix('\n');
        let record = text.and_then(|text| Message::read(text).ok()).filter(is_record);
        let Some(record) = record else {
            counters.fail(Failure::because("a line of the log is not a record", "", line));
            return;
        };
        let (severity, method) =
            (record.text("severity").unwrap_or_default(), record.text("method"));
        let message = record.text("message").unwrap_or_default();
        let mut state = self.state();
        let names = ["debug", "info", "warn", "error"];
        let name = names.into_iter().find(|name| *name == severity).unwrap_or_default();
        counters.count(Group::LogLines, name);
        match name {
            "error" => match state.caused.get_mut(&method.unwrap_or_default()) {
                Some(caused) if *caused > 0 => *caused -= 1,
                _ => counters.fail(Failure::because("an error without a cause", "", line)),
            },
            "warn" => {
                state.timeouts += u64::from(message.contains(TOO_LATE));
                if let Some(count) = message.strip_suffix(" log records were dropped") {
                    state.dropped += count.parse::<u64>().unwrap_or(0);
                }
                let mark = method.filter(|it| it.starts_with(MARK));
                state.last_mark = mark.or(state.last_mark.take());
            }
            _ => {}
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Expects one more error with this method in the log.
    pub(super) fn cause_error(&self, method: Option<&str>) {
        if let Some(method) = method {
            *self.state().caused.entry(method.to_owned()).or_default() += 1;
        }
    }

    /// Waits until `is_done`. Returns true if done.
    pub(super) fn wait(&self, patience: Duration, is_done: impl Fn(&State) -> bool) -> bool {
        let is_pending = |state: &mut State| !is_done(state) && !state.has_ended;
        let waited = self.changed.wait_timeout_while(self.state(), patience, is_pending);
        is_done(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Checks, after the log was read to its end, that every caused error is there. The number of missing
    /// errors is at most the number of dropped records. `take` checks that each error has a cause.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let state = self.state();
        let is_complete = state.caused.values().sum::<u64>() <= state.dropped;
        let (what, missing) = ("the errors in the log differ from the caused ones", &state.caused);
        Failure::unless(is_complete, what, "no more", format_args!("missing: {missing:?}"))
    }
}
