//! Reads the traces that the commands get: files with all of their parts, or stdin.
//!
//! | input | result |
//! |---|---|
//! | a line that is not a record | an error with the line number |
//! | a file without a header, or empty | an error: not a trace |
//! | a header of a newer format | an error: update |
//! | a last line that is not whole | a warning; the records before it count |

use std::fs::File;
use std::io::{self, BufWriter, Read, StdoutLock, Write};
use std::path::Path;

use duet_rpc_trace::{Entry, Header, Reader, Record, VERSION, parts};

use crate::console;
use crate::exit::Exit;

/// A line of a trace.
pub(super) enum Item<'a, 'r> {
    Header(&'a Header),
    /// A record, and its line in the file.
    Record(&'a mut Record<'r>, u64),
}

/// A command that cannot go on.
pub(super) enum Stop {
    /// A message about the input.
    Input(String),
    Writing(io::Error),
    /// Everything is read.
    Done,
}

impl Stop {
    pub(super) fn reading(path: &Path, error: &io::Error) -> Self {
        Stop::Input(format!("cannot read {}: {error}", name(path)))
    }
}

/// The exit code of a command whose output is complete, or the reason why it is not.
pub(super) fn conclude(result: Result<Exit, Stop>) -> Exit {
    match result {
        Ok(exit) => exit,
        Err(Stop::Done) => Exit::Success,
        Err(Stop::Writing(error)) => console::cannot_write(&error),
        Err(Stop::Input(message)) => {
            console::say(format_args!("{message}"));
            Exit::Failed
        }
    }
}

/// Stdout with a buffer.
pub(super) fn output() -> Result<BufWriter<StdoutLock<'static>>, Stop> {
    console::stdout().map(|output| BufWriter::new(output.lock())).map_err(Stop::Writing)
}

pub(super) fn flush(output: &mut impl Write) -> Result<(), Stop> {
    output.flush().map_err(Stop::Writing)
}

/// The name of an input in messages.
pub(super) fn name(path: &Path) -> String {
    if is_stdin(path) { "stdin".to_owned() } else { path.display().to_string() }
}

pub(super) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Reads a trace to its end.
pub(super) fn for_each(
    path: &Path,
    take: impl FnMut(Item<'_, '_>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    read(path, take, true)
}

/// Reads a trace that will be read again, and leaves the warnings to the second time.
pub(super) fn for_each_quietly(
    path: &Path,
    take: impl FnMut(Item<'_, '_>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    read(path, take, false)
}

fn read(
    path: &Path,
    mut take: impl FnMut(Item<'_, '_>) -> Result<(), Stop>,
    warns: bool,
) -> Result<(), Stop> {
    if is_stdin(path) {
        let input = console::stdin().map_err(|error| Stop::reading(path, &error))?;
        let mut source = TraceSource::new(path, input.lock());
        source.read_all(&mut take)?;
        return source.end();
    }
    for part in parts(path) {
        let file = File::open(&part).map_err(|error| Stop::reading(&part, &error))?;
        let mut source = TraceSource::new(&part, file);
        source.read_all(&mut take)?;
        if warns || !source.has_header {
            source.end()?;
        }
    }
    Ok(())
}

/// One file of a trace.
pub(super) struct TraceSource<R> {
    name: String,
    reader: Reader<R>,
    has_header: bool,
}

impl<R: Read> TraceSource<R> {
    pub(super) fn new(path: &Path, input: R) -> Self {
        TraceSource { name: name(path), reader: Reader::new(input), has_header: false }
    }

    /// Reads the records that are there.
    pub(super) fn read_all(
        &mut self,
        take: &mut impl FnMut(Item<'_, '_>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        loop {
            let line = self.reader.line_number();
            let entry = self.reader.next_entry();
            let entry = entry
                .map_err(|error| Stop::Input(format!("cannot read {}: {error}", self.name)))?;
            match entry {
                None => return Ok(()),
                Some(Entry::Header(header)) => {
                    if !header.is_supported() {
                        return Err(Stop::Input(format!(
                            "{}: the trace has version {} of the format, and this program knows {VERSION}: \
                             update duet-rpc",
                            self.name, header.duet
                        )));
                    }
                    self.has_header = true;
                    take(Item::Header(&header))?;
                }
                Some(Entry::Record(mut record)) if self.has_header => {
                    take(Item::Record(&mut record, line + 1))?;
                }
                Some(Entry::Bad(bad)) if self.has_header => {
                    return Err(Stop::Input(format!("{}: {bad}", self.name)));
                }
                Some(_) => {
                    return Err(Stop::Input(format!(
                        "{} is not a trace: line {} is not a header such as {{\"duet\":1}}; \
                         `trace convert --from` reads other formats",
                        self.name,
                        line + 1
                    )));
                }
            }
        }
    }

    /// Reports an end in the middle of a line.
    pub(super) fn end(&self) -> Result<(), Stop> {
        let line = self.reader.line_number() + 1;
        match (self.has_header, self.reader.torn()) {
            (false, 0) => Err(Stop::Input(format!("{} is not a trace: it is empty", self.name))),
            (false, _) => {
                Err(Stop::Input(format!("{} is not a trace: line {line} does not end", self.name)))
            }
            (true, 0) => Ok(()),
            (true, torn) => {
                console::say(format_args!(
                    "{}: line {line} is not whole and not read ({torn} bytes): the recorder still writes, \
                     or was killed",
                    self.name
                ));
                Ok(())
            }
        }
    }
}
