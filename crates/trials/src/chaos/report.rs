//! The report: for each kind the number of lives, the times of their ends, and the failures. The lag of the machine
//! stands beside them: where that is much, the times say nothing about the daemon.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use super::checks::BOUND;

/// With nothing in flight, half of all ends come within this, and 99 of 100 do without the lag of the machine (L5);
/// if there were enough of them to tell.
const IDLE: Duration = Duration::from_millis(50);
const ENOUGH: usize = 20;

/// Why a life was not tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Skipped {
    pub(super) why: &'static str,
    /// Whether installing a program would help.
    pub(super) can_be_helped: bool,
}

/// One life.
#[derive(Debug, Default)]
pub struct Life {
    pub(super) number: usize,
    pub(super) kind: &'static str,
    /// What went wrong.
    pub complaints: Vec<String>,
    /// Why it was not tried.
    pub(super) skipped: Option<Skipped>,
    /// The time from the cause of its end to the end, and how much of it the machine was late by itself.
    pub(super) took: Option<Duration>,
    pub(super) late: Duration,
    /// Whether nothing was in flight at the end.
    pub(super) was_idle: bool,
    /// The steps, and the end of stderr.
    pub(super) story: Vec<String>,
}

/// The lives of a kind.
#[derive(Debug, Default)]
struct Row {
    lives: usize,
    failed: usize,
    skipped: Option<Skipped>,
    times: Vec<Duration>,
    /// The most time that a life was allowed for the lag of the machine.
    allowed: Duration,
}

/// The outcome of all lives.
#[derive(Debug, Default)]
pub struct Report {
    order: Vec<&'static str>,
    rows: BTreeMap<&'static str, Row>,
    idle: Vec<Duration>,
    /// The same without the lag of the machine.
    idle_alone: Vec<Duration>,
    /// Lives that took longer than they may and are good because the machine was late.
    forgiven: usize,
    failed: Vec<Life>,
}

impl Report {
    pub(super) fn new(kinds: impl Iterator<Item = &'static str>) -> Self {
        Report { order: kinds.collect(), ..Report::default() }
    }

    pub(super) fn add(&mut self, life: Life) {
        let row = self.rows.entry(life.kind).or_default();
        if life.skipped.is_some() {
            row.skipped = life.skipped;
            return;
        }
        row.lives += 1;
        row.times.extend(life.took);
        row.allowed = row.allowed.max(life.late);
        if life.was_idle {
            self.idle.extend(life.took);
            self.idle_alone.extend(life.took.map(|took| took.saturating_sub(life.late)));
        }
        if life.complaints.is_empty() && life.took.is_some_and(|took| took > BOUND) {
            self.forgiven += 1;
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
        rows.filter_map(|(name, row)| Some((*name, row.skipped?.why))).collect()
    }

    /// Kinds that were lived at least once.
    pub fn lived(&self) -> usize {
        self.rows.values().filter(|row| row.lives > 0).count()
    }

    /// Whether all is well, if times may be so many times as long.
    pub fn is_good(&self, patience: f64) -> bool {
        self.failed.is_empty() && !self.is_slow(patience)
    }

    /// Whether ends with nothing in flight took too long: half of them, or more than 1 of 100 by their own fault.
    pub fn is_slow(&self, patience: f64) -> bool {
        let is_slow = |time: Duration| time > IDLE.mul_f64(patience);
        let shares = [share(&self.idle, 50), share(&self.idle_alone, 99)];
        self.idle.len() >= ENOUGH && shares.into_iter().flatten().any(is_slow)
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
            "{:24} {:>7} {:>7} {:>10} {:>10} {:>11}",
            "kind", "lives", "failed", "median ms", "worst ms", "allowed ms"
        )?;
        let mut lives = 0;
        for name in &self.order {
            let no_row = Row::default();
            let row = self.rows.get(name).unwrap_or(&no_row);
            let (median, worst) = (share(&row.times, 50), share(&row.times, 100));
            let (median, worst) = (milliseconds(median), milliseconds(worst));
            let allowed = milliseconds(Some(row.allowed));
            write!(f, "{name:24} {:>7} {:>7} ", row.lives, row.failed)?;
            write!(f, "{median:>10} {worst:>10} {allowed:>11}")?;
            match row.skipped {
                Some(Skipped { why, .. }) => writeln!(f, "   NOT TRIED: {why}")?,
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
        let [high, worst] = [99, 100].map(|percent| milliseconds(share(&self.idle_alone, percent)));
        writeln!(f, "  without the lag of the machine: p99 {high} ms, worst {worst} ms")?;
        let allowed = self.rows.values().map(|row| row.allowed).max();
        let (allowed, forgiven) = (milliseconds(allowed), self.forgiven);
        writeln!(
            f,
            "allowed for the lag of the machine: at most {allowed} ms; {forgiven} lives took more than {} s \
             and are good only by that, or by --patience",
            BOUND.as_secs()
        )?;
        write!(f, "{lives} lives of {} kinds, {} failed", self.lived(), self.failed.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report of so many idle ends, of which the last few are others.
    fn report(count: usize, ms: u64, others: &[(u64, u64)]) -> Report {
        let mut report = Report::new(super::super::kinds().into_iter());
        let all = (others.len()..count).map(|_| (ms, 0)).chain(others.iter().copied());
        for (number, (took, late)) in all.enumerate() {
            let [took, late] = [took, late].map(Duration::from_millis);
            let (kind, was_idle) = ("eof-idle", true);
            report.add(Life { number, kind, took: Some(took), late, was_idle, ..Life::default() });
        }
        report
    }

    #[test]
    fn l5_idle_ends_are_quick_but_for_the_machine() {
        assert!(report(200, 10, &[]).is_good(1.0));
        assert!(!report(200, 60, &[]).is_good(1.0), "half are slow");
        assert!(report(200, 60, &[]).is_good(2.0), "and may be");
        assert!(report(200, 10, &[(1900, 0); 2]).is_good(1.0), "one in a hundred");
        assert!(!report(200, 10, &[(1900, 0); 3]).is_good(1.0), "more than that");
        assert!(report(200, 10, &[(1900, 1880); 3]).is_good(1.0), "the machine was late");
        assert!(report(ENOUGH - 1, 60, &[]).is_good(1.0), "too few to say");
    }

    #[test]
    fn what_is_allowed_is_told() {
        let text = report(30, 10, &[(2500, 700), (1900, 100)]).to_string();
        assert!(text.contains("at most 700.0 ms; 1 lives took more than 2 s"), "{text}");
    }
}
