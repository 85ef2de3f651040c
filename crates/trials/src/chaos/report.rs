//! What came of it: for each kind how many lives, how long the ends took, and what went wrong.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use super::Kind;

/// With nothing in flight, half of all ends come within this (L5), if there were enough of them to say so.
const IDLE: Duration = Duration::from_millis(50);
const ENOUGH: usize = 20;

/// One life that is over.
#[derive(Debug)]
pub struct Life {
    /// Its number.
    pub number: usize,
    /// The name of its kind.
    pub kind: &'static str,
    /// What was not as it should be.
    pub complaints: Vec<String>,
    /// Why it was not tried.
    pub skipped: Option<&'static str>,
    /// How long it took to end.
    pub took: Option<Duration>,
    /// Whether nothing was in flight at the end.
    pub was_idle: bool,
    /// What was done, and what it said.
    pub story: Vec<String>,
}

/// What is known of a kind.
#[derive(Debug, Default)]
struct Row {
    lives: usize,
    failed: usize,
    skipped: Option<&'static str>,
    times: Vec<Duration>,
}

/// What came of all lives.
#[derive(Debug)]
pub struct Report {
    order: Vec<&'static str>,
    rows: BTreeMap<&'static str, Row>,
    idle: Vec<Duration>,
    failed: Vec<Life>,
}

impl Report {
    pub(super) fn new(kinds: &[Kind]) -> Self {
        let order: Vec<_> = kinds.iter().map(|kind| kind.name).collect();
        let rows = order.iter().map(|&name| (name, Row::default())).collect();
        Report { order, rows, idle: Vec::new(), failed: Vec::new() }
    }

    pub(super) fn add(&mut self, life: Life) {
        let row = self.rows.entry(life.kind).or_default();
        if life.skipped.is_some() {
            row.skipped = life.skipped;
            return;
        }
        row.lives += 1;
        row.times.extend(life.took);
        if life.was_idle {
            self.idle.extend(life.took);
        }
        if !life.complaints.is_empty() {
            row.failed += 1;
            self.failed.push(life);
        }
    }

    /// The lives that went wrong.
    pub fn failed(&self) -> &[Life] {
        &self.failed
    }

    /// Kinds that could not be tried, and why.
    pub fn skipped(&self) -> Vec<(&'static str, &'static str)> {
        let rows = self.rows.iter();
        rows.filter_map(|(name, row)| Some((*name, row.skipped?))).collect()
    }

    /// Kinds that were lived at least once.
    pub fn lived(&self) -> usize {
        self.rows.values().filter(|row| row.lives > 0).count()
    }

    /// Whether all is well, if times may be this many times as long.
    pub fn is_good(&self, patience: f64) -> bool {
        self.failed.is_empty() && !self.is_slow(patience)
    }

    /// Whether half of the ends with nothing in flight took longer than they should.
    pub fn is_slow(&self, patience: f64) -> bool {
        let is_slow = |median: Duration| median > IDLE.mul_f64(patience);
        self.idle.len() >= ENOUGH && share(&self.idle, 50).is_some_and(is_slow)
    }
}

/// The time that so many in a hundred stay within.
fn share(times: &[Duration], percent: usize) -> Option<Duration> {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len().saturating_sub(1) * percent / 100).copied()
}

fn milliseconds(time: Option<Duration>) -> String {
    time.map_or("-".to_owned(), |time| format!("{:.1}", time.as_secs_f64() * 1000.0))
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:24} {:>7} {:>7} {:>10} {:>10}",
            "kind", "lives", "failed", "median ms", "worst ms"
        )?;
        let mut lives = 0;
        for name in &self.order {
            let Some(row) = self.rows.get(name) else { continue };
            let (median, worst) = (share(&row.times, 50), share(&row.times, 100));
            let (median, worst) = (milliseconds(median), milliseconds(worst));
            write!(f, "{name:24} {:>7} {:>7} {median:>10} {worst:>10}", row.lives, row.failed)?;
            match row.skipped {
                Some(why) => writeln!(f, "   NOT TRIED: {why}")?,
                None => writeln!(f)?,
            }
            lives += row.lives;
        }
        let [median, high, worst] =
            [50, 99, 100].map(|percent| milliseconds(share(&self.idle, percent)));
        let idle = self.idle.len();
        writeln!(
            f,
            "with nothing in flight: {idle} ends, median {median} ms, p99 {high} ms, worst {worst} ms"
        )?;
        write!(f, "{lives} lives of {} kinds, {} failed", self.lived(), self.failed.len())
    }
}
