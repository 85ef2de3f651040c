//! Counters of a trial, and its first failure.

use crate::harness::prelude::*;

/// A group of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Answers, by the kind of request.
    Answers,
    /// Bad input, by its fault.
    BadInput,
    /// All other actions.
    Actions,
    /// Connections, by their end.
    Connections,
    /// Lines of the log, by their severity.
    LogLines,
}

/// All counters of a trial.
#[derive(Debug, Default)]
pub struct Counters {
    counts: Mutex<BTreeMap<(Group, &'static str), u64>>,
    /// Bytes sent to the daemon.
    pub(crate) sent: AtomicU64,
    /// Bytes received from the daemon.
    pub(crate) received: AtomicU64,
    failure: Mutex<Option<Failure>>,
}

impl Counters {
    pub(crate) fn count(&self, group: Group, name: &'static str) {
        self.add(group, name, 1);
    }

    pub(crate) fn add(&self, group: Group, name: &'static str, count: u64) {
        *lock(&self.counts).entry((group, name)).or_default() += count;
    }

    /// The counters of a group, by name.
    pub fn group(&self, group: Group) -> Vec<(&'static str, u64)> {
        let counts = lock(&self.counts);
        let those = counts.iter().filter(|((it, _), _)| *it == group);
        those.map(|((_, name), count)| (*name, *count)).collect()
    }

    pub(crate) fn sum(&self, group: Group) -> u64 {
        self.group(group).iter().map(|(_, count)| count).sum()
    }

    /// Keeps the first failure: later ones may follow from it.
    pub(crate) fn fail(&self, failure: Failure) {
        lock(&self.failure).get_or_insert(failure);
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        lock(&self.failure).clone()
    }
}

/// A fault of the daemon.
#[derive(Clone, Debug, Default)]
pub struct Failure {
    /// The fault, in words.
    pub what: String,
    pub(crate) expected: String,
    pub(crate) came: String,
    /// The last bytes sent before it.
    pub(crate) sent: Vec<u8>,
}

impl Failure {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Failure { what: what.into(), ..Failure::default() }
    }

    /// A failure with the expected and the actual value.
    pub(crate) fn because(what: &str, expected: impl fmt::Debug, came: impl fmt::Display) -> Self {
        let [expected, came] = [format!("{expected:?}"), came.to_string()].map(cut);
        Failure { what: what.to_owned(), expected, came, sent: Vec::new() }
    }

    /// Like `because`, as a result: `Ok` if `holds`.
    pub(crate) fn unless(
        holds: bool,
        what: &str,
        expected: impl fmt::Debug,
        came: impl fmt::Display,
    ) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self::because(what, expected, came)) }
    }
}

/// Shortens a long text to its beginning and its end.
fn cut(text: String) -> String {
    const MOST: usize = 1500;
    let count = text.chars().count();
    if count <= MOST {
        return text;
    }
    let begin: String = text.chars().take(MOST / 2).collect();
    let end: String = text.chars().skip(count - MOST / 2).collect();
    format!("{begin} …({} characters left out)… {end}", count - MOST / 2 * 2)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        for (name, text) in [("expected", &self.expected), ("came", &self.came)] {
            if !text.is_empty() && text != "\"\"" {
                write!(f, "\n  {name}: {text}")?;
            }
        }
        if !self.sent.is_empty() {
            write!(f, "\n  the last bytes sent: {}", self.sent.escape_ascii())?;
        }
        Ok(())
    }
}
