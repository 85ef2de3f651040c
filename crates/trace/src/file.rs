//! The trace file of a recorder: opening, rotation, and failures.
//!
//! A write that fails loses its record and nothing else. The next record tries again, after the line
//! end that the failed write may have left out. Losses are counted by direction, and stand in the file
//! as `loss` records as soon as it can be written again.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::claim::{check_replaceable, claim, header};
use crate::folder::{create_folder, keep_newest, part_path};
use crate::header::Header;
use crate::record::{Dir, Kind, Record};
use crate::session::Sink;
use crate::sys;
use crate::writer::Writer;

/// The interval of attempts to open a file that could not be opened.
const RETRY: Duration = Duration::from_secs(1);

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
    /// The file of the first part, open and locked.
    claimed: Option<Arc<File>>,
}

impl FileOptions {
    /// A trace in this file, with no limits.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        FileOptions { path, max_file: None, keep: None, own_folder: false, claimed: None }
    }

    /// Opens and locks the file before the recording starts, and creates its folder. A trace that another recorder
    /// writes stays: then `path` becomes the next free name beside it. Without a claim, the recorder opens the file.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] if the file is not a trace, which a recorder does not replace; other kinds if
    /// it cannot be opened.
    ///
    /// ```
    /// use duet_rpc_trace::FileOptions;
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let folder = std::env::temp_dir().join(format!("claim-{}", std::process::id()));
    /// let (mut first, mut second) = (FileOptions::new(folder.join("s.jsonl")), FileOptions::new(folder.join("s.jsonl")));
    /// first.claim()?;
    /// second.claim()?;
    /// assert!(first.path.ends_with("s.jsonl") && second.path.ends_with("s-2.jsonl"));
    ///
    /// std::fs::write(folder.join("notes.txt"), "not a trace")?;
    /// let refused = FileOptions::new(folder.join("notes.txt")).claim();
    /// assert_eq!(refused.map_err(|error| error.kind()), Err(std::io::ErrorKind::InvalidData));
    /// # std::fs::remove_dir_all(folder)
    /// # }
    /// ```
    pub fn claim(&mut self) -> io::Result<()> {
        if let Some(folder) = folder_of(&self.path) {
            create_folder(folder)?;
        }
        if let Some((path, file)) = claim(&self.path)? {
            (self.path, self.claimed) = (path, Some(Arc::new(file)));
        }
        Ok(())
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
        let flushed = writer.flush().map_err(|error| self.named(&error));
        match flushed {
            Ok(()) => self.lost.iter_mut().for_each(|(_, _, unflushed)| *unflushed = 0),
            Err(error) => self.fail(error),
        }
    }

    fn open_part(&mut self) -> io::Result<()> {
        self.tried = Some(Instant::now());
        let path = self.part();
        self.open_file(&path).map_err(|error| self.named(&error))
    }

    fn open_file(&mut self, path: &Path) -> io::Result<()> {
        let folder = folder_of(path);
        if let Some(folder) = folder {
            create_folder(folder)?;
            if self.options.own_folder {
                sys::make_private(folder)?;
            }
        }
        let file = match &self.options.claimed {
            // Its lock lasts as long as the recording.
            Some(file) if self.header.part <= 1 => {
                let mut file = file.try_clone()?;
                file.set_len(0)?;
                file.rewind()?;
                file
            }
            _ => {
                check_replaceable(path)?;
                sys::create_file(path)?
            }
        };
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

    /// Begins the next part. If that fails, there is no file of it, and the next attempt has the same number.
    fn next_part(&mut self) -> io::Result<()> {
        self.header.part += 1;
        let is_new = !self.part().exists();
        let opened = self.open_part();
        if opened.is_err() {
            if is_new {
                let _ = fs::remove_file(self.part());
            }
            self.header.part -= 1;
        }
        opened
    }

    /// The path of the current part.
    fn part(&self) -> PathBuf {
        part_path(&self.options.path, self.header.part)
    }

    fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        if self.writer.is_none() {
            let is_early = self.tried.is_some_and(|tried| tried.elapsed() < RETRY);
            if is_early && record.kind != Kind::End {
                return Err(io::ErrorKind::NotFound.into());
            }
            // A file that failed is not appended to: it may end inside a line.
            if self.written > 0 && self.is_regular {
                self.next_part()?;
            } else {
                self.open_part()?;
            }
        } else if self.is_regular && self.options.max_file.is_some_and(|most| self.written >= most)
        {
            self.flush();
            self.writer = None;
            self.next_part()?;
        }
        self.write_lines(record).map_err(|error| self.named(&error))
    }

    fn write_lines(&mut self, record: &Record<'_>) -> io::Result<()> {
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

    /// An error with the name of its file.
    fn named(&self, error: &io::Error) -> io::Error {
        let text = format!("cannot write {}: {error}", self.part().display());
        io::Error::new(error.kind(), text)
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

/// The folder of a file, if its path has one.
fn folder_of(path: &Path) -> Option<&Path> {
    path.parent().filter(|folder| !folder.as_os_str().is_empty())
}

/// The parts of a rotated trace that exist, in order. The file may be any of them. Files of another session, which an
/// earlier tap wrote under these names, are not parts of it.
pub fn parts(file: &Path) -> Vec<PathBuf> {
    let (first, number) = first_part(file);
    // A path without a file name, such as `/`, has no parts.
    let is_file = |path: &PathBuf| path != file && path.exists();
    let later = (number + 1..).map(|part| part_path(&first, part)).take_while(is_file);
    let earlier = (1..number).rev().map(|part| part_path(&first, part)).take_while(is_file);
    let (mut later, mut earlier) = (later.peekable(), earlier.peekable());
    // The file may be a pipe, which can be read only once. A pipe has no parts.
    if later.peek().is_none() && earlier.peek().is_none() {
        return vec![file.to_owned()];
    }
    let session = |path: &Path| header(path).map(|header| header.session);
    let own = session(file);
    let mut found: Vec<_> = earlier.take_while(|path| session(path) == own).collect();
    found.reverse();
    found.push(file.to_owned());
    found.extend(later.take_while(|path| session(path) == own));
    found
}

/// The first part of the trace that a file belongs to, and the number of the file.
fn first_part(file: &Path) -> (PathBuf, u32) {
    let whole = (file.to_owned(), 1);
    // `a.2.jsonl` is the second part of `a.jsonl`, and `a.2` of `a`.
    let (stem, extension) = match (file.file_stem().map(Path::new), file.extension()) {
        (Some(stem), Some(extension)) if extension.to_string_lossy().parse::<u32>().is_err() => {
            (stem, Some(extension))
        }
        _ => (file.file_name().map(Path::new).unwrap_or(file), None),
    };
    let number = stem.extension().and_then(|it| it.to_str()?.parse::<u32>().ok());
    let Some(number) = number.filter(|number| *number > 1) else { return whole };
    let first = file.with_file_name(stem.with_extension(extension.unwrap_or_default()));
    // Another file may have such a name of its own.
    let is_part = |number| file.is_file() && header(file).is_some_and(|it| it.part == number);
    if part_path(&first, number) == file && is_part(number) { (first, number) } else { whole }
}
