//! Statistics of a session: totals, latencies, and a table of methods.

use std::collections::HashMap;

use duet_rpc_trace::{Dir, Kind};
use serde::Serialize;

use super::entry::{Fate, NONE};
use super::index::{Index, is_late};

/// Maximum number of dots in the plot of latencies.
const MOST_DOTS: usize = 2000;
/// Number of dots for the slowest requests. The plot always has them.
const SLOWEST_DOTS: usize = 200;
/// Maximum number of methods in the table.
const MOST_METHODS: usize = 1000;
/// Where the bars of the histogram begin within each factor of ten, in hundredths: five bars of equal width on a
/// logarithmic scale. A table, because `log10` and `pow` would load libm at every start of the command.
const BARS_OF_DECADE: [u128; 5] = [100, 158, 251, 398, 631];

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Statistics {
    /// Number of records that match, and of all records.
    records: u32,
    all: u32,
    /// Number of records that were looked at. If it is less than `all`, everything else is missing.
    scanned: u32,
    requests: u32,
    notifications: u32,
    errors: u32,
    /// Requests without an answer.
    open: u32,
    cancelled: u32,
    noise: u32,
    stderr: u32,
    bytes_up: u64,
    count_up: u32,
    bytes_down: u64,
    count_down: u32,
    end: u64,
    #[serde(flatten)]
    latency: Latency,
    histogram: Vec<Bar>,
    dots: Vec<Dot>,
    methods: Vec<MethodStatistics>,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Latency {
    #[serde(skip_serializing_if = "Option::is_none")]
    p50: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p95: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Bar {
    from: u64,
    to: u64,
    count: u32,
    errors: u32,
}

#[derive(Clone, Debug, Serialize)]
struct Dot {
    n: u32,
    at: u64,
    took: u64,
    state: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct MethodStatistics {
    method: String,
    dir: &'static str,
    count: u32,
    errors: u32,
    open: u32,
    bytes: u64,
    #[serde(flatten)]
    latency: Latency,
}

#[derive(Default)]
struct MethodCounts {
    count: u32,
    errors: u32,
    open: u32,
    bytes: u64,
    took: Vec<u64>,
}

impl Statistics {
    /// The answer while the filter has not seen all records.
    pub(super) fn unfinished(all: u32, scanned: u32) -> Self {
        Statistics { all, scanned, ..Statistics::default() }
    }
}

/// Counts these records. An answer counts for its request, even if only the answer matches.
pub(super) fn count(index: &Index, numbers: impl Iterator<Item = u32>) -> Statistics {
    let all = index.entries.len();
    let mut found = Statistics { end: index.end, ..Statistics::unfinished(all, all) };
    let mut calls = Vec::new();
    for number in numbers {
        let Some(entry) = index.entries.get(number) else { continue };
        found.records += 1;
        match entry.dir {
            Dir::C2s => {
                found.bytes_up += u64::from(entry.size);
                found.count_up += u32::from(entry.kind.is_message());
            }
            Dir::S2c => {
                found.bytes_down += u64::from(entry.size);
                found.count_down += u32::from(entry.kind.is_message());
            }
            _ => {}
        }
        match entry.kind {
            Kind::Request | Kind::Notification => calls.push(number),
            Kind::Response | Kind::Error if entry.partner != NONE => calls.push(entry.partner),
            Kind::Noise | Kind::Broken | Kind::Invalid => found.noise += 1,
            Kind::Stderr => found.stderr += 1,
            _ => {}
        }
    }
    calls.sort_unstable();
    calls.dedup();
    count_calls(index, &calls, &mut found);
    found
}

fn count_calls(index: &Index, calls: &[u32], found: &mut Statistics) {
    let mut methods = HashMap::<(u32, Dir), MethodCounts>::new();
    let mut dots = Vec::new();
    for &number in calls {
        let Some(entry) = index.entries.get(number) else { continue };
        let method = methods.entry((entry.method, entry.dir)).or_default();
        method.count += 1;
        let answer = Some(entry.partner).filter(|_| entry.kind == Kind::Request);
        let answer = answer.and_then(|answer| index.entries.get(answer));
        method.bytes += u64::from(entry.size) + answer.map_or(0, |it| u64::from(it.size));
        if entry.kind == Kind::Notification {
            found.notifications += 1;
            continue;
        }
        found.requests += 1;
        found.cancelled += u32::from(entry.fate == Fate::Cancelled);
        let is_error = index.entries.get(entry.partner).is_some_and(|it| it.kind == Kind::Error);
        found.errors += u32::from(is_error);
        method.errors += u32::from(is_error);
        match index.took(entry) {
            Some(took) => {
                method.took.push(took);
                let state = if is_error { Some("error") } else { entry.fate.name(false) };
                dots.push(Dot { n: number, at: entry.at, took, state });
            }
            None => {
                found.open += 1;
                method.open += 1;
            }
        }
    }
    found.methods = table(index, methods);
    // The dots are sorted anyway; the quantiles of all need no second list.
    dots.sort_unstable_by_key(|dot| dot.took);
    found.latency = quantiles(dots.len(), |place| dots[place].took);
    found.histogram = histogram(&dots);
    found.dots = sample(dots);
}

fn table(index: &Index, methods: HashMap<(u32, Dir), MethodCounts>) -> Vec<MethodStatistics> {
    let mut table: Vec<_> = methods
        .into_iter()
        .map(|((method, dir), mut counts)| {
            counts.took.sort_unstable();
            MethodStatistics {
                method: index.methods.name(method).unwrap_or("(no method)").to_owned(),
                dir: dir.name(),
                count: counts.count,
                errors: counts.errors,
                open: counts.open,
                bytes: counts.bytes,
                latency: quantiles(counts.took.len(), |place| counts.took[place]),
            }
        })
        .collect();
    table.sort_unstable_by(|a, b| (b.count, &a.method, a.dir).cmp(&(a.count, &b.method, b.dir)));
    table.truncate(MOST_METHODS);
    table
}

/// Quantiles of a sorted list: the smallest value that at least this part of all values does not exceed.
fn quantiles(count: usize, at: impl Fn(usize) -> u64) -> Latency {
    if count == 0 {
        return Latency::default();
    }
    let quantile = |percent: usize| Some(at((count * percent).div_ceil(100).max(1) - 1));
    Latency { p50: quantile(50), p95: quantile(95), p99: quantile(99), max: quantile(100) }
}

/// Bars of equal width on a logarithmic scale, without empty bars at the ends.
fn histogram(dots: &[Dot]) -> Vec<Bar> {
    let edges: Vec<u64> = bar_edges().collect();
    let bar = |took: u64| edges.partition_point(|&edge| edge <= took.max(1)) - 1;
    let edge = |bar: usize| edges.get(bar).copied().unwrap_or(u64::MAX);
    let (Some(first), Some(last)) = (dots.first(), dots.last()) else { return Vec::new() };
    let (first, last) = (bar(first.took), bar(last.took));
    let new = |it| Bar { from: edge(it), to: edge(it + 1), count: 0, errors: 0 };
    let mut bars: Vec<_> = (first..=last).map(new).collect();
    for dot in dots {
        let bar = &mut bars[bar(dot.took) - first];
        bar.count += 1;
        bar.errors += u32::from(dot.state == Some("error"));
    }
    bars
}

/// Where bars begin, in order, from 1 to the largest time.
fn bar_edges() -> impl Iterator<Item = u64> {
    let decades = (0..).map_while(|power| 10_u128.checked_pow(power));
    let edges = decades.flat_map(|decade| BARS_OF_DECADE.map(|part| (decade * part + 50) / 100));
    edges.map_while(|edge| edge.try_into().ok())
}

/// The slowest dots, and some of the others. `dots` are sorted by latency.
fn sample(mut dots: Vec<Dot>) -> Vec<Dot> {
    if dots.len() <= MOST_DOTS {
        return dots;
    }
    let mut sample = dots.split_off(dots.len() - SLOWEST_DOTS);
    let step = dots.len().div_ceil(MOST_DOTS - SLOWEST_DOTS);
    sample.extend(dots.into_iter().step_by(step));
    sample
}

/// A part of the time axis.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Bucket {
    count: u32,
    errors: u32,
    /// Requests whose answer is late or missing.
    late: u32,
}

/// The number of records, errors and late requests in each part of the session.
pub(super) fn overview(index: &Index, buckets: u32, late: Option<u64>) -> Vec<Bucket> {
    let mut found = vec![Bucket::default(); buckets as usize];
    for entry in index.entries.iter() {
        let place = u128::from(entry.at) * u128::from(buckets) / (u128::from(index.end) + 1);
        if let Some(bucket) = found.get_mut(usize::try_from(place).unwrap_or(usize::MAX)) {
            bucket.count += 1;
            let is_bad =
                matches!(entry.kind, Kind::Error | Kind::Noise | Kind::Broken | Kind::Loss);
            bucket.errors += u32::from(is_bad);
            let is_open = entry.kind == Kind::Request && entry.fate == Fate::Open;
            let waited = index.took(entry).filter(|_| entry.kind == Kind::Request);
            let waited = waited.or(is_open.then(|| index.end.saturating_sub(entry.at)));
            let is_missing = is_open && index.has_end();
            bucket.late += u32::from(is_missing || waited.is_some_and(|took| is_late(took, late)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_of_the_list() {
        let list = |count: u64| (1..=count).collect::<Vec<_>>();
        for (count, expect) in [
            (1, [1, 1, 1, 1]),
            (2, [1, 2, 2, 2]),
            (100, [50, 95, 99, 100]),
            (1000, [500, 950, 990, 1000]),
        ] {
            let list = list(count);
            let found = quantiles(list.len(), |place| list[place]);
            assert_eq!([found.p50, found.p95, found.p99, found.max], expect.map(Some), "{count}");
        }
    }

    #[test]
    fn histogram_counts_every_latency_once() {
        let all = [0, 1, 9, 10, 11, 25, 63, 99, 1_000_000, u64::MAX];
        let dots: Vec<_> = all.map(|took| Dot { n: 0, at: 0, took, state: None }).into();
        let bars = histogram(&dots);
        assert!(bars.is_sorted_by(|one, next| one.to == next.from), "{bars:?}");
        for bar in &bars {
            let is_last = bar.to == u64::MAX;
            let inside = |took: u64| bar.from <= took.max(1) && (took.max(1) < bar.to || is_last);
            let expect = all.into_iter().filter(|&took| inside(took)).count();
            assert_eq!(bar.count as usize, expect, "{bar:?}");
        }
        assert_eq!(bars.iter().map(|bar| bar.count as usize).sum::<usize>(), dots.len());
    }

    #[test]
    fn overview_of_the_longest_time() {
        let line = r#"{"seq":1,"at":18446744073709551615,"dir":"s2c","kind":"noise"}"#;
        let path = std::env::temp_dir().join(format!("overview-{}.jsonl", std::process::id()));
        std::fs::write(&path, format!("{{\"duet\":1,\"session\":\"s\"}}\n{line}\n"))
            .expect("a file");
        let mut index = Index::default();
        let advanced = index.advance(std::slice::from_ref(&path), crate::cmd::watch::tests::ALL);
        std::fs::remove_file(path).expect("our file");
        advanced.expect("it can be read");
        let counts: Vec<_> =
            overview(&index, 3, None).iter().map(|it| (it.count, it.errors)).collect();
        assert_eq!(counts, [(0, 0), (0, 0), (1, 1)]);
    }

    #[test]
    fn sample_keeps_the_slowest() {
        let dots: Vec<_> = (0..10_000).map(|took| Dot { n: 0, at: 0, took, state: None }).collect();
        let sample = sample(dots);
        assert!(sample.len() <= MOST_DOTS);
        assert!((9_800..10_000).all(|took| sample.iter().any(|dot| dot.took == took)));
    }
}
