//! `trace show`: a timeline of the messages.

use std::fs::File;
use std::io::{IsTerminal as _, Write, stdout};
use std::path::Path;
use std::thread;
use std::time::Duration;

use duet_rpc_trace::{Kind, Writer, parts};

use super::chosen::Chosen;
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
    let is_followed = args.follow && !is_stdin(&args.file);
    let chosen = match is_followed {
        true => Chosen::once(&args.filter, args.slow),
        false => Chosen::twice(&args.file, &args.filter, args.slow, !args.json)?,
    };
    let mut show = Show { args, chosen, timeline };
    let mut output = output()?;
    if is_followed {
        follow(&args.file, &mut show, &mut output)?;
        return flush(&mut output);
    }
    let ending = for_each(&args.file, |item| show.item(item, &mut output))?;
    flush(&mut output)?;
    ending.warn(&args.file);
    Ok(())
}

struct Show<'a> {
    args: &'a ShowArgs,
    chosen: Chosen<'a>,
    timeline: Timeline,
}

impl Show<'_> {
    fn item(&mut self, item: Item<'_, '_>, output: &mut impl Write) -> Result<(), Stop> {
        let written = match item {
            Item::Header(header) if self.args.json => {
                Writer::new(&mut *output).header(header).map(drop)
            }
            Item::Header(header) => self.timeline.header(header, output),
            Item::Record(record, _) => match self.chosen.judge(record) {
                (_, false) => Ok(()),
                (_, true) if self.args.json => Writer::new(&mut *output).record(record).map(drop),
                (facts, true) => self.timeline.record(record, &facts, output),
            },
        };
        written.map_err(Stop::Writing)
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
