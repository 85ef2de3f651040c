//! Resources of the daemon, sampled while it is idle: memory, descriptors and threads must not grow with
//! time.

use crate::harness::prelude::*;

/// Memory that the last quarter may have above the quarter before it. Allocators keep freed memory, each
/// thread has its own cache, and chance decides which thread serves which client: with 34 threads it takes
/// minutes until each has held the largest message once.
const SLACK_KB: u64 = 4096;

/// Resources at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    resident_kb: u64,
    /// Private memory that was written to.
    private_kb: u64,
    descriptors: u64,
    threads: u64,
}

impl Sample {
    /// Samples a process; `None` on a system without `/proc`.
    fn take(pid: u32) -> Option<Sample> {
        let count =
            |folder| Some(fs::read_dir(format!("/proc/{pid}/{folder}")).ok()?.count() as u64);
        Some(Sample {
            resident_kb: proc::number(pid, "status", "VmRSS")?,
            private_kb: proc::number(pid, "smaps_rollup", "Private_Dirty")?,
            descriptors: count("fd")?,
            threads: count("task")?,
        })
    }
}

/// Resources over time.
#[derive(Debug)]
pub struct Resources {
    pid: u32,
    samples: Vec<Sample>,
    peak_kb: u64,
    /// Number of descriptors by number of threads: each pool thread has its own.
    by_threads: BTreeMap<u64, u64>,
    /// Number of threads that may be added to the first ones.
    more_threads: u64,
}

impl Resources {
    /// Resources of a process that may start `more_threads` beyond its first ones.
    pub(super) fn new(pid: u32, more_threads: u64) -> Self {
        let (samples, by_threads) = (Vec::new(), BTreeMap::new());
        Resources { pid, samples, peak_kb: 0, by_threads, more_threads }
    }

    /// Samples an idle daemon. Descriptors may take a moment to close. Then their number must match earlier
    /// samples with as many threads, and the number of threads must be within its limit.
    pub(super) fn look(&mut self, patience: Duration) -> Result<(), Failure> {
        if Sample::take(std::process::id()).is_none() {
            return Ok(());
        }
        let (mut sample, mut known) = (None, None);
        let is_right = wait_until(patience, || {
            sample = Sample::take(self.pid);
            known = sample.and_then(|it| self.by_threads.get(&it.threads).copied());
            sample.is_none_or(|it| known.is_none_or(|known| known >= it.descriptors))
        });
        let sample = sample.ok_or_else(|| Failure::new("the daemon has ended by itself"))?;
        if !is_right {
            let expected = format!("{known:?} descriptors, as before");
            let names = descriptors(self.pid);
            return Err(Failure::because("descriptors are left open", expected, names));
        }
        let most = self.samples.first().unwrap_or(&sample).threads + self.more_threads;
        let is_right = sample.threads <= most;
        Failure::unless(is_right, "too many threads", most, format_args!("{sample:?}"))?;
        self.by_threads.insert(sample.threads, sample.descriptors);
        self.peak_kb = self.peak_kb.max(sample.resident_kb);
        self.samples.push(sample);
        Ok(())
    }

    /// Returns true if there are enough samples to tell growth from chance: four in each quarter.
    fn can_judge(&self) -> bool {
        self.samples.len() >= 16
    }

    /// Resident memory of the last sample.
    pub(super) fn resident_kb(&self) -> u64 {
        self.samples.last().map_or(0, |sample| sample.resident_kb)
    }

    /// Checks that memory stayed flat. The first half is warm-up. In the second half, the later part may
    /// exceed the earlier by the slack at most.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if !self.can_judge() {
            return Ok(());
        }
        let rest = &self.samples[self.samples.len() / 2..];
        let (earlier, later) = rest.split_at(rest.len() / 2);
        for (name, of) in FIGURES {
            let (before, after) = (median(earlier, of), median(later, of));
            if after > before + SLACK_KB {
                let expected = format!("{before} kB and {SLACK_KB} kB of slack at most");
                let what = format!("{name} memory grows");
                return Err(Failure::because(&what, expected, format_args!("{after} kB\n{self}")));
            }
        }
        Ok(())
    }
}

/// One figure of a sample.
type Figure = fn(&Sample) -> u64;

/// The kinds of memory.
const FIGURES: [(&str, Figure); 2] =
    [("resident", |it| it.resident_kb), ("private", |it| it.private_kb)];

fn median(samples: &[Sample], of: Figure) -> u64 {
    let mut values: Vec<_> = samples.iter().map(of).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// The targets of a process's descriptors.
fn descriptors(pid: u32) -> String {
    let folder = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let names = folder.filter_map(|entry| fs::read_link(entry.path()).ok());
    names.map(|name| name.display().to_string()).collect::<Vec<_>>().join(" ")
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, last)) = self.samples.first().zip(self.samples.last()) else {
            return write!(f, "memory, descriptors and threads: not known on this system");
        };
        // The first sample comes before any work; the one after the warm-up counts.
        let middle = &self.samples[self.samples.len() / 2];
        let line = |name: &str, of: Figure| {
            let [first, middle, last] = [first, middle, last].map(of);
            format!("{name:<20} first {first}, in the middle {middle}, last {last}")
        };
        writeln!(f, "{}, peak {}", line("resident memory, kB", FIGURES[0].1), self.peak_kb)?;
        writeln!(f, "{}", line("private memory, kB", FIGURES[1].1))?;
        writeln!(f, "{}", line("descriptors", |it| it.descriptors))?;
        writeln!(f, "{}", line("threads", |it| it.threads))?;
        let verdict = if self.can_judge() { "" } else { ", too few to judge memory by" };
        write!(f, "{:<20} {}{verdict}", "idle moments", self.samples.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if a process with this memory over time passes.
    fn is_flat(memory: impl Fn(u64) -> u64) -> bool {
        let mut resources = Resources::new(0, 0);
        let sample = |time| Sample { resident_kb: memory(time), ..Sample::default() };
        resources.samples = (0..100).map(sample).collect();
        resources.check().is_ok()
    }

    #[test]
    fn memory_growth_is_found_and_warm_up_is_allowed() {
        assert!(is_flat(|_| 10_000));
        assert!(is_flat(|time| if time < 40 { 5_000 + 500 * time } else { 25_000 }));
        assert!(is_flat(|time| 10_000 + time * 7919 % SLACK_KB));
        assert!(!is_flat(|time| 10_000 + time * SLACK_KB / 20));
        assert!(!is_flat(|time| if time < 70 { 10_000 } else { 10_001 + SLACK_KB }));
    }

    #[test]
    fn descriptors_that_are_left_open_are_found() {
        let mut resources = Resources::new(std::process::id(), 1000);
        if Sample::take(std::process::id()).is_none() {
            return;
        }
        // Other tests of this process open files too, so only certain excess counts here.
        resources.look(Duration::ZERO).expect("it is the first look");
        let threads: Vec<_> = resources.by_threads.keys().copied().collect();
        assert_eq!(threads.len(), 1);
        resources.by_threads = (0..1000).map(|threads| (threads, 0)).collect();
        let found = resources.look(Duration::ZERO).expect_err("there are some");
        assert_eq!(found.what, "descriptors are left open");
    }
}
