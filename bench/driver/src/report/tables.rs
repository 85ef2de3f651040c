//! The tables: each column shows one aspect of a server.

use crate::load::{Load, Shape};
use crate::report::markdown::{Align, Table};
use crate::report::number::{self, NONE};
use crate::report::view::{ALL_FRAMINGS, Calls, Entrant, FIRST, Role, View, short_name};
use crate::server::Pinning;
use crate::wire::Framing;

pub const NOT_MEASURED: &str = "Not measured yet.";

/// Contents of the second column.
#[derive(Clone, Copy)]
pub struct Second {
    title: &'static str,
    name: fn(Framing) -> &'static str,
}

impl Second {
    pub fn title(self) -> &'static str {
        self.title
    }
}

pub const FRAMING: Second = Second { title: "framing", name: Framing::name };
pub const OVER: Second = Second { title: "over", name: Framing::transport };

/// A value to compare, and its text.
type Cell = Option<(f64, String)>;

pub struct Column<'a> {
    title: String,
    cell: Box<dyn Fn(Entrant<'_>) -> Cell + 'a>,
}

impl<'a> Column<'a> {
    pub fn new(title: impl Into<String>, cell: impl Fn(Entrant<'_>) -> Cell + 'a) -> Self {
        Column { title: title.into(), cell: Box::new(cell) }
    }

    /// A column with one number format.
    pub fn alike(
        title: impl Into<String>,
        show: fn(f64) -> String,
        value: impl Fn(Entrant<'_>) -> Option<f64> + 'a,
    ) -> Self {
        Column::new(title, move |entrant| value(entrant).map(|value| (value, show(value))))
    }
}

/// Selects if the least value of each column is bold, in each framing with other stacks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Best {
    Bold,
    Plain,
}

pub fn table(
    second: Second,
    entrants: &[Entrant<'_>],
    columns: &[Column<'_>],
    best: Best,
) -> String {
    if entrants.is_empty() || columns.is_empty() {
        return NOT_MEASURED.to_owned();
    }
    let mut head = vec![("server", Align::Left), (second.title, Align::Left)];
    head.extend(columns.iter().map(|column| (column.title.as_str(), Align::Right)));
    let mut table = Table::new(&head);
    for framing in ALL_FRAMINGS {
        let group: Vec<_> = entrants.iter().filter(|entrant| entrant.framing == framing).collect();
        let has_peers = group.iter().any(|entrant| entrant.role() == Role::Peer);
        let mut lines: Vec<_> =
            group.iter().map(|e| vec![name(**e), (second.name)(framing).into()]).collect();
        for column in columns {
            let cells: Vec<Cell> = group.iter().map(|entrant| (column.cell)(**entrant)).collect();
            let least = group
                .iter()
                .zip(&cells)
                .filter(|(entrant, _)| !entrant.role().is_limit())
                .filter_map(|(_, cell)| cell.as_ref())
                .min_by(|(one, _), (other, _)| one.total_cmp(other))
                .filter(|_| best == Best::Bold && has_peers)
                .map(|(_, shown)| shown);
            for ((line, cell), entrant) in lines.iter_mut().zip(&cells).zip(&group) {
                // A value that looks the same as the best is as good.
                line.push(match cell {
                    Some((_, shown)) if Some(shown) == least && !entrant.role().is_limit() => {
                        format!("**{shown}**")
                    }
                    Some((_, shown)) => shown.clone(),
                    None => NONE.to_owned(),
                });
            }
        }
        lines.into_iter().for_each(|line| table.add(line));
    }
    table.finish()
}

pub fn name(entrant: Entrant<'_>) -> String {
    match entrant.role() {
        Role::Ours => format!("**{}**", entrant.server),
        _ => entrant.server.to_owned(),
    }
}

/// Time per message, as a multiple of the bare loop's.
pub fn ratios(view: View<'_>, cores: Pinning) -> String {
    let columns: Vec<_> =
        view.loads(cores, false).into_iter().map(|load| ratio(view, cores, load)).collect();
    table(FRAMING, &view.entrants(cores, FIRST), &columns, Best::Bold) + &skipped(view)
}

/// The column of a load.
pub fn ratio(view: View<'_>, cores: Pinning, load: Load) -> Column<'_> {
    Column::new(short_name(load), move |entrant| {
        let ratio = view.ratio(entrant, cores, load)?;
        let shown = match entrant.role() {
            Role::Limit => format!("1 ({})", number::rate(view.nanos(entrant, cores, load)?)),
            _ => number::multiple(ratio),
        };
        Some((ratio, shown))
    })
}

/// Lists the servers that could not be measured.
pub fn skipped(view: View<'_>) -> String {
    match view.0.skipped.as_slice() {
        [] => String::new(),
        skipped => {
            format!("\nNot measured, because they were not installed: {}.\n", skipped.join(", "))
        }
    }
}

/// Handlers that wait. The bare loop has none, so the table shows plain times.
pub fn waiting(view: View<'_>) -> String {
    let cores = Pinning::OneCore;
    let loads = view.loads(cores, true);
    let Some(&first) = loads.first() else { return NOT_MEASURED.to_owned() };
    let mut entrants = view.entrants(cores, first);
    entrants.retain(|entrant| !entrant.role().is_limit());
    let mut columns = Vec::new();
    for load in loads {
        let name = short_name(load);
        columns.push(Column::alike(format!("{name}: µs"), number::micros, move |entrant| {
            view.nanos(entrant, cores, load)
        }));
        columns.push(Column::alike("on a core: µs", number::micros, move |entrant| {
            view.cpu_nanos(entrant, cores, load)
        }));
    }
    table(FRAMING, &entrants, &columns, Best::Bold)
}

/// CPU time and context switches of a message, and memory and start of the process.
pub fn cost(view: View<'_>) -> String {
    let cores = Pinning::OneCore;
    let on_a_core = [
        Load::echo(1, 64, Shape::Text),
        Load::echo(64, 64, Shape::Text),
        Load::echo(64, 1_000, Shape::Nested),
        Load::echo(2, 1_000_000, Shape::Nested),
    ];
    let switches = [Load::echo(1, 1_000, Shape::Nested), Load::echo(64, 64, Shape::Text)];
    let mut columns = Vec::new();
    for load in on_a_core {
        let title = format!("µs on a core, {}", short_name(load));
        columns.push(Column::alike(title, number::micros, move |entrant| {
            view.cpu_nanos(entrant, cores, load)
        }));
    }
    for load in switches {
        let title = format!("context switches, {}", short_name(load));
        columns.push(Column::alike(title, number::multiple, move |entrant| {
            view.row(entrant, cores, load).map(|row| row.switches)
        }));
    }
    columns.push(Column::alike("most memory, MiB", number::mebibytes, move |entrant| {
        view.peak_kib(entrant).map(|kib| kib as f64)
    }));
    columns.push(Column::alike("idle memory, MiB", number::mebibytes, move |entrant| {
        view.startup(entrant).map(|startup| startup.idle_kib as f64)
    }));
    columns.push(Column::alike("first answer, ms", number::millis, move |entrant| {
        view.start_nanos(entrant)
    }));
    columns.push(Column::alike("× bare loop", number::multiple, move |entrant| {
        view.start_ratio(entrant)
    }));
    table(FRAMING, &view.entrants(cores, FIRST), &columns, Best::Bold)
}

/// Latency of single requests: the median, and the slow ones.
pub fn latency(view: View<'_>, second: Second) -> String {
    let mut columns = Vec::new();
    for (cores, on) in [(Pinning::OneCore, "one core"), (Pinning::TwoCores, "two cores")] {
        let loads = view.loads(cores, false).into_iter().filter(|load| load.window == 1);
        for load in loads {
            let title = format!("{on}, {}", short_name(load).replace("round trip ", ""));
            columns.push(Column::new(title, move |entrant| {
                let latency = view.row(entrant, cores, load)?.latency?;
                let parts = [latency.p50, latency.p99, latency.p999];
                let shown = parts.map(|nanos| number::multiple(f64::from(nanos) / 1e3));
                Some((f64::from(latency.p99), shown.join(" / ")))
            }));
        }
    }
    table(second, &view.entrants(Pinning::OneCore, FIRST), &columns, Best::Plain)
}

/// System calls per message: one table per load.
pub fn system_calls(view: View<'_>, second: Second) -> String {
    type Count = fn(&Calls) -> f64;
    const KINDS: [(&str, Count); 6] = [
        ("all", |calls| calls.all),
        ("read", |calls| calls.reads),
        ("write", |calls| calls.writes),
        ("epoll_wait, poll", |calls| calls.waits),
        ("futex", |calls| calls.futexes),
        ("others", |calls| calls.others),
    ];
    let entrants = view.entrants(Pinning::OneCore, FIRST);
    let of_load = |load: Load| {
        let column = |(title, count): (&'static str, Count)| {
            Column::alike(title, number::multiple, move |entrant| {
                view.system_calls(entrant, load).map(|calls| count(&calls))
            })
        };
        let entrants: Vec<_> =
            entrants.iter().copied().filter(|e| view.system_calls(*e, load).is_some()).collect();
        let table = table(second, &entrants, &KINDS.map(column), Best::Plain);
        format!("**{}**\n\n{table}", short_name(load))
    };
    let tables: Vec<_> = view.loads_of_system_calls().into_iter().map(of_load).collect();
    match tables.is_empty() {
        true => NOT_MEASURED.to_owned(),
        false => tables.join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    /// Cells of the line that begins with this.
    fn line(table: &str, begin: &str) -> Vec<String> {
        let line = table.lines().find(|line| line.starts_with(begin)).expect(begin);
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    }

    #[test]
    fn ratios_are_to_the_limit_and_the_best_is_bold() {
        let text = ratios(View(&sample::figures()), Pinning::OneCore);
        assert_eq!(line(&text, "| bare loop | lsp")[2], "1 (200 k/s)");
        assert_eq!(line(&text, "| **duet-rpc** | lsp")[2], "**1.10**");
        assert_eq!(line(&text, "| quick 1.0")[2], "2.3");
        assert_eq!(line(&text, "| slow &amp; &lt;old> 2")[2], "28");
        let alone = line(&text, "| **duet-rpc** | ndjson");
        assert_eq!((alone.len(), alone[2].as_str()), (2 + 11, "1.05"));
        assert!(text.contains("not installed: absent 3."));
    }

    #[test]
    fn the_bare_loop_has_no_row_for_waiting_handlers() {
        let text = waiting(View(&sample::figures()));
        assert!(!text.contains("bare loop"));
        assert_eq!(line(&text, "| **duet-rpc** | lsp")[2..4], ["**5.50**", "**2.75**"]);
    }

    #[test]
    fn cost_latency_and_system_calls_are_shown() {
        let figures = sample::figures();
        let view = View(&figures);
        let ours = line(&cost(view), "| **duet-rpc** | ndjson");
        assert_eq!(ours[2], "2.62");
        assert_eq!(ours[8..], ["3.9", "2.5", "1.05", "1.05"]);
        let slow = line(&latency(view, FRAMING), "| slow");
        assert_eq!((slow.len(), slow[2].as_str()), (2 + 6, "140 / 280 / 60"));
        let text = system_calls(view, FRAMING);
        assert_eq!(
            line(&text, "| **duet-rpc** | lsp")[2..],
            ["3.0", "1.00", "1.00", "1.00", "0", "0"]
        );
        assert!(text.contains("**64 × 64 B**"));
    }

    #[test]
    fn cores_without_figures_are_reported() {
        let mut figures = sample::figures();
        figures.rows.retain(|row| row.cores == Pinning::OneCore);
        figures.skipped.clear();
        assert_eq!(ratios(View(&figures), Pinning::TwoCores), NOT_MEASURED);
    }
}
