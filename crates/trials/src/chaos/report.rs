//! The report: for each kind the number of lives, their end times, and the failures. It also shows the
//! machine's lag: if that is large, the times say nothing about the daemon.

use std::collections::BTreeSet;

use super::checks::BOUND;
use super::prelude::*;
use super::tapped::Ended;

/// Time limit for ends with nothing in flight (L5): half of them stay within it, and 99 of 100 after the
/// machine's lag is subtracted. Checked if there were at least `ENOUGH` such ends.
const IDLE: Duration = Duration::from_millis(50);
const ENOUGH: usize = 20;
const ZERO: Duration = Duration::ZERO;

/// Reason for a skipped life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Skipped {
    pub(super) why: &'static str,
    /// True if installing a program would help.
    pub(super) can_be_helped: bool,
}

/// One life.
#[derive(Debug, Default)]
pub struct Life {
    pub(super) number: usize,
    pub(super) kind: &'static str,
    /// Failed checks.
    pub complaints: Vec<String>,
    /// Set if the life was skipped.
    pub(super) skipped: Option<Skipped>,
    /// Time from the cause of the end to the end, and the machine's lag within it.
    pub(super) took: Option<Duration>,
    pub(super) late: Duration,
    /// Its end, to compare with that of its twin.
    pub(super) ended: Option<Ended>,
    /// True if nothing was in flight at the end.
    pub(super) was_idle: bool,
    /// The steps, and the end of stderr.
    pub(super) story: Vec<String>,
}

impl Life {
    /// The time that its end took, without the machine's lag.
    pub(super) fn time(&self) -> Duration {
        self.took.unwrap_or_default().saturating_sub(self.late)
    }
}

/// The outcome of all lives.
#[derive(Debug, Default)]
pub struct ChaosReport {
    kinds: Vec<&'static str>,
    lives: Vec<Life>,
}

impl ChaosReport {
    pub(super) fn new(kinds: impl Iterator<Item = &'static str>) -> Self {
        ChaosReport { kinds: kinds.collect(), lives: Vec::new() }
    }

    pub(super) fn add(&mut self, mut life: Life) {
        life.ended = None;
        if life.complaints.is_empty() {
            life.story.clear();
        }
        self.lives.push(life);
    }

    /// The failed lives.
    pub fn failed(&self) -> Vec<&Life> {
        self.lives.iter().filter(|life| !life.complaints.is_empty()).collect()
    }

    /// The skipped kinds, with the reasons.
    pub fn skipped(&self) -> BTreeMap<&'static str, &'static str> {
        self.lives.iter().filter_map(|life| Some((life.kind, life.skipped?.why))).collect()
    }

    /// Number of kinds that ran at least once.
    pub fn lived(&self) -> usize {
        let lived = self.lives.iter().filter(|life| life.skipped.is_none());
        lived.map(|life| life.kind).collect::<BTreeSet<_>>().len()
    }

    /// Returns true if everything passed, with time limits multiplied by `patience`.
    pub fn is_good(&self, patience: f64) -> bool {
        self.failed().is_empty() && !self.is_slow(patience)
    }

    /// Returns true if ends with nothing in flight took too long: half of them, or more than 1 of 100 after
    /// the machine's lag is subtracted.
    pub fn is_slow(&self, patience: f64) -> bool {
        let is_slow = |time: Duration| time > IDLE.mul_f64(patience);
        let (idle, alone) = self.idle();
        let shares = [share(&idle, 50), share(&alone, 99)];
        idle.len() >= ENOUGH && shares.into_iter().flatten().any(is_slow)
    }

    /// The times of ends with nothing in flight, and the same without the machine's lag.
    fn idle(&self) -> (Vec<Duration>, Vec<Duration>) {
        let idle = self.lives.iter().filter(|life| life.was_idle);
        idle.filter_map(|life| Some((life.took?, life.took?.saturating_sub(life.late)))).unzip()
    }
}

/// The time within which this percentage of ends stays.
fn share(times: &[Duration], percent: usize) -> Option<Duration> {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len().saturating_sub(1) * percent / 100).copied()
}

fn milliseconds(time: Option<Duration>) -> String {
    time.map_or("-".to_owned(), |time| format!("{:.1}", time.as_secs_f64() * 1000.0))
}

impl fmt::Display for ChaosReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["lives", "failed", "median ms", "worst ms", "allowed ms"];
        let [lives, failed, median, worst, allowed] = names;
        writeln!(f, "{:24} {lives:>7} {failed:>7} {median:>10} {worst:>10} {allowed:>11}", "kind")?;
        let is_lived = |life: &&Life| life.skipped.is_none();
        let skipped = self.skipped();
        for name in &self.kinds {
            let lives = self.lives.iter().filter(is_lived).filter(|life| life.kind == *name);
            let lives: Vec<_> = lives.collect();
            let failed = lives.iter().filter(|life| !life.complaints.is_empty()).count();
            let times: Vec<_> = lives.iter().filter_map(|life| life.took).collect();
            let [median, worst] = [50, 100].map(|percent| milliseconds(share(&times, percent)));
            let allowed = milliseconds(lives.iter().map(|life| life.late).max().or(Some(ZERO)));
            write!(f, "{name:24} {:>7} {failed:>7} ", lives.len())?;
            write!(f, "{median:>10} {worst:>10} {allowed:>11}")?;
            let why = skipped.get(name).map_or(String::new(), |why| format!("   NOT TRIED: {why}"));
            writeln!(f, "{why}")?;
        }
        let (idle, alone) = self.idle();
        let [median, high, worst] = [50, 99, 100].map(|it| milliseconds(share(&idle, it)));
        let times = format!("median {median} ms, p99 {high} ms, worst {worst} ms");
        writeln!(f, "with nothing in flight: {} ends, {times}", idle.len())?;
        let [high, worst] = [99, 100].map(|percent| milliseconds(share(&alone, percent)));
        writeln!(f, "  without the lag of the machine: p99 {high} ms, worst {worst} ms")?;
        let lives: Vec<_> = self.lives.iter().filter(is_lived).collect();
        let allowed = milliseconds(lives.iter().map(|life| life.late).max());
        let is_late = |life: &&&Life| {
            life.complaints.is_empty() && life.took.is_some_and(|took| took > BOUND)
        };
        let (forgiven, bound) = (lives.iter().filter(is_late).count(), BOUND.as_secs());
        let forgiven = format!("{forgiven} lives took more than {bound} s");
        write!(f, "allowed for the lag of the machine: at most {allowed} ms; {forgiven}")?;
        writeln!(f, " and passed only because of that lag or --patience")?;
        let (kinds, failed) = (self.lived(), self.failed().len());
        write!(f, "{} lives of {kinds} kinds, {failed} failed", lives.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report of `count` idle ends, the last ones replaced by `others`.
    fn report(count: usize, ms: u64, others: &[(u64, u64)]) -> ChaosReport {
        let mut report = ChaosReport::new(super::super::kinds(false).into_iter());
        let all = (others.len()..count).map(|_| (ms, 0)).chain(others.iter().copied());
        for (number, (took, late)) in all.enumerate() {
            let [took, late] = [took, late].map(Duration::from_millis);
            let (kind, was_idle) = ("eof-idle", true);
            report.add(Life { number, kind, took: Some(took), late, was_idle, ..Life::default() });
        }
        report
    }

    #[test]
    fn l5_idle_exits_are_quick_unless_the_machine_lags() {
        assert!(report(200, 10, &[]).is_good(1.0));
        assert!(!report(200, 60, &[]).is_good(1.0), "half are too slow");
        assert!(report(200, 60, &[]).is_good(2.0), "within twice the limit");
        assert!(report(200, 10, &[(1900, 0); 2]).is_good(1.0), "one in a hundred is slow");
        assert!(!report(200, 10, &[(1900, 0); 3]).is_good(1.0), "more than one in a hundred");
        assert!(report(200, 10, &[(1900, 1880); 3]).is_good(1.0), "the machine was late");
        assert!(report(ENOUGH - 1, 60, &[]).is_good(1.0), "too few to judge");
    }

    #[test]
    fn report_states_the_lag_that_was_allowed() {
        let text = report(30, 10, &[(2500, 700), (1900, 100)]).to_string();
        assert!(text.contains("at most 700.0 ms; 1 lives took more than 2 s"), "{text}");
    }
}
