//! Tables of the measurements over sockets.

use crate::load::Load;
use crate::report::markdown::{Align, Table};
use crate::report::number;
use crate::report::tables::{self, Best, Column, NOT_MEASURED, OVER};
use crate::report::view::{Entrant, FIRST, Role, View, short_name};
use crate::server::Pinning;
use crate::sockets::{self, MANY, MANY_BUSY};
use crate::wire::Framing;

/// Time per message over one connection, as a multiple of the bare loop's over TCP: one table for
/// TCP and WebSocket, and one for HTTP, which has other loads.
pub fn ratios(view: View<'_>, cores: Pinning) -> String {
    let all = view.entrants(cores, FIRST);
    let of_streams: Vec<_> =
        all.iter().copied().filter(|entrant| entrant.framing != Framing::Http).collect();
    let of_http: Vec<_> = all
        .into_iter()
        .filter(|entrant| entrant.framing == Framing::Http || entrant.role() == Role::Limit)
        .collect();
    let tables: Vec<_> = [of_streams, of_http]
        .into_iter()
        .map(|entrants| {
            let column = |load| tables::ratio(view, cores, load);
            let columns: Vec<_> = loads(view, cores, &entrants).into_iter().map(column).collect();
            tables::table(OVER, &entrants, &columns, Best::Bold)
        })
        .filter(|table| table != NOT_MEASURED)
        .collect();
    match tables.is_empty() {
        true => NOT_MEASURED.to_owned(),
        false => tables.join("\n") + &tables::skipped(view),
    }
}

/// Loads over one connection with figures for more than the bare loop.
fn loads(view: View<'_>, cores: Pinning, entrants: &[Entrant<'_>]) -> Vec<Load> {
    let is_measured = |load: &Load| {
        let mut takers = entrants.iter().filter(|entrant| !entrant.role().is_limit());
        takers.any(|entrant| view.row(*entrant, cores, *load).is_some())
    };
    sockets::loads().filter(|load| load.connections == 1).filter(is_measured).collect()
}

/// Many connections with a request in flight each: microseconds per message.
pub fn many(view: View<'_>) -> String {
    let entrants = measured(view, MANY, Pinning::OneCore);
    let mut columns = Vec::new();
    for (cores, on) in [(Pinning::OneCore, "one core"), (Pinning::TwoCores, "two cores")] {
        let title = format!("{on}, {}: µs", short_name(MANY));
        columns.push(Column::alike(title, number::micros, move |entrant| {
            view.nanos(entrant, cores, MANY)
        }));
        columns.push(Column::alike("on a core: µs", number::micros, move |entrant| {
            view.cpu_nanos(entrant, cores, MANY)
        }));
    }
    tables::table(OVER, &entrants, &columns, Best::Bold)
}

/// Gain of a second core.
pub fn cores(view: View<'_>) -> String {
    let rate = |cores, title: &'static str| {
        Column::new(title, move |entrant| {
            let nanos = view.nanos(entrant, cores, MANY_BUSY)?;
            Some((nanos, number::rate(nanos)))
        })
    };
    let micros = |title: &'static str, value: fn(&Growth) -> f64| {
        Column::alike(title, number::micros, move |e| Growth::new(view, e).map(|g| value(&g)))
    };
    let times = |title: &'static str, value: fn(&Growth) -> f64| {
        Column::alike(title, number::multiple, move |e| Growth::new(view, e).map(|g| value(&g)))
    };
    let columns = [
        rate(Pinning::TwoCores, "one core"),
        rate(Pinning::BothCores, "both"),
        times("growth, ×", |growth| growth.seen),
        times("possible, ×", |growth| growth.possible),
        micros("server on one core: µs", |growth| growth.server_nanos),
        micros("driver beside both: µs", |growth| growth.driver_nanos),
    ];
    tables::table(OVER, &measured(view, MANY_BUSY, Pinning::BothCores), &columns, Best::Plain)
}

/// Throughput on both cores, as a multiple of that on one.
pub struct Growth {
    pub seen: f64,
    /// The maximum, if both cores were busy all the time: the driver needs its part of them too.
    pub possible: f64,
    /// CPU time per message.
    server_nanos: f64,
    driver_nanos: f64,
}

impl Growth {
    pub fn new(view: View<'_>, entrant: Entrant<'_>) -> Option<Self> {
        let one = view.nanos(entrant, Pinning::TwoCores, MANY_BUSY)?;
        let both = view.nanos(entrant, Pinning::BothCores, MANY_BUSY)?;
        let server_nanos = view.cpu_nanos(entrant, Pinning::TwoCores, MANY_BUSY)?;
        let driver_nanos = view.driver_nanos(entrant, Pinning::BothCores, MANY_BUSY)?;
        let possible = 2.0 * one / (server_nanos + driver_nanos);
        Some(Growth { seen: one / both, possible, server_nanos, driver_nanos })
    }
}

fn measured(view: View<'_>, load: Load, cores: Pinning) -> Vec<Entrant<'_>> {
    let mut entrants = view.entrants(cores, load);
    entrants.retain(|entrant| view.row(*entrant, cores, load).is_some());
    entrants
}

/// Waiting time of a connection among many.
pub fn fairness(view: View<'_>) -> String {
    let all = &view.0.fairness;
    let Some(first) = all.first() else { return NOT_MEASURED.to_owned() };
    let head = [
        "median: ms",
        "99 of 100 below: ms",
        "worst: ms",
        "worst / median",
        "fewest and most answers",
    ];
    let mut columns = vec![("server", Align::Left), (OVER.title(), Align::Left)];
    columns.extend(head.map(|title| (title, Align::Right)));
    let mut table = Table::new(&columns);
    for entrant in measured(view, MANY, Pinning::OneCore) {
        let Some(waits) = view.fairness(entrant) else { continue };
        let millis = [waits.median, waits.p99, waits.worst].map(|n| number::millis(f64::from(n)));
        let mut line = vec![tables::name(entrant), entrant.framing.transport().to_owned()];
        line.extend(millis);
        line.push(number::multiple(waits.ratio()));
        line.push(format!("{}, {}", waits.fewest, waits.most));
        table.add(line);
    }
    format!("{} connections:\n\n{}", number::grouped(first.connections as f64), table.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    /// Cells of the lines that begin with this.
    fn lines(table: &str, begin: &str) -> Vec<Vec<String>> {
        let lines = table.lines().filter(|line| line.starts_with(begin));
        let cells = |line: &str| {
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        lines.map(cells).collect()
    }

    #[test]
    fn http_has_its_own_table_with_the_same_bare_loop() {
        let figures = sample::figures().sockets.unwrap();
        let text = ratios(View(&figures), Pinning::OneCore);
        let limit = lines(&text, "| bare loop | tcp");
        assert_eq!((limit[0].len(), limit[1].len()), (2 + 11 + 4, 2 + 3 + 4));
        assert_eq!(limit[0][2], "1 (100 k/s)");
        let ours = lines(&text, "| **duet-rpc**");
        let seen: Vec<_> = ours.iter().map(|line| (line[1].as_str(), line[2].as_str())).collect();
        assert_eq!(seen, [("tcp", "1.10"), ("websocket", "**1.20**"), ("http", "**1.50**")]);
    }

    #[test]
    fn growth_is_shown_beside_its_maximum() {
        let figures = sample::figures().sockets.unwrap();
        let text = cores(View(&figures));
        // The server needs 48 µs on one core, and the driver needs 7.5 µs beside both.
        assert_eq!(
            lines(&text, "| **duet-rpc** | websocket")[0][2..],
            ["21 k/s", "33 k/s", "1.60", "1.73", "48.0", "7.50"]
        );
    }

    #[test]
    fn many_connections_and_waits_are_shown() {
        let figures = sample::figures().sockets.unwrap();
        let text = many(View(&figures));
        assert_eq!(
            lines(&text, "| **duet-rpc** | http")[0][2..],
            ["**15.0**", "**7.50**", "**15.0**", "**7.50**"]
        );
        let text = fairness(View(&figures));
        assert!(text.starts_with("1,000 connections:"));
        assert_eq!(
            lines(&text, "| rival 1 | http")[0][2..],
            ["2.00", "3.00", "9.00", "4.5", "90, 110"]
        );
    }
}
