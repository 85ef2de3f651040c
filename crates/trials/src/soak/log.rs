//! The log of the daemon: every line a record, and no error that nobody has caused (G3, G5, G6).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::counters::{Broken, Counters, Group};
use crate::wire::Message;

/// What the daemon says of a frame that does not come to its end (F6).
const TOO_LATE: &str = "a message took too long";

/// What was read of the log, and what was done that must show in it.
#[derive(Debug, Default)]
pub(super) struct Log {
    state: Mutex<State>,
    changed: Condvar,
    /// How long nobody is to read, in milliseconds.
    nap: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    timeouts: u64,
    /// Records that were dropped, as nobody read them.
    dropped: u64,
    /// Marks that came, by the name of their method.
    last_mark: Option<String>,
    /// Errors in the log by method, and those that were caused.
    errors: BTreeMap<String, u64>,
    caused: BTreeMap<String, u64>,
    has_ended: bool,
}

/// What the method of a mark begins with.
const MARK: &str = "soak.mark.";

impl Log {
    /// Reads it to its end on a thread of its own. What comes before the first record is told.
    pub(super) fn read(
        self: &Arc<Self>,
        stderr: impl Read + Send + 'static,
        counters: &Arc<Counters>,
        mut tell: impl FnMut(&str) -> bool + Send + 'static,
    ) -> JoinHandle<()> {
        let (log, counters) = (Arc::clone(self), Arc::clone(counters));
        thread::spawn(move || {
            let mut lines = BufReader::with_capacity(64 * 1024, stderr);
            let (mut line, mut is_foreword) = (Vec::new(), true);
            loop {
                let nap = log.nap.swap(0, Ordering::AcqRel);
                if nap > 0 {
                    thread::sleep(Duration::from_millis(nap));
                }
                line.clear();
                if !matches!(lines.read_until(b'\n', &mut line), Ok(1..)) {
                    break;
                }
                let text = String::from_utf8_lossy(&line);
                is_foreword = is_foreword && tell(&text);
                if !is_foreword {
                    log.take(&text, &counters);
                }
            }
            log.state().has_ended = true;
            log.changed.notify_all();
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, line: &str, counters: &Counters) {
        let text = line.strip_suffix('\n');
        let record = text.and_then(|text| Message::read(text).ok()).filter(is_record);
        let Some(record) = record else {
            counters.fail(Broken::because("a line of the log is no record", "", line));
            return;
        };
        let (severity, method) =
            (record.text("severity").unwrap_or_default(), record.text("method"));
        let message = record.text("message").unwrap_or_default();
        let mut state = self.state();
        match severity.as_str() {
            "error" => {
                counters.count(Group::LogLines, "error");
                let method = method.unwrap_or_default();
                if state.caused.get(&method).copied().unwrap_or(0)
                    <= state.errors.get(&method).copied().unwrap_or(0)
                {
                    counters.fail(Broken::because("an error that nobody has caused", "", line));
                }
                *state.errors.entry(method).or_default() += 1;
            }
            "warn" => {
                counters.count(Group::LogLines, "warn");
                state.timeouts += u64::from(message.starts_with(TOO_LATE));
                if let Some(count) = message.strip_suffix(" log records were dropped") {
                    state.dropped += count.parse::<u64>().unwrap_or(0);
                }
                state.last_mark =
                    method.filter(|it| it.starts_with(MARK)).or(state.last_mark.take());
            }
            "info" => counters.count(Group::LogLines, "info"),
            _ => counters.count(Group::LogLines, "debug"),
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Something is done from here on that the log must call an error, once, with this method.
    pub(super) fn cause_error(&self, method: &str) {
        *self.state().caused.entry(method.to_owned()).or_default() += 1;
    }

    /// Nobody reads it for so long, from the next line on.
    pub(super) fn nap(&self, milliseconds: u64) {
        self.nap.store(milliseconds, Ordering::Release);
    }

    /// How many frames came too late.
    pub(super) fn timeouts(&self) -> u64 {
        self.state().timeouts
    }

    /// How many records were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.state().dropped
    }

    /// Waits until so many frames came too late.
    pub(super) fn wait_for_timeouts(&self, count: u64, patience: Duration) -> bool {
        self.wait(patience, |state| state.timeouts >= count)
    }

    /// The name of a method that nobody serves: to call it shows in the log.
    pub(super) fn mark(number: u64) -> String {
        format!("{MARK}{number}")
    }

    /// Waits until the mark shows.
    pub(super) fn wait_for_mark(&self, mark: &str, patience: Duration) -> bool {
        self.wait(patience, |state| state.last_mark.as_deref() == Some(mark))
    }

    fn wait(&self, patience: Duration, is_done: impl Fn(&State) -> bool) -> bool {
        let until = Instant::now() + patience;
        let mut state = self.state();
        while !is_done(&state) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || state.has_ended {
                return false;
            }
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Checks, when all of it was read, that each error that was caused is there: no more of them can be
    /// missing than records were dropped. That there is none that nobody has caused is seen at each of them.
    pub(super) fn check(&self) -> Result<(), Broken> {
        let state = self.state();
        let sum = |errors: &BTreeMap<String, u64>| errors.values().sum::<u64>();
        if sum(&state.caused) <= sum(&state.errors) + state.dropped {
            return Ok(());
        }
        let (expected, came) = (&state.caused, format!("{:?}", state.errors));
        Err(Broken::because(
            "the errors in the log are not those that were caused",
            expected,
            &came,
        ))
    }
}

/// Whether this has the names of a record and no others, and values as they must be.
pub(super) fn is_record(record: &Message<'_>) -> bool {
    let is_time = |text: &str| {
        let shape = text.chars().map(|it| if it.is_ascii_digit() { '0' } else { it });
        shape.eq("0000-00-00T00:00:00.000Z".chars())
    };
    // Nothing moves the cursor, ends a line for some reader or turns the direction of the text.
    let plays = |it: char| it.is_control() || matches!(it, '\u{2028}'..='\u{202e}');
    let is_text = |name: &str, most: usize| {
        record.get(name).is_some_and(|it| !it.contains(plays))
            && record.text(name).is_some_and(|it| it.chars().count() <= most)
    };
    let is_id = |id: &str| {
        let text = serde_json::from_str::<String>(id).unwrap_or_else(|_| id.to_owned());
        !id.starts_with(['{', '[', 't', 'f']) && text.chars().count() <= 64
    };
    record.has_only(&["timestamp", "severity", "message"], &["method", "id"])
        && record.text("timestamp").as_deref().is_some_and(is_time)
        && matches!(record.text("severity").as_deref(), Some("debug" | "info" | "warn" | "error"))
        && is_text("message", usize::MAX)
        && (record.get("method").is_none() || is_text("method", 128))
        && record.get("id").is_none_or(is_id)
}
