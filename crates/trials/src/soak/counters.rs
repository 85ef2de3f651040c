//! What is counted, and the first thing that broke.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What something is counted group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Requests that were answered, by what was asked for.
    Answers,
    /// Bad input, by what is wrong with it.
    BadInput,
    /// All else that was done.
    Actions,
    /// Connections, by how they ended.
    Connections,
    /// Lines of the log, by their severity.
    LogLines,
}

/// All that is counted.
#[derive(Debug, Default)]
pub struct Counters {
    counts: Mutex<BTreeMap<(Group, &'static str), u64>>,
    /// Bytes that went to the daemon.
    pub sent: AtomicU64,
    /// Bytes that came from it.
    pub received: AtomicU64,
    is_broken: AtomicBool,
    broken: Mutex<Option<Broken>>,
}

/// Something that is not as it must be.
#[derive(Clone, Debug, Default)]
pub struct Broken {
    /// What went wrong.
    pub what: String,
    /// What was expected, if that can be said.
    pub expected: String,
    /// What came.
    pub came: String,
    /// The last bytes that were sent before.
    pub sent: Vec<u8>,
}

impl Broken {
    /// Says only what went wrong.
    pub fn new(what: impl Into<String>) -> Self {
        Broken { what: what.into(), ..Broken::default() }
    }

    /// Says also what was expected, and what came.
    pub fn because(what: &str, expected: impl fmt::Debug, came: &str) -> Self {
        let (what, expected) = (what.to_owned(), cut(&format!("{expected:?}")));
        Broken { what, expected, came: cut(came), sent: Vec::new() }
    }
}

/// The beginning and the end of a long text.
fn cut(text: &str) -> String {
    const MOST: usize = 1500;
    let count = text.chars().count();
    if count <= MOST {
        return text.to_owned();
    }
    let begin: String = text.chars().take(MOST / 2).collect();
    let end: String = text.chars().skip(count - MOST / 2).collect();
    format!("{begin} …({} characters left out)… {end}", count - MOST / 2 * 2)
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        for (name, text) in [("expected", &self.expected), ("came", &self.came)] {
            if !text.is_empty() {
                write!(f, "\n  {name}: {text}")?;
            }
        }
        if !self.sent.is_empty() {
            write!(f, "\n  the last bytes sent: {}", self.sent.escape_ascii())?;
        }
        Ok(())
    }
}

impl Counters {
    /// Counts one more.
    pub fn count(&self, group: Group, name: &'static str) {
        self.add(group, name, 1);
    }

    /// Counts so many more.
    pub fn add(&self, group: Group, name: &'static str, count: u64) {
        *self.counts().entry((group, name)).or_default() += count;
    }

    /// What was counted group this, by name.
    pub fn group(&self, group: Group) -> Vec<(&'static str, u64)> {
        let counts = self.counts();
        let those = counts.iter().filter(|((it, _), _)| *it == group);
        those.map(|((_, name), count)| (*name, *count)).collect()
    }

    /// How many there are group this in all.
    pub fn sum(&self, group: Group) -> u64 {
        self.group(group).iter().map(|(_, count)| count).sum()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<(Group, &'static str), u64>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something broke. The first such thing counts, as the others may come of it.
    pub fn fail(&self, broken: Broken) {
        let mut first = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(broken);
        self.is_broken.store(true, Ordering::Release);
    }

    /// Whether something broke.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    /// The first thing that broke.
    pub fn broken(&self) -> Option<Broken> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
