//! `trace stats`: figures for each method.

use std::fmt::Write as _;
use std::io::Write as _;

use duet_rpc_trace::{Dir, MethodStats, Stats, shown_time};
use serde_json::json;

use super::chosen::{Chosen, SLOW};
use super::input::{Item, Stop, conclude, flush, for_each, output};
use super::timeline::{clean, shown_size};
use crate::args::StatsArgs;
use crate::exit::Exit;

/// Prints the figures on stdout.
pub(super) fn run(args: &StatsArgs) -> Exit {
    conclude(count(args).map(|()| Exit::Success))
}

fn count(args: &StatsArgs) -> Result<(), Stop> {
    let mut chosen = Chosen::twice(&args.file, &args.filter, SLOW, false)?;
    let mut stats = Stats::new();
    for_each(&args.file, |item| {
        if let Item::Record(record, _) = item {
            let (_, is_counted) = chosen.judge(record);
            stats.handle(record, is_counted);
        }
        Ok(())
    })?;
    stats.finish();
    let mut output = output()?;
    let text = if args.json { as_json(&stats) } else { as_table(&stats) };
    output.write_all(text.as_bytes()).map_err(Stop::Writing)?;
    flush(&mut output)
}

fn as_json(stats: &Stats) -> String {
    let methods: Vec<_> = stats
        .methods()
        .into_iter()
        .map(|(dir, method, row)| {
            json!({
                "method": method,
                "dir": dir.name(),
                "count": row.count,
                "errors": row.errors,
                "unanswered": row.unanswered,
                "p50": row.percentile(50),
                "p95": row.percentile(95),
                "p99": row.percentile(99),
                "max": row.max(),
                "bytes": row.bytes,
            })
        })
        .collect();
    let whole = json!({
        "messages": stats.messages(),
        "noise": stats.noise(),
        "duration": stats.duration(),
        "methods": methods,
    });
    format!("{whole}\n")
}

const TITLES: [&str; 10] =
    ["method", "dir", "count", "errors", "open", "p50", "p95", "p99", "max", "bytes"];

fn as_table(stats: &Stats) -> String {
    let mut rows = vec![TITLES.map(str::to_owned)];
    rows.extend(stats.methods().into_iter().map(|(dir, method, row)| cells(dir, method, row)));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<_> = (0..TITLES.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            // Writing to a string does not fail.
            let _ = match column {
                0 | 1 => write!(line, "{cell:width$}  "),
                _ => write!(line, "{cell:>width$}  "),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    let (messages, noise) = (stats.messages(), stats.noise());
    let duration = shown_time(stats.duration());
    let _ = writeln!(
        text,
        "\n{messages} messages in {duration}, {noise} records that are not messages"
    );
    text
}

fn cells(dir: Dir, method: &str, row: &MethodStats) -> [String; 10] {
    let time = |micros: Option<u64>| micros.map(shown_time).unwrap_or_default();
    let count = |count: u64| if count == 0 { String::new() } else { count.to_string() };
    [
        clean(method),
        dir.name().to_owned(),
        row.count.to_string(),
        count(row.errors),
        count(row.unanswered),
        time(row.percentile(50)),
        time(row.percentile(95)),
        time(row.percentile(99)),
        time(row.max()),
        shown_size(row.bytes),
    ]
}
