//! Reads a trace line by line, even while another process writes it.
//!
//! | the bytes at hand | the reader returns |
//! |---|---|
//! | a header or a record with its line end | the entry |
//! | another line | `Entry::Bad`, and goes on with the next line |
//! | a line longer than the limit | `Entry::Bad`, and skips the rest of the line |
//! | an empty line | nothing, and goes on |
//! | the beginning of a line, then the end of the file | `None`; a later call goes on from there |

use std::io::{self, BufRead, BufReader, Read};

use crate::header::Header;
use crate::parse::{self, BadLine};
use crate::record::Record;

/// The longest line that a reader accepts by default: 256 MiB.
pub const LINE_LIMIT: usize = 256 * 1024 * 1024;

/// A line of a trace.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Entry<'a> {
    /// The first line of a file. Files that were put together have several.
    Header(Header),
    /// A record. It borrows from the reader; see [`Record::into_owned`].
    Record(Record<'a>),
    /// A line that is neither.
    Bad(BadLine),
}

/// Reads the lines of a trace.
///
/// At the end of a file that is still being written, [`next_entry`](Reader::next_entry) returns
/// `None`; call it again when the file has grown.
#[derive(Debug)]
pub struct Reader<R> {
    source: BufReader<R>,
    /// The line being read. It stays here between calls if the file ends inside of it.
    line: Vec<u8>,
    /// The line was returned, so the next call replaces it.
    is_taken: bool,
    /// The bytes of the line that were not kept, because it is too long.
    skipped: u64,
    limit: usize,
    lines: u64,
    /// The position of the first byte of the line.
    start: u64,
    end: u64,
}

impl<R: Read> Reader<R> {
    /// A reader from the start of a file.
    pub fn new(source: R) -> Self {
        Reader::with_capacity(64 * 1024, source)
    }

    /// A reader with a buffer of this size, in bytes.
    pub fn with_capacity(capacity: usize, source: R) -> Self {
        Reader {
            source: BufReader::with_capacity(capacity, source),
            line: Vec::new(),
            is_taken: false,
            skipped: 0,
            limit: LINE_LIMIT,
            lines: 0,
            start: 0,
            end: 0,
        }
    }

    /// Sets the longest line that is accepted.
    #[must_use]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// The next entry; `None` if there is no further whole line.
    ///
    /// # Errors
    ///
    /// If reading fails. Lines that are not records are entries, not errors.
    pub fn next_entry(&mut self) -> io::Result<Option<Entry<'_>>> {
        loop {
            if !self.read_line()? {
                return Ok(None);
            }
            if self.skipped > 0 || !self.line.iter().all(u8::is_ascii_whitespace) {
                break;
            }
        }
        Ok(Some(self.entry()))
    }

    /// The position in the file of the first byte of the last entry, and of the byte after it.
    pub fn span(&self) -> (u64, u64) {
        (self.start, self.end)
    }

    /// The number of the last line, from 1.
    pub fn line_number(&self) -> u64 {
        self.lines
    }

    /// The number of bytes at the end of the file that do not make a whole line: the file is being
    /// written, or its writer was killed.
    pub fn torn(&self) -> u64 {
        if self.is_taken { 0 } else { self.line.len() as u64 + self.skipped }
    }

    /// The input.
    pub fn get_ref(&self) -> &R {
        self.source.get_ref()
    }

    fn entry(&self) -> Entry<'_> {
        let bad = |why: String| Entry::Bad(BadLine { line: self.lines, why });
        if self.skipped > 0 {
            let limit = self.limit;
            return bad(format!("it is longer than {limit} bytes"));
        }
        match parse::record(&self.line) {
            Ok(record) => Entry::Record(record),
            // A header is rare, so it is the second guess.
            Err(why) => match parse::header(&self.line) {
                Ok(header) => Entry::Header(header),
                Err(_) => bad(why),
            },
        }
    }

    /// Reads up to a line end. Returns `false` if the input ends before it.
    fn read_line(&mut self) -> io::Result<bool> {
        if self.is_taken {
            self.line.clear();
            (self.is_taken, self.skipped) = (false, 0);
            self.start = self.end;
        }
        loop {
            let bytes = match self.source.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if bytes.is_empty() {
                return Ok(false);
            }
            let line_end = memchr::memchr(b'\n', bytes);
            let part = &bytes[..line_end.unwrap_or(bytes.len())];
            let room = self.limit.saturating_sub(self.line.len());
            let kept = part.len().min(room);
            self.line.extend_from_slice(&part[..kept]);
            self.skipped += (part.len() - kept) as u64;
            let count = part.len() + usize::from(line_end.is_some());
            self.source.consume(count);
            self.end += count as u64;
            if line_end.is_some() {
                self.lines += 1;
                self.is_taken = true;
                return Ok(true);
            }
        }
    }
}
