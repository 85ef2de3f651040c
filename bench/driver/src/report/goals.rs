//! The goals, and verdicts computed from the figures.

use crate::figures::CurveKind;
use crate::load::{Handler, Load};
use crate::report::checks::{self, Check, Checks};
use crate::report::markdown::{Align, Table};
use crate::report::number::{self, NONE};
use crate::report::view::{FRAMINGS, View};
use crate::wire::Framing;

pub const P99_NANOS: u32 = 1_000_000;
const ROUND_TRIP: f64 = 1.15;
const SMALL_PIPELINE: f64 = 1.2;
const LARGE_PIPELINE: f64 = 1.6;
pub const MESSAGES_A_SECOND: f64 = 10_000.0;
const CALLS_PIPELINED: f64 = 0.1;
/// System calls per message are the difference between two runs, and no two runs are quite alike.
const CALLS_BY_CHANCE: f64 = 0.01;
/// Rounds differ by a quarter. The curves span five powers of ten, so a cost that grows along them
/// exceeds this by far.
const FLAT: f64 = 1.5;
const GAINED_KIB: i64 = 256;
const START: f64 = 2.0;
const IDLE_KIB: u64 = 4 * 1024;

pub struct Goal {
    pub name: &'static str,
    pub text: &'static str,
    pub bound: String,
    pub seen: Seen,
}

/// Evidence for a goal.
pub enum Seen {
    Here(Checks),
    /// A test.
    Elsewhere,
}

impl Goal {
    pub fn verdict(&self) -> &'static str {
        let Seen::Here(checks) = &self.seen else { return "see the regression guard below" };
        let mut checks = checks.iter().flatten().peekable();
        match (checks.peek().is_some(), checks.all(|check| check.holds)) {
            (false, _) => "not measured",
            (true, true) => "met",
            (true, false) => "**not met**",
        }
    }

    pub fn measured(self) -> [String; FRAMINGS.len()] {
        match self.seen {
            Seen::Here(checks) => {
                checks.map(|check| check.map_or(NONE.to_owned(), |check| check.measured))
            }
            Seen::Elsewhere => FRAMINGS.map(|_| NONE.to_owned()),
        }
    }
}

pub fn table(view: View<'_>) -> String {
    show(goals(view), FRAMINGS.map(Framing::name))
}

/// One line per goal, with a column for each check.
pub fn show(goals: Vec<Goal>, [first, second, third]: [&str; 3]) -> String {
    let head = ["", "goal", "bound", first, second, third, "verdict"];
    let mut table = Table::new(&head.map(|title| (title, Align::Left)));
    for goal in goals {
        let (verdict, bound) = (goal.verdict().to_owned(), goal.bound.clone());
        let mut cells = vec![goal.name.to_owned(), goal.text.to_owned(), bound];
        cells.extend(goal.measured());
        cells.push(verdict);
        table.add(cells);
    }
    table.finish()
}

fn goals(view: View<'_>) -> Vec<Goal> {
    let here =
        |name, text, bound: String, checks| Goal { name, text, bound, seen: Seen::Here(checks) };
    let elsewhere = |name, text, bound: &str| {
        let bound = bound.to_owned();
        Goal { name, text, bound, seen: Seen::Elsewhere }
    };
    let times = |bound: f64| format!("≤ {bound} ×");
    vec![
        here(
            "S1",
            "99 of 100 round trips up to 1 KB, on one core and on two",
            format!("< {} ms", P99_NANOS / 1_000_000),
            checks::p99_below(view, FRAMINGS, P99_NANOS),
        ),
        here(
            "S1",
            "round trip of 64 B and 1 KB, relative to the bare loop",
            times(ROUND_TRIP),
            checks::ratio_at_most(view, ROUND_TRIP, checks::is_round_trip),
        ),
        here(
            "S1",
            "pipelined 64 B, relative to the bare loop",
            times(SMALL_PIPELINE),
            checks::ratio_at_most(view, SMALL_PIPELINE, |l| is_pipelined(l) && l.size == 64),
        ),
        here(
            "S1",
            "pipelined 1 KB, 64 KB and 1 MB, relative to the bare loop",
            times(LARGE_PIPELINE),
            checks::ratio_at_most(view, LARGE_PIPELINE, |l| is_pipelined(l) && l.size > 64),
        ),
        here(
            "",
            "reads, writes and waits for readiness per round trip",
            "≤ 1 each".to_owned(),
            checks::system_calls(
                view,
                |load| load.window == 1,
                |calls| {
                    let each = [calls.reads, calls.writes, calls.waits];
                    let holds = each.iter().all(|count| *count <= 1.0 + CALLS_BY_CHANCE);
                    Check { measured: each.map(number::multiple).join(", "), holds }
                },
            ),
        ),
        here(
            "",
            "system calls per pipelined message of 64 B",
            format!("< {CALLS_PIPELINED}"),
            checks::system_calls(
                view,
                |load| load.window > 1,
                |calls| {
                    let measured = number::multiple(calls.all);
                    Check { measured, holds: calls.all < CALLS_PIPELINED }
                },
            ),
        ),
        here(
            "",
            "futex calls per message, by which threads wake each other",
            "none".to_owned(),
            checks::system_calls(
                view,
                |_| true,
                |calls| {
                    let measured = number::multiple(calls.futexes);
                    Check { measured, holds: calls.futexes <= CALLS_BY_CHANCE }
                },
            ),
        ),
        here(
            "S2",
            "messages per second, in round trips up to 1 KB on one core",
            format!("> {}", number::grouped(MESSAGES_A_SECOND)),
            checks::rate_above(view, FRAMINGS, MESSAGES_A_SECOND),
        ),
        here(
            "S2",
            "ahead of every other stack, under every load, on one core and on two",
            "all".to_owned(),
            checks::ahead(view),
        ),
        elsewhere("S3", "allocations per message, beyond those of the handler's own types", "none"),
        here(
            "S4",
            "cost as pending calls grow, highest relative to lowest",
            times(FLAT),
            checks::flat(view, CurveKind::PendingCalls, FLAT),
        ),
        here(
            "S4",
            "cost as running requests grow, highest relative to lowest",
            times(FLAT),
            checks::flat(view, CurveKind::RunningRequests, FLAT),
        ),
        here(
            "S4",
            "cost as the process ages, worst quarter relative to best",
            times(FLAT),
            checks::flat(view, CurveKind::Age, FLAT),
        ),
        here(
            "S4",
            "memory gained with age",
            format!("≤ {GAINED_KIB} KiB"),
            checks::memory_gained(view, GAINED_KIB),
        ),
        here(
            "S5",
            "start to first answer, relative to the bare loop",
            times(START),
            checks::start_at_most(view, START),
        ),
        here(
            "S5",
            "memory of a server on the library when idle",
            format!("< {} MiB", IDLE_KIB / 1024),
            checks::idle_memory_below(view, IDLE_KIB),
        ),
        elsewhere("S5", "memory of the command itself when idle, without file pages", "≤ 512 KiB"),
    ]
}

fn is_pipelined(load: &Load) -> bool {
    load.window > 1 && load.handler == Handler::Echo
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders::OURS;
    use crate::figures::{Figures, Latency, Row};
    use crate::load::TABLE;
    use crate::report::sample;
    use crate::server::Pinning;

    /// Names of the missed goals, each with the value in lsp.
    fn missed(figures: &Figures) -> Vec<(&'static str, String)> {
        goals(View(figures))
            .into_iter()
            .filter(|goal| goal.verdict() == "**not met**")
            .map(|goal| (goal.text, goal.measured()[0].clone()))
            .collect()
    }

    fn of_ours(figures: &mut Figures) -> impl Iterator<Item = &mut Row> {
        let is_ours = |row: &&mut Row| {
            row.server == OURS && row.framing == Framing::Lsp && row.cores == Pinning::OneCore
        };
        figures.rows.iter_mut().filter(is_ours)
    }

    #[test]
    fn good_figures_meet_all_goals() {
        let figures = sample::figures();
        assert_eq!(missed(&figures), []);
        let text = table(View(&figures));
        assert!(text.contains("ahead in all 28"), "{text}");
        assert_eq!(text.matches("see the regression guard").count(), 2);
    }

    #[test]
    fn a_slow_load_is_named() {
        let mut figures = sample::figures();
        let slow = of_ours(&mut figures).find(|row| row.load == TABLE[6]).unwrap();
        slow.nanos.iter_mut().for_each(|nanos| *nanos *= 2.0);
        let expected =
            ("pipelined 1 KB, 64 KB and 1 MB, relative to the bare loop", "2.2 (64 × 1 KB nested)");
        assert_eq!(missed(&figures), [(expected.0, expected.1.to_owned())]);
    }

    #[test]
    fn the_leader_is_named() {
        let mut figures = sample::figures();
        let quick = figures.rows.iter_mut().find(|row| {
            row.server == "quick 1.0" && row.cores == Pinning::TwoCores && row.load == TABLE[13]
        });
        quick.unwrap().nanos = vec![5_000.0];
        let [(_, measured)] = &missed(&figures)[..] else { panic!("one goal is missed") };
        assert_eq!(
            measured,
            "behind in 1 of 28: 64 × 64 B, handler sleeps 1 ms (two cores): quick 1.0 leads by \
             1.10 ×"
        );
    }

    #[test]
    fn slow_answers_and_system_calls_are_noticed() {
        let mut figures = sample::figures();
        for row in of_ours(&mut figures) {
            row.latency = row.latency.map(|latency| Latency { p99: 1_000_000, ..latency });
        }
        for calls in figures.system_calls.iter_mut().filter(|calls| calls.server == OURS) {
            calls.by_name[1].1 *= 2.0;
            calls.by_name.push(("futex".to_owned(), 0.3));
            calls.all += 0.3;
        }
        let measured: Vec<_> = missed(&figures).into_iter().map(|(_, measured)| measured).collect();
        assert_eq!(measured, ["1,000 µs", "1.00, 2.0, 1.00", "0.36", "0.30"]);
    }

    #[test]
    fn growing_cost_and_memory_are_noticed() {
        let mut figures = sample::figures();
        for curve in figures.curves.iter_mut().filter(|curve| curve.server == OURS) {
            let last = curve.points.last_mut().unwrap();
            last.nanos *= 2.0;
            last.resident_kib += 300;
        }
        for startup in figures.startups.iter_mut().filter(|startup| startup.server == OURS) {
            startup.start_nanos[0] *= 2.0;
            startup.idle_kib = 4_096;
        }
        let measured: Vec<_> = missed(&figures).into_iter().map(|(_, measured)| measured).collect();
        assert_eq!(measured, ["2.0 ×", "2.0 ×", "2.0 ×", "300 KiB", "2.2 ×", "4.0 MiB"]);
    }

    #[test]
    fn missing_figures_are_not_judged() {
        let verdicts = |figures: &Figures| -> Vec<_> {
            goals(View(figures)).iter().map(Goal::verdict).collect()
        };
        let mut figures = sample::figures();
        figures.rows.retain(|row| row.load != TABLE[0]);
        assert_eq!(verdicts(&figures)[..3], ["not measured", "not measured", "met"]);
        assert!(!verdicts(&Figures::default()).contains(&"met"));
    }
}
