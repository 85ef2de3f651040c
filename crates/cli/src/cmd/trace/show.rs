//! `trace show`: a timeline of the messages.

use std::fs::File;
use std::io::{IsTerminal as _, Write, stdout};
use std::path::Path;
use std::thread;
use std::time::Duration;

use duet_rpc_trace::{FactsTable, Header, Kind, Record, Writer, parts};

use super::input::{Item, Stop, TraceSource, conclude, flush, for_each, is_stdin, output};
use super::timeline::Timeline;
use crate::args::{Global, ShowArgs};
use crate::console;
use crate::exit::Exit;

/// The time between two looks at a file that grows.
const LOOK: Duration = Duration::from_millis(100);

/// Shows a trace on stdout.
pub(super) fn run(args: &ShowArgs, global: &Global) -> Exit {
    conclude(show(args, global).map(|()| Exit::Success))
}

fn show(args: &ShowArgs, global: &Global) -> Result<(), Stop> {
    let in_color = console::may_color(&stdout(), global.no_color);
    let timeline = Timeline::new(in_color, stdout().is_terminal(), args.full);
    let mut show = Show { args, table: FactsTable::new(args.slow), is_known: false, timeline };
    // A filter may need to know the end of a request before it is shown.
    let can_read_twice = !args.follow && !is_stdin(&args.file) && args.file.is_file();
    if can_read_twice && (args.filter.needs_facts() || !args.json) {
        for_each(&args.file, |item| {
            if let Item::Record(record, _) = item {
                show.table.handle(record);
            }
            Ok(())
        })?;
        show.table.finish();
        show.is_known = true;
    }
    let mut output = output()?;
    match args.follow && !is_stdin(&args.file) {
        true => follow(&args.file, &mut show, &mut output)?,
        false => for_each(&args.file, |item| show.item(item, &mut output))?,
    }
    flush(&mut output)
}

struct Show<'a> {
    args: &'a ShowArgs,
    table: FactsTable,
    /// The table has the facts of all records.
    is_known: bool,
    timeline: Timeline,
}

impl Show<'_> {
    fn item(&mut self, item: Item<'_, '_>, output: &mut impl Write) -> Result<(), Stop> {
        match item {
            Item::Header(header) => self.header(header, output),
            Item::Record(record, _) => self.record(record, output),
        }
    }

    fn header(&mut self, header: &Header, output: &mut impl Write) -> Result<(), Stop> {
        match self.args.json {
            true => Writer::new(&mut *output).header(header).map(drop),
            false => self.timeline.header(header, output),
        }
        .map_err(Stop::Writing)
    }

    fn record(&mut self, record: &mut Record<'_>, output: &mut impl Write) -> Result<(), Stop> {
        if !self.is_known {
            self.table.handle(record);
        }
        let facts = self.table.get(record.seq);
        if self.is_known {
            complete(record, facts.took);
        }
        if self.args.filter.matches(record, &facts) {
            match self.args.json {
                true => Writer::new(&mut *output).record(record).map(drop),
                false => self.timeline.record(record, &facts, output),
            }
            .map_err(Stop::Writing)?;
        }
        // A request stays in the table until its answer has come.
        if !self.is_known && record.kind != Kind::Request {
            self.table.remove(record.seq);
        }
        Ok(())
    }
}

/// Fills in the latency of an answer that the recorder did not write.
fn complete(record: &mut Record<'_>, took: Option<u64>) {
    if matches!(record.kind, Kind::Response | Kind::Error) && record.took.is_none() {
        record.took = took;
    }
}

/// Shows a trace that is still being written, until its end.
fn follow(path: &Path, show: &mut Show<'_>, output: &mut impl Write) -> Result<(), Stop> {
    let mut part = 0;
    loop {
        let Some(path) = parts(path).into_iter().nth(part) else {
            thread::sleep(LOOK);
            continue;
        };
        let file = File::open(&path).map_err(|error| Stop::reading(&path, &error))?;
        let mut source = TraceSource::new(&path, file);
        loop {
            let mut is_over = false;
            source.read_all(&mut |item| {
                is_over |= matches!(&item, Item::Record(record, _) if record.kind == Kind::End);
                show.item(item, output)
            })?;
            flush(output)?;
            if is_over {
                return Ok(());
            }
            if parts(&show.args.file).len() > part + 1 {
                break;
            }
            thread::sleep(LOOK);
        }
        part += 1;
    }
}
