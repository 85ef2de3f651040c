//! The trace file of a recorder: opening, rotation, and failures.
//!
//! A write that fails loses its record and nothing else. The next record tries again, after the line
//! end that the failed write may have left out. Losses are counted by direction, and stand in the file
//! as `loss` records as soon as it can be written again.

use std::fs::File;
use std::io::{self, BufWriter, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::folder::{create_file, create_folder, keep_newest, make_private, part_path};
use crate::header::Header;
use crate::reader::{Entry, Reader};
use crate::record::{Dir, Kind, Record};
use crate::session::Sink;
use crate::writer::Writer;

/// The interval of attempts to open a file that could not be opened.
const RETRY: Duration = Duration::from_secs(1);

/// The longest header that is read to tell the session of a file.
const LONGEST_HEADER: u64 = 1024 * 1024;

/// The place of a trace, and its limits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileOptions {
    /// The file of the first part.
    pub path: PathBuf,
    /// The size at which the next part begins.
    pub max_file: Option<u64>,
    /// The number of traces to keep in the folder of the file; `None` keeps all.
    pub keep: Option<usize>,
    /// The folder belongs to the tap alone, so it is made private.
    pub own_folder: bool,
}

impl FileOptions {
    /// A trace in this file, with no limits.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        FileOptions { path: path.into(), max_file: None, keep: None, own_folder: false }
    }
}

/// Writes records to a file, and to the next file when it is full.
#[derive(Debug)]
pub(crate) struct TraceFile {
    options: FileOptions,
    header: Header,
    writer: Option<Writer<BufWriter<File>>>,
    written: u64,
    /// Only regular files are rotated.
    is_regular: bool,
    tried: Option<Instant>,
    /// The bytes of each direction in records that could not be written, and in records that are not
    /// flushed yet.
    lost: [(Dir, u64, u64); 3],
    /// Records failed since the last one that was written.
    is_failing: bool,
    /// No record ever failed.
    is_whole: bool,
    error: Option<io::Error>,
}

impl TraceFile {
    /// Opens the file. A failure is kept, and the next record tries again.
    pub(crate) fn open(options: FileOptions, header: Header) -> Self {
        let mut file = TraceFile {
            options,
            header,
            writer: None,
            written: 0,
            is_regular: false,
            tried: None,
            lost: Dir::STREAMS.map(|dir| (dir, 0, 0)),
            is_failing: false,
            is_whole: true,
            error: None,
        };
        if let Err(error) = file.open_part() {
            file.error = Some(error);
        }
        file
    }

    /// The first failure.
    pub(crate) fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    /// Lets readers see the records.
    pub(crate) fn flush(&mut self) {
        let Some(writer) = &mut self.writer else { return };
        match writer.flush() {
            Ok(()) => self.lost.iter_mut().for_each(|(_, _, unflushed)| *unflushed = 0),
            Err(error) => self.fail(error),
        }
    }

    fn open_part(&mut self) -> io::Result<()> {
        self.tried = Some(Instant::now());
        let path = part_path(&self.options.path, self.header.part);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder {
            create_folder(folder)?;
            if self.options.own_folder {
                make_private(folder)?;
            }
        }
        let file = create_file(&path)?;
        self.is_regular = file.metadata()?.is_file();
        let mut writer = Writer::new(BufWriter::with_capacity(256 * 1024, file));
        let written = writer.header(&self.header)?;
        // Now, so that a full disk is known now.
        writer.flush()?;
        self.written = written;
        self.writer = Some(writer);
        if let (Some(folder), Some(keep)) = (folder, self.options.keep) {
            // Old traces are removed as far as possible.
            let _ = keep_newest(folder, keep.max(1));
        }
        Ok(())
    }

    fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        if self.writer.is_none() {
            let is_early = self.tried.is_some_and(|tried| tried.elapsed() < RETRY);
            if is_early && record.kind != Kind::End {
                return Err(io::ErrorKind::NotFound.into());
            }
            // A file that failed is not appended to: it may end inside a line.
            if self.written > 0 && self.is_regular {
                self.header.part += 1;
            }
            self.open_part()?;
        } else if self.is_regular && self.options.max_file.is_some_and(|most| self.written >= most)
        {
            self.flush();
            self.header.part += 1;
            self.writer = None;
            self.open_part()?;
        }
        let Some(writer) = &mut self.writer else { return Ok(()) };
        for (dir, lost, _) in &mut self.lost {
            if *lost > 0 {
                let mut loss = Record::new(record.seq, record.at, *dir, Kind::Loss);
                (loss.lost, loss.why) =
                    (Some(*lost), Some("the trace could not be written".into()));
                self.written += writer.record(&loss)?;
                *lost = 0;
            }
        }
        self.written += writer.record(record)?;
        Ok(())
    }

    /// Gives up the file. It may end inside a line, so the next record begins another part.
    fn fail(&mut self, error: io::Error) {
        self.writer = None;
        if !std::mem::replace(&mut self.is_failing, true) {
            self.tried = Some(Instant::now());
        }
        self.is_whole = false;
        self.error.get_or_insert(error);
        for (_, lost, unflushed) in &mut self.lost {
            *lost += std::mem::take(unflushed);
        }
    }

    fn count(&mut self, record: &Record<'_>) {
        let counts = self.lost.iter_mut().find(|(dir, ..)| *dir == record.dir);
        if let Some((_, _, unflushed)) = counts {
            *unflushed += record.wire_length();
        }
    }
}

impl Sink for TraceFile {
    fn record(&mut self, record: &Record<'_>) {
        let written = self.write(record);
        self.count(record);
        match written {
            Ok(()) => self.is_failing = false,
            Err(error) => self.fail(error),
        }
    }

    fn is_whole(&self) -> bool {
        self.is_whole
    }
}

/// The parts of a rotated trace that exist, in order, beginning with this file. Files of another session,
/// which an earlier tap wrote under these names, are not parts of it.
pub fn parts(first: &Path) -> Vec<PathBuf> {
    // A path without a file name, such as `/`, has no parts.
    let is_file = |path: &PathBuf| path != first && path.exists();
    let mut later = (2..).map(|part| part_path(first, part)).take_while(is_file).peekable();
    let mut found = vec![first.to_owned()];
    // The first file may be a pipe, which can be read only once. A pipe has no parts.
    if later.peek().is_some() {
        let session = session(first);
        found.extend(later.take_while(|path| self::session(path) == session));
    }
    found
}

/// The session in the header of a file.
fn session(path: &Path) -> Option<String> {
    let mut reader = Reader::new(File::open(path).ok()?.take(LONGEST_HEADER));
    match reader.next_entry().ok()? {
        Some(Entry::Header(header)) => Some(header.session),
        _ => None,
    }
}
