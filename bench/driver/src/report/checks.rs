//! Checks of the figures against a goal, in each framing. Without figures there is no check, so
//! that an unmeasured goal never counts as met.

use crate::figures::{Curve, CurveKind, Point, median};
use crate::load::{Handler, Load, TABLE};
use crate::report::number;
use crate::report::view::{Calls, Entrant, FRAMINGS, Role, View, short_name};
use crate::server::Pinning;
use crate::wire::Framing;

/// One check per framing, if it was measured.
pub type Checks = [Option<Check>; FRAMINGS.len()];

pub struct Check {
    pub measured: String,
    pub holds: bool,
}

pub const ALL_CORES: [(Pinning, &str); 2] =
    [(Pinning::OneCore, "one core"), (Pinning::TwoCores, "two cores")];

pub fn is_round_trip(load: &Load) -> bool {
    load.window == 1 && load.size <= 1_000 && load.handler == Handler::Echo
}

fn loads(is_meant: fn(&Load) -> bool) -> impl Iterator<Item = Load> {
    TABLE.into_iter().filter(is_meant)
}

/// 99 of 100 round trips take less than this, on any cores.
pub fn p99_below(view: View<'_>, framings: [Framing; 3], bound: u32) -> Checks {
    framings.map(|framing| {
        let p99 = |cores, load| Some(view.row(Entrant::ours(framing), cores, load)?.latency?.p99);
        let on = |cores| loads(is_round_trip).map(move |load| p99(cores, load));
        let all =
            ALL_CORES.into_iter().flat_map(|(cores, _)| on(cores)).collect::<Option<Vec<_>>>()?;
        let slowest = all.into_iter().max()?;
        let measured = format!("{} µs", number::multiple(f64::from(slowest) / 1e3));
        Some(Check { measured, holds: slowest < bound })
    })
}

/// The loads take at most this multiple of the bare loop's time, on one core, which shows the
/// software. Names the worst.
pub fn ratio_at_most(view: View<'_>, bound: f64, is_meant: fn(&Load) -> bool) -> Checks {
    FRAMINGS.map(|framing| {
        let ratio =
            |load| Some((view.ratio(Entrant::ours(framing), Pinning::OneCore, load)?, load));
        let all = loads(is_meant).map(ratio).collect::<Option<Vec<_>>>()?;
        let (worst, load) = all.into_iter().max_by(|(one, _), (other, _)| one.total_cmp(other))?;
        let measured = format!("{} ({})", number::multiple(worst), short_name(load));
        Some(Check { measured, holds: worst <= bound })
    })
}

/// More round trips per second than this, on one core.
pub fn rate_above(view: View<'_>, framings: [Framing; 3], bound: f64) -> Checks {
    framings.map(|framing| {
        let nanos = |load| view.nanos(Entrant::ours(framing), Pinning::OneCore, load);
        let all = loads(is_round_trip).map(nanos).collect::<Option<Vec<_>>>()?;
        let slowest = all.into_iter().max_by(f64::total_cmp)?;
        Some(Check { measured: number::rate(slowest), holds: 1e9 / slowest > bound })
    })
}

/// No other stack in the same framing is as fast, in any row. Names every row where another stack
/// is as fast or faster, however small the difference.
pub fn ahead(view: View<'_>) -> Checks {
    FRAMINGS.map(|framing| {
        let mut rows = 0;
        let mut lost = Vec::new();
        for ((cores, on), load) in ALL_CORES.into_iter().flat_map(|p| TABLE.map(|load| (p, load))) {
            let peers = view.entrants(cores, load).into_iter();
            let fastest = peers
                .filter(|peer| peer.framing == framing && peer.role() == Role::Peer)
                .filter_map(|peer| Some((view.nanos(peer, cores, load)?, peer.server)))
                .min_by(|(one, _), (other, _)| one.total_cmp(other));
            let own = view.nanos(Entrant::ours(framing), cores, load);
            let Some(((nanos, leader), own)) = fastest.zip(own) else { continue };
            rows += 1;
            if nanos <= own {
                let by = number::multiple(own / nanos);
                lost.push(format!("{} ({on}): {leader} leads by {by} ×", short_name(load)));
            }
        }
        let measured = match lost.is_empty() {
            true => format!("ahead in all {rows}"),
            false => format!("behind in {} of {rows}: {}", lost.len(), lost.join("; ")),
        };
        (rows > 0).then_some(Check { measured, holds: lost.is_empty() })
    })
}

/// System calls under the selected loads: the first failed check, or else the last.
pub fn system_calls(
    view: View<'_>,
    is_meant: fn(&Load) -> bool,
    check: impl Fn(Calls) -> Check,
) -> Checks {
    FRAMINGS.map(|framing| {
        let loads = view.loads_of_system_calls().into_iter().filter(is_meant);
        loads
            .filter_map(|load| view.system_calls(Entrant::ours(framing), load).map(&check))
            .reduce(|one, other| if one.holds { other } else { one })
    })
}

fn curve(view: View<'_>, kind: CurveKind, framing: Framing) -> Option<&Curve> {
    let is_ours =
        |curve: &&Curve| curve.framing == framing && Role::from_server(&curve.server) == Role::Ours;
    view.curves(kind).find(is_ours)
}

/// Over the whole curve, the most is at most this multiple of the least.
pub fn flat(view: View<'_>, kind: CurveKind, bound: f64) -> Checks {
    FRAMINGS.map(|framing| {
        let nanos: Vec<_> = curve(view, kind, framing)?.points.iter().map(|p| p.nanos).collect();
        // A point of the age curve is a single run, while other points are medians of rounds. So it
        // is checked in quarters.
        let runs = match kind {
            CurveKind::Age => nanos.len().div_ceil(4),
            _ => 1,
        };
        let nanos: Vec<_> = nanos.chunks(runs).map(median).collect();
        let most = nanos.iter().copied().max_by(f64::total_cmp)?;
        let least = nanos.iter().copied().min_by(f64::total_cmp)?;
        let ratio = most / least;
        Some(Check { measured: format!("{} ×", number::multiple(ratio)), holds: ratio <= bound })
    })
}

/// No more memory is gained after the first point of the age curve, when all one-time allocations
/// are done.
pub fn memory_gained(view: View<'_>, bound_kib: i64) -> Checks {
    FRAMINGS.map(|framing| {
        let points = &curve(view, CurveKind::Age, framing)?.points;
        let kib = |point: Option<&Point>| i64::try_from(point?.resident_kib).ok();
        let gained = kib(points.last())? - kib(points.first())?;
        Some(Check { measured: format!("{gained} KiB"), holds: gained <= bound_kib })
    })
}

/// The first answer takes at most this multiple of the bare loop's time.
pub fn start_at_most(view: View<'_>, bound: f64) -> Checks {
    FRAMINGS.map(|framing| {
        let ratio = view.start_ratio(Entrant::ours(framing))?;
        Some(Check { measured: format!("{} ×", number::multiple(ratio)), holds: ratio <= bound })
    })
}

pub fn idle_memory_below(view: View<'_>, bound_kib: u64) -> Checks {
    FRAMINGS.map(|framing| {
        let idle = view.startup(Entrant::ours(framing))?.idle_kib;
        let measured = format!("{} MiB", number::mebibytes(idle as f64));
        Some(Check { measured, holds: idle < bound_kib })
    })
}
