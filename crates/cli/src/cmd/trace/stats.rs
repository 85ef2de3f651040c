//! `trace stats`: figures for each method.

use std::fmt::Write as _;
use std::io::Write as _;

use duet_rpc_trace::{Dir, MethodStats, SlowRequest, Stats, shown_time};
use serde_json::json;

use super::chosen::Chosen;
use super::input::{Item, Stop, conclude, flush, for_each, output};
use super::timeline::{clean, shown_size};
use crate::args::StatsArgs;
use crate::exit::Exit;

/// Prints the figures on stdout.
pub(super) fn run(args: &StatsArgs) -> Exit {
    conclude(count(args).map(|()| Exit::Success))
}

fn count(args: &StatsArgs) -> Result<(), Stop> {
    let mut chosen = Chosen::twice(&args.file, &args.filter, args.slow, false)?;
    let mut stats = Stats::new();
    let ending = for_each(&args.file, |item| {
        if let Item::Record(record, _) = item {
            let (_, is_counted) = chosen.judge(record);
            stats.handle(record, is_counted);
        }
        Ok(())
    })?;
    stats.finish();
    let mut output = output()?;
    let text = if args.json { as_json(&stats) } else { as_table(&stats) + &slowest(&stats) };
    output.write_all(text.as_bytes()).map_err(Stop::Writing)?;
    flush(&mut output)?;
    ending.warn(&args.file);
    Ok(())
}

pub(in crate::cmd) fn as_json(stats: &Stats) -> String {
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
    let mut whole = json!({
        "messages": stats.messages(),
        "noise": stats.noise(),
        "duration": stats.duration(),
        "methods": methods,
    });
    let as_json = |it: &SlowRequest| {
        json!({
            "took": it.took, "method": it.method, "id": it.id, "request": it.request, "answer": it.answer,
        })
    };
    if !stats.slowest().is_empty() {
        whole["slowest"] = stats.slowest().iter().map(as_json).collect();
    }
    format!("{whole}\n")
}

const TITLES: [&str; 10] =
    ["method", "dir", "count", "errors", "open", "p50", "p95", "p99", "max", "bytes"];

fn as_table(stats: &Stats) -> String {
    let mut text = method_table(stats);
    let (messages, noise) = (stats.messages(), stats.noise());
    let duration = shown_time(stats.duration());
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    let (s, each) = (plural(messages), plural(noise));
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "\n{messages} message{s} in {duration}, {noise} record{each} of stray or broken bytes"
    );
    text
}

/// A row for each method.
pub(in crate::cmd) fn method_table(stats: &Stats) -> String {
    let mut rows = vec![TITLES.map(str::to_owned)];
    rows.extend(stats.methods().into_iter().map(|(dir, method, row)| cells(dir, method, row)));
    aligned(&rows, |column| column < 2)
}

/// The slowest requests, with the records to look at.
fn slowest(stats: &Stats) -> String {
    if stats.slowest().is_empty() {
        return String::new();
    }
    let mut rows = vec![["slowest", "method", "id", "request", "answer"].map(str::to_owned)];
    rows.extend(stats.slowest().iter().map(|it| {
        let (request, answer) = (format!("record {}", it.request), format!("record {}", it.answer));
        [shown_time(it.took), clean(&it.method), clean(&it.id), request, answer]
    }));
    format!("\n{}", aligned(&rows, |column| column > 0))
}

/// Lines with columns of equal width, at the left or at the right.
fn aligned<const N: usize>(rows: &[[String; N]], is_left: impl Fn(usize) -> bool) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            // Writing to a string does not fail.
            let _ = match is_left(column) {
                true => write!(line, "{cell:width$}  "),
                false => write!(line, "{cell:>width$}  "),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
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
