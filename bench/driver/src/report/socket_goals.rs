//! The goals over sockets, and verdicts computed from the figures.

use crate::contenders::{OURS, OURS_AS_TREE};
use crate::load::Load;
use crate::report::checks::{self, ALL_CORES, Check, Checks};
use crate::report::goals::{self, Goal, MESSAGES_A_SECOND, P99_NANOS, Seen};
use crate::report::number;
use crate::report::socket_tables::Growth;
use crate::report::view::{Entrant, Role, View, short_name};
use crate::server::Pinning;
use crate::sockets;
use crate::wire::Framing;

/// In the order of the columns.
const TRANSPORTS: [Framing; 3] = [Framing::Ndjson, Framing::WebSocket, Framing::Http];

/// Below 1, because both cores always do some other work, and rounds differ by a quarter.
const OF_POSSIBLE: f64 = 0.8;
const WORST_WAIT: f64 = 10.0;

pub fn table(view: View<'_>) -> String {
    goals::show(goals(view), TRANSPORTS.map(Framing::transport))
}

fn goals(view: View<'_>) -> Vec<Goal> {
    let goal =
        |name, text, bound: String, checks| Goal { name, text, bound, seen: Seen::Here(checks) };
    vec![
        goal(
            "S1",
            "99 of 100 round trips up to 1 KB, on one core and on two",
            format!("< {} ms", P99_NANOS / 1_000_000),
            checks::p99_below(view, TRANSPORTS, P99_NANOS),
        ),
        goal(
            "S2",
            "messages per second, in round trips up to 1 KB on one core",
            format!("> {}", number::grouped(MESSAGES_A_SECOND)),
            checks::rate_above(view, TRANSPORTS, MESSAGES_A_SECOND),
        ),
        goal(
            "S2",
            "ahead of jsonrpsee under every load, on one core and on two, params as text on both sides",
            "all".to_owned(),
            ahead(view, OURS, |rival| !is_tree(rival)),
        ),
        goal(
            "S2",
            "the same on one core, a tree of the params on both sides",
            "all".to_owned(),
            ahead(view, OURS_AS_TREE, is_tree),
        ),
        goal(
            "S4",
            "gain of a second core, relative to the possible gain",
            format!("≥ {OF_POSSIBLE}"),
            grows(view),
        ),
        goal(
            "S4",
            "worst wait of a connection among 1,000, relative to the median",
            format!("≤ {WORST_WAIT} ×"),
            fair(view),
        ),
    ]
}

fn is_tree(server: &str) -> bool {
    server.ends_with(", as a tree")
}

/// No rival is as fast over the same transport, in any row. Plain TCP has no rivals, so those over
/// other transports stand in.
fn ahead(view: View<'_>, own: &'static str, is_rival: fn(&str) -> bool) -> Checks {
    TRANSPORTS.map(|framing| {
        let ours = Entrant { server: own, framing };
        let mut rows = 0;
        let mut lost = Vec::new();
        for ((cores, on), load) in
            ALL_CORES.into_iter().flat_map(|cores| sockets::loads().map(move |load| (cores, load)))
        {
            let Some((ratio, rival)) = fastest(view, ours, cores, load, is_rival) else { continue };
            rows += 1;
            if ratio >= 1.0 {
                let by = number::multiple(ratio);
                lost.push(format!("{} ({on}): {rival} leads by {by} ×", short_name(load)));
            }
        }
        let measured = match lost.is_empty() {
            true => format!("ahead in all {rows}"),
            false => format!("behind in {} of {rows}: {}", lost.len(), lost.join("; ")),
        };
        (rows > 0).then_some(Check { measured, holds: lost.is_empty() })
    })
}

/// The closest rival, and the ratio of our time to its time. Each round is compared with the rival's
/// round at the same time, and the ratio is the median.
fn fastest<'a>(
    view: View<'a>,
    ours: Entrant<'_>,
    cores: Pinning,
    load: Load,
    is_rival: fn(&str) -> bool,
) -> Option<(f64, &'a str)> {
    let own = view.row(ours, cores, load)?;
    view.entrants(cores, load)
        .into_iter()
        .filter(|rival| rival.role() == Role::Peer && is_rival(rival.server))
        .filter(|rival| ours.framing == Framing::Ndjson || ours.framing == rival.framing)
        .filter_map(|rival| Some((own.ratio_to(view.row(rival, cores, load)?), rival.server)))
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
}

fn grows(view: View<'_>) -> Checks {
    TRANSPORTS.map(|framing| {
        let growth = Growth::new(view, Entrant::ours(framing))?;
        let [seen, possible] = [growth.seen, growth.possible].map(number::multiple);
        let part = growth.seen / growth.possible;
        let measured = format!("{} ({seen} of {possible} ×)", number::multiple(part));
        Some(Check { measured, holds: part >= OF_POSSIBLE })
    })
}

fn fair(view: View<'_>) -> Checks {
    TRANSPORTS.map(|framing| {
        let ratio = view.fairness(Entrant::ours(framing))?.ratio();
        Some(Check {
            measured: format!("{} ×", number::multiple(ratio)),
            holds: ratio <= WORST_WAIT,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figures;
    use crate::report::sample;
    use crate::sockets::{MANY, MANY_BUSY};

    fn figures() -> Figures {
        *sample::figures().sockets.unwrap()
    }

    /// Names of the missed goals, each with the value over WebSocket.
    fn missed(figures: &Figures) -> Vec<(&'static str, String)> {
        goals(View(figures))
            .into_iter()
            .filter(|goal| goal.verdict() == "**not met**")
            .map(|goal| (goal.name, goal.measured()[1].clone()))
            .collect()
    }

    #[test]
    fn good_figures_meet_all_goals() {
        let figures = figures();
        assert_eq!(missed(&figures), []);
        let text = table(View(&figures));
        assert_eq!(text.matches("| met |").count(), 6, "{text}");
        let ahead = text.lines().find(|line| line.contains("params as text")).unwrap();
        assert!(
            ahead.contains("| ahead in all 32 | ahead in all 32 | ahead in all 16 |"),
            "{text}"
        );
    }

    #[test]
    fn plain_tcp_is_compared_with_rivals_over_other_transports() {
        let mut figures = figures();
        let of_http = |row: &&mut crate::figures::Row| {
            row.server == "rival 1" && row.framing == Framing::Http && row.load == MANY
        };
        figures.rows.iter_mut().find(of_http).unwrap().nanos = vec![10_000.0];
        let measured = goals(View(&figures)).remove(2).measured();
        assert!(measured[0].starts_with("behind in 1 of 32: 64 connections"), "{measured:?}");
        assert_eq!(measured[1], "ahead in all 32");
        assert!(measured[2].ends_with("(one core): rival 1 leads by 1.50 ×"), "{measured:?}");
    }

    #[test]
    fn little_growth_and_long_waits_are_noticed() {
        let mut figures = figures();
        for row in figures.rows.iter_mut().filter(|row| row.load == MANY_BUSY) {
            row.nanos = vec![50_000.0];
        }
        figures.fairness.iter_mut().for_each(|waits| waits.worst = 20_200_000);
        let missed = missed(&figures);
        let [("S4", growth), ("S4", fair)] = &missed[..] else { panic!("{missed:?}") };
        assert!(growth.contains("(1.00 of "), "{growth}");
        assert_eq!(fair, "10 ×");
    }

    #[test]
    fn missing_figures_are_not_judged() {
        assert!(goals(View(&Figures::default())).iter().all(|g| g.verdict() == "not measured"));
    }
}
