//! `trace diff`: compares two traces.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write, stdout};
use std::path::Path;

use duet_rpc_trace::{Change, Difference, Side, diff, parts, shown_time};
use serde_json::{Value, json};

use super::input::{Item, Stop, TraceSource, conclude, flush, is_stdin, name, output};
use super::timeline::clean;
use crate::args::{DiffArgs, Global};
use crate::console;
use crate::exit::Exit;

/// Characters of a value that are shown.
const SHOWN: usize = 60;

/// Prints the differences on stdout.
pub(super) fn run(args: &DiffArgs, global: &Global) -> Exit {
    conclude(compare(args, global))
}

/// The bytes of a trace, for reading twice.
pub(in crate::cmd) trait Trace: Read + Seek {}

impl<T: Read + Seek> Trace for T {}

fn compare(args: &DiffArgs, global: &Global) -> Result<Exit, Stop> {
    if is_stdin(&args.first) && is_stdin(&args.second) {
        return Err(Stop::Input("only one of the traces can be stdin".to_owned()));
    }
    let options = args.compare.options();
    let (first, second) = (open(&args.first)?, open(&args.second)?);
    let mut report = Report { changes: Vec::new(), counts: Counts::default(), written: Ok(()) };
    let mut output = output()?;
    let in_color = console::may_color(&stdout(), global.no_color);
    diff(first, second, &options, |difference| {
        report.counts.add(&difference);
        match args.json {
            true => report.changes.extend(as_json(difference)),
            false if report.written.is_ok() => {
                report.written = write(&difference, in_color, &mut output);
            }
            false => {}
        }
    })
    .map_err(|(place, error)| {
        let path = if place == 0 { &args.first } else { &args.second };
        Stop::Input(format!("{}: {error}", name(path)))
    })?;
    report.written.map_err(Stop::Writing)?;
    let summary = match args.json {
        true => {
            let mut whole = report.counts.as_json();
            whole["differences"] = report.changes.into();
            writeln!(output, "{whole}")
        }
        false => writeln!(output, "{}", report.counts.summary(args.compare.tolerance.is_some())),
    };
    summary.map_err(Stop::Writing)?;
    flush(&mut output)?;
    Ok(if report.counts.is_same() { Exit::Success } else { Exit::Failed })
}

struct Report {
    /// For one JSON object.
    changes: Vec<Value>,
    counts: Counts,
    written: std::io::Result<()>,
}

/// The number of pairs of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cmd) struct Counts {
    same: u64,
    changed: u64,
    missing: u64,
    extra: u64,
    slower: u64,
}

impl Counts {
    pub(in crate::cmd) fn add(&mut self, difference: &Difference) {
        *match difference {
            Difference::Same(_) => &mut self.same,
            Difference::Changed(..) => &mut self.changed,
            Difference::Missing(_) => &mut self.missing,
            Difference::Slower(..) => &mut self.slower,
            _ => &mut self.extra,
        } += 1;
    }

    pub(in crate::cmd) fn is_same(&self) -> bool {
        self.changed + self.missing + self.extra + self.slower == 0
    }

    pub(in crate::cmd) fn summary(&self, has_times: bool) -> String {
        let Counts { same, changed, missing, extra, slower } = self;
        let slower = if has_times { format!(", {slower} slower") } else { String::new() };
        format!("{same} same, {changed} changed, {missing} missing, {extra} extra{slower}")
    }

    pub(in crate::cmd) fn as_json(&self) -> Value {
        let Counts { same, changed, missing, extra, slower } = self;
        json!({
            "same": same, "changed": changed, "missing": missing, "extra": extra, "slower": slower,
        })
    }
}

/// Opens a trace, and checks that it is one. Stdin and the parts of a rotated trace are read into memory.
pub(in crate::cmd) fn open(path: &Path) -> Result<Box<dyn Trace>, Stop> {
    let error = |error| Stop::reading(path, &error);
    let mut bytes = Vec::new();
    if is_stdin(path) {
        console::stdin().and_then(|input| input.lock().read_to_end(&mut bytes)).map_err(error)?;
    } else if let [_, _, ..] = &parts(path)[..] {
        for part in parts(path) {
            File::open(part).and_then(|mut part| part.read_to_end(&mut bytes)).map_err(error)?;
        }
    } else {
        let mut file = File::open(path).map_err(error)?;
        check_begin(path, &mut file)?;
        check_end(path, &mut file).map_err(error)?;
        return Ok(Box::new(file));
    }
    check_begin(path, &bytes[..])?;
    let mut bytes = Cursor::new(bytes);
    check_end(path, &mut bytes).map_err(error)?;
    Ok(Box::new(bytes))
}

/// Reports an end in the middle of a line, which the comparison does not read.
fn check_end(path: &Path, input: &mut impl Trace) -> io::Result<()> {
    let mut last = [0];
    input.seek(SeekFrom::End(-1))?;
    input.read_exact(&mut last)?;
    if last != *b"\n" {
        console::say(format_args!(
            "{}: the last line is not whole and not read: the recorder still writes, or was killed",
            name(path)
        ));
    }
    Ok(())
}

/// Checks the header. The comparison reads the other lines.
fn check_begin(path: &Path, input: impl Read) -> Result<(), Stop> {
    let mut source = TraceSource::new(path, input);
    let mut stop_at_record = |item: Item<'_, '_>| match item {
        Item::Header(_) => Ok(()),
        Item::Record(..) => Err(Stop::Done),
    };
    match source.read_all(&mut stop_at_record) {
        Err(Stop::Done) => Ok(()),
        Err(stop) => Err(stop),
        Ok(()) => source.check_header(),
    }
}

/// Writes the lines of a difference. A pair without one has none.
pub(in crate::cmd) fn write(
    difference: &Difference,
    in_color: bool,
    output: &mut impl Write,
) -> std::io::Result<()> {
    let (sign, color, side, changes): (_, _, &Side, &[Change]) = match difference {
        Difference::Changed(side, changes) => ("changed", "33", side, changes),
        Difference::Missing(side) => ("missing", "31", side, &[]),
        Difference::Slower(side, ..) => ("slower", "35", side, &[]),
        Difference::Extra(side) => ("extra", "32", side, &[]),
        _ => return Ok(()),
    };
    let sign = if in_color { format!("\x1b[{color}m{sign:7}\x1b[0m") } else { format!("{sign:7}") };
    let (dir, method, seq) = (side.dir.name(), clean(&side.method), side.seq);
    writeln!(output, "{sign} {dir} {method} (record {seq})")?;
    if let Difference::Slower(_, old, new) = difference {
        writeln!(output, "        {} → {}", shown_time(*old), shown_time(*new))?;
    }
    for Change { path, old, new, .. } in changes {
        writeln!(
            output,
            "        {}: {} → {}",
            clean(path),
            shown(old.as_ref()),
            shown(new.as_ref())
        )?;
    }
    Ok(())
}

/// The beginning of a value.
pub(in crate::cmd) fn shown(value: Option<&Value>) -> String {
    let text = value.map_or("nothing".to_owned(), ToString::to_string);
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => clean(&text[..end]) + "…",
        None => clean(&text),
    }
}

/// The difference as JSON. A pair without one has none.
pub(in crate::cmd) fn as_json(difference: Difference) -> Option<Value> {
    let row = |kind: &str, side: Side, changes: Vec<Change>| {
        let changes =
            changes.into_iter().map(|it| json!({"path": it.path, "old": it.old, "new": it.new}));
        let changes: Vec<_> = changes.collect();
        let (dir, method) = (side.dir.name(), side.method);
        json!({"kind": kind, "dir": dir, "method": method, "seq": side.seq, "changes": changes})
    };
    match difference {
        Difference::Changed(side, changes) => Some(row("changed", side, changes)),
        Difference::Missing(side) => Some(row("missing", side, Vec::new())),
        Difference::Extra(side) => Some(row("extra", side, Vec::new())),
        Difference::Slower(side, old, new) => {
            let mut row = row("slower", side, Vec::new());
            (row["old"], row["new"]) = (old.into(), new.into());
            Some(row)
        }
        _ => None,
    }
}
