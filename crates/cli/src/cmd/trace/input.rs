//! Reads the traces that the commands get: files with all of their parts, or stdin.
//!
//! | input | result |
//! |---|---|
//! | a line that is not a record | an error with the line number |
//! | a file without a header, or empty | an error: not a trace |
//! | a header of a newer format | an error: update |
//! | a last line that is not whole | a warning; the records before it count |
//! | no `end` record, or a missing part | a warning from the commands that judge a trace |

use std::fs::File;
use std::io::{self, BufWriter, Read, StdoutLock, Write};
use std::path::Path;

use duet_rpc_trace::{EXTENSION, Entry, Header, Kind, Reader, Record, VERSION, parts};

use crate::console;
use crate::exit::Exit;

/// A line of a trace.
pub(in crate::cmd) enum Item<'a, 'r> {
    Header(&'a Header),
    /// A record, and its line in the file.
    Record(&'a mut Record<'r>, u64),
}

/// A command that cannot go on.
pub(in crate::cmd) enum Stop {
    /// A message about the input.
    Input(String),
    Writing(io::Error),
    /// Everything is read.
    Done,
}

impl Stop {
    pub(in crate::cmd) fn reading(path: &Path, error: &io::Error) -> Self {
        let advice = match error.kind() {
            _ if path.is_dir() => newest(path),
            io::ErrorKind::NotFound => first_connection(path),
            _ => String::new(),
        };
        Stop::Input(format!("cannot read {}: {error}{advice}", name(path)))
    }
}

/// The advice for a folder in place of a file.
fn newest(folder: &Path) -> String {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let traces = files.filter(|it| it.path().extension().is_some_and(|it| it == EXTENSION));
    let changed = traces.filter_map(|it| Some((it.metadata().ok()?.modified().ok()?, it.path())));
    match changed.max() {
        Some((_, path)) => format!("; give one of its files, the newest is {}", path.display()),
        None => format!("; give a file, such as the .{EXTENSION} files that the tap writes"),
    }
}

/// The advice for the name that `tap --listen --to` got: it numbers the traces of its connections.
fn first_connection(path: &Path) -> String {
    let (Some(stem), Some(extension)) = (path.file_stem(), path.extension()) else {
        return String::new();
    };
    let mut name = stem.to_os_string();
    name.push("-1.");
    name.push(extension);
    let first = path.with_file_name(name);
    match first.exists() {
        true => format!("; the first connection of `tap --listen` is in {}", first.display()),
        false => String::new(),
    }
}

/// The exit code of a command whose output is complete, or the reason why it is not.
pub(in crate::cmd) fn conclude(result: Result<Exit, Stop>) -> Exit {
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
pub(in crate::cmd) fn output() -> Result<BufWriter<StdoutLock<'static>>, Stop> {
    console::stdout().map(|output| BufWriter::new(output.lock())).map_err(Stop::Writing)
}

pub(in crate::cmd) fn flush(output: &mut impl Write) -> Result<(), Stop> {
    output.flush().map_err(Stop::Writing)
}

/// The name of an input in messages.
pub(in crate::cmd) fn name(path: &Path) -> String {
    if is_stdin(path) { "stdin".to_owned() } else { path.display().to_string() }
}

pub(in crate::cmd) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The end of a trace, as far as it is there.
#[derive(Default)]
pub(in crate::cmd) struct Ending {
    has_end: bool,
    session: Option<String>,
    part: u32,
    /// The first part whose part before is missing.
    gap: Option<u32>,
}

impl Ending {
    fn note(&mut self, item: &Item<'_, '_>) {
        match item {
            Item::Header(header) => {
                let is_next = self.session.as_ref() == Some(&header.session);
                let before = if is_next { self.part } else { 0 };
                if header.part > before + 1 {
                    self.gap.get_or_insert(header.part);
                }
                (self.session, self.part) = (Some(header.session.clone()), header.part);
                self.has_end = false;
            }
            Item::Record(record, _) => self.has_end |= record.kind == Kind::End,
        }
    }

    /// Warns if records are missing, so that a judgement about the trace may be wrong.
    pub(in crate::cmd) fn warn(&self, path: &Path) {
        let name = name(path);
        if let Some(part) = self.gap {
            let before = part - 1;
            console::say(format_args!(
                "{name}: part {before} of the trace is missing, so requests and answers in it are unknown"
            ));
        }
        if !self.has_end {
            console::say(format_args!(
                "{name} has no end: the tap still runs or was killed, or the trace was cut; \
                 the last messages may be missing"
            ));
        }
    }
}

/// Reads a trace to its end.
pub(in crate::cmd) fn for_each(
    path: &Path,
    mut take: impl FnMut(Item<'_, '_>) -> Result<(), Stop>,
) -> Result<Ending, Stop> {
    let mut ending = Ending::default();
    let note = |item: Item<'_, '_>| {
        ending.note(&item);
        take(item)
    };
    read(path, note, true)?;
    Ok(ending)
}

/// Reads a trace that will be read again, and leaves the warnings to the second time.
pub(in crate::cmd) fn for_each_quietly(
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
pub(in crate::cmd) struct TraceSource<R> {
    name: String,
    reader: Reader<R>,
    has_header: bool,
}

impl<R: Read> TraceSource<R> {
    pub(in crate::cmd) fn new(path: &Path, input: R) -> Self {
        TraceSource { name: name(path), reader: Reader::new(input), has_header: false }
    }

    /// Reads the records that are there.
    pub(in crate::cmd) fn read_all(
        &mut self,
        take: &mut impl FnMut(Item<'_, '_>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        loop {
            let line = self.reader.line_number();
            let entry = self.reader.next_entry();
            let entry = entry.map_err(|error| match self.name.as_str() {
                "stdin" => Stop::Input(format!("cannot read stdin: {error}")),
                name => Stop::reading(Path::new(name), &error),
            })?;
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
    pub(in crate::cmd) fn end(&self) -> Result<(), Stop> {
        self.check_header()?;
        match (self.reader.torn(), self.reader.line_number() + 1) {
            (0, _) => {}
            (torn, line) => console::say(format_args!(
                "{}: line {line} is not whole and not read ({torn} bytes): the recorder still writes, \
                 or was killed",
                self.name
            )),
        }
        Ok(())
    }

    /// Fails if the file has ended without a header.
    pub(in crate::cmd) fn check_header(&self) -> Result<(), Stop> {
        let why = match (self.has_header, self.reader.torn()) {
            (true, _) => return Ok(()),
            (false, 0) => "it is empty".to_owned(),
            (false, _) => format!("line {} does not end", self.reader.line_number() + 1),
        };
        Err(Stop::Input(format!("{} is not a trace: {why}", self.name)))
    }
}
