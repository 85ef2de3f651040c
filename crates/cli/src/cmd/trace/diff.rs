//! `trace diff`: compares two traces.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write, stdout};
use std::path::Path;

use duet_rpc_trace::{Change, DiffOptions, Difference, Side, diff, parts};
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
trait Trace: Read + Seek {}

impl<T: Read + Seek> Trace for T {}

fn compare(args: &DiffArgs, global: &Global) -> Result<Exit, Stop> {
    if is_stdin(&args.first) && is_stdin(&args.second) {
        return Err(Stop::Input("only one of the traces can be stdin".to_owned()));
    }
    let mut options = DiffOptions::default();
    options.ignore.clone_from(&args.ignore);
    options.ignore_methods.clone_from(&args.ignore_method);
    options.is_unordered = args.unordered;
    let (first, second) = (open(&args.first)?, open(&args.second)?);
    let mut report = Report { changes: Vec::new(), counts: [0; 4], written: Ok(()) };
    let mut output = output()?;
    let in_color = console::may_color(&stdout(), global.no_color);
    diff(first, second, &options, |difference| {
        report.count(&difference);
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
    let [same, changed, missing, extra] = report.counts;
    let summary = match args.json {
        true => {
            let changes = report.changes;
            let counts = json!({
                "same": same, "changed": changed, "missing": missing, "extra": extra, "differences": changes,
            });
            writeln!(output, "{counts}")
        }
        false => {
            writeln!(output, "{same} same, {changed} changed, {missing} missing, {extra} extra")
        }
    };
    summary.map_err(Stop::Writing)?;
    flush(&mut output)?;
    Ok(if changed + missing + extra == 0 { Exit::Success } else { Exit::Failed })
}

struct Report {
    /// For one JSON object.
    changes: Vec<Value>,
    /// Same, changed, missing, extra.
    counts: [u64; 4],
    written: std::io::Result<()>,
}

impl Report {
    fn count(&mut self, difference: &Difference) {
        let place = match difference {
            Difference::Same(_) => 0,
            Difference::Changed(..) => 1,
            Difference::Missing(_) => 2,
            _ => 3,
        };
        self.counts[place] += 1;
    }
}

/// Opens a trace, and checks that it is one. Stdin and the parts of a rotated trace are read into memory.
fn open(path: &Path) -> Result<Box<dyn Trace>, Stop> {
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
        Ok(()) => source.end(),
    }
}

fn write(difference: &Difference, in_color: bool, output: &mut impl Write) -> std::io::Result<()> {
    let (sign, color, side, changes): (_, _, &Side, &[Change]) = match difference {
        Difference::Changed(side, changes) => ("changed", "33", side, changes),
        Difference::Missing(side) => ("missing", "31", side, &[]),
        Difference::Extra(side) => ("extra", "32", side, &[]),
        _ => return Ok(()),
    };
    let sign = if in_color { format!("\x1b[{color}m{sign:7}\x1b[0m") } else { format!("{sign:7}") };
    let (dir, method, seq) = (side.dir.name(), clean(&side.method), side.seq);
    writeln!(output, "{sign} {dir} {method} (record {seq})")?;
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

fn shown(value: Option<&Value>) -> String {
    let text = value.map_or("nothing".to_owned(), ToString::to_string);
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => clean(&text[..end]) + "…",
        None => clean(&text),
    }
}

fn as_json(difference: Difference) -> Option<Value> {
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
        _ => None,
    }
}
