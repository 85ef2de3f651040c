//! Reads the logs of other tools, and writes them as traces.

use std::fmt;
use std::io::{self, BufRead, Read as _, Write};

use super::{lsp_inspector, mcpsnoop, vscode_import};
use crate::header::Header;
use crate::message::Message;
pub(super) use crate::parse::reason;
use crate::reader::LINE_LIMIT;
use crate::record::{Body, Dir, Kind, Record};
use crate::relations::Relations;
use crate::time::Timestamp;
use crate::wire::Wire;
use crate::writer::Writer;

/// A format to convert to traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportFormat {
    /// JSON lines of the LSP Inspector, with or without a time before each.
    LspInspector,
    /// The text trace in the output panel of VS Code.
    Vscode,
    /// Session logs of mcpsnoop.
    Mcpsnoop,
}

impl ImportFormat {
    /// All formats.
    pub const ALL: [ImportFormat; 3] =
        [ImportFormat::LspInspector, ImportFormat::Vscode, ImportFormat::Mcpsnoop];

    /// The name, as in `trace convert --from`.
    pub fn name(self) -> &'static str {
        match self {
            ImportFormat::LspInspector => "lsp-inspector",
            ImportFormat::Vscode => "vscode",
            ImportFormat::Mcpsnoop => "mcpsnoop",
        }
    }

    /// A few words about it.
    pub fn summary(self) -> &'static str {
        match self {
            ImportFormat::LspInspector => "JSON lines of the LSP Inspector",
            ImportFormat::Vscode => "Text trace of VS Code",
            ImportFormat::Mcpsnoop => "Session log of mcpsnoop",
        }
    }
}

/// A log that cannot be converted.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImportError {
    /// Reading failed.
    Read(io::Error),
    /// Writing failed.
    Write(io::Error),
    /// A line does not have the format.
    Line {
        /// The number of the line, from 1.
        line: u64,
        /// What was expected.
        why: String,
    },
    /// There is nothing of the format in the input.
    Empty,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportError::Read(error) => write!(f, "cannot read: {error}"),
            ImportError::Write(error) => write!(f, "cannot write: {error}"),
            ImportError::Line { line, why } => write!(f, "line {line}: {why}"),
            ImportError::Empty => f.write_str("no message of this format found"),
        }
    }
}

impl std::error::Error for ImportError {}

/// Converts a log to a trace.
///
/// The trace is not marked as lossless: it has the messages, not the bytes around them.
///
/// # Errors
///
/// If a line does not have the format, or if reading or writing fails.
pub fn import<R: BufRead, W: Write>(
    format: ImportFormat,
    input: R,
    output: W,
) -> Result<(), ImportError> {
    let mut lines = LogLines { input, number: 0, limit: LINE_LIMIT };
    let mut maker = Maker::new(Writer::new(output));
    match format {
        ImportFormat::LspInspector => lsp_inspector::import(&mut lines, &mut maker)?,
        ImportFormat::Vscode => vscode_import::import(&mut lines, &mut maker)?,
        ImportFormat::Mcpsnoop => mcpsnoop::import(&mut lines, &mut maker)?,
    }
    match maker.seq {
        0 => Err(ImportError::Empty),
        _ => maker.writer.flush().map_err(ImportError::Write),
    }
}

/// The lines of a text, without their ends.
pub(super) struct LogLines<R> {
    input: R,
    pub(super) number: u64,
    limit: usize,
}

impl<R: BufRead> LogLines<R> {
    pub(super) fn next(&mut self) -> Result<Option<String>, ImportError> {
        let mut line = Vec::new();
        let limit = self.limit as u64;
        let input = &mut self.input;
        let count = input.take(limit).read_until(b'\n', &mut line).map_err(ImportError::Read)?;
        if count == 0 {
            return Ok(None);
        }
        self.number += 1;
        if count as u64 == limit {
            return Err(self.error(format!("the line is longer than {limit} bytes")));
        }
        while line.pop_if(|byte| matches!(byte, b'\n' | b'\r')).is_some() {}
        // A log with a broken character is still worth reading.
        Ok(Some(String::from_utf8_lossy(&line).into_owned()))
    }

    /// The next line that is not blank.
    pub(super) fn next_filled(&mut self) -> Result<Option<String>, ImportError> {
        loop {
            let line = self.next()?;
            if line.as_deref().is_none_or(|line| !line.trim().is_empty()) {
                return Ok(line);
            }
        }
    }

    pub(super) fn error(&self, why: impl Into<String>) -> ImportError {
        ImportError::Line { line: self.number, why: why.into() }
    }
}

/// Makes the records of a trace from messages.
pub(super) struct Maker<W: Write> {
    writer: Writer<W>,
    relations: Relations,
    seq: u64,
    start: Option<u64>,
}

impl<W: Write> Maker<W> {
    fn new(writer: Writer<W>) -> Self {
        Maker { writer, relations: Relations::new(), seq: 0, start: None }
    }

    /// Writes the header with the time of the first message, in microseconds since 1970. Later calls
    /// do nothing.
    pub(super) fn begin(&mut self, time: u64, mut header: Header) -> Result<(), ImportError> {
        if self.start.is_some() {
            return Ok(());
        }
        self.start = Some(time);
        header.start = Timestamp::from_unix_micros(time).to_string();
        header.version = concat!("duet-rpc ", env!("CARGO_PKG_VERSION")).to_owned();
        self.writer.header(&header).map(drop).map_err(ImportError::Write)
    }

    /// A record at a time, in microseconds since 1970.
    pub(super) fn record(&mut self, time: u64, dir: Dir, kind: Kind) -> Record<'static> {
        self.seq += 1;
        Record::new(self.seq, time.saturating_sub(self.start.unwrap_or(time)), dir, kind)
    }

    /// Writes a line of text: stderr, or noise between messages.
    pub(super) fn text(&mut self, time: u64, dir: Dir, text: String) -> Result<(), ImportError> {
        let kind = if dir == Dir::Err { Kind::Stderr } else { Kind::Noise };
        let mut record = self.record(time, dir, kind);
        record.wire = (dir == Dir::Err).then_some(Wire::Line);
        record.size = Some(text.len() as u64);
        record.body = Some(Body::Text(text.into()));
        self.write(record)
    }

    /// Writes a message. `took` is the time of an answer, if the log has it.
    pub(super) fn message(
        &mut self,
        time: u64,
        dir: Dir,
        wire: Wire,
        json: &str,
        took: Option<u64>,
    ) -> Result<(), ImportError> {
        let message = Message::from_json(json);
        let is_batch = json.starts_with('[');
        let kind = if is_batch { Kind::Batch } else { message.kind };
        let mut record = self.record(time, dir, kind);
        record.id = message.id.map(|id| id.into_owned().into());
        record.method = message.method.map(|method| method.into_owned().into());
        (record.wire, record.size) = (Some(wire), Some(json.len() as u64));
        record.took = took;
        record.body = Some(Body::from_json(json.to_owned()));
        self.write(record)
    }

    pub(super) fn write(&mut self, mut record: Record<'static>) -> Result<(), ImportError> {
        let relations: Vec<_> = {
            let messages = record.messages();
            messages.iter().map(|message| self.relations.handle(&record, message)).collect()
        };
        if let [relation] = &relations[..] {
            relation.complete(&mut record);
        }
        self.writer.record(&record).map(drop).map_err(ImportError::Write)
    }

    /// The time of the open request with this direction and id, in microseconds since 1970.
    pub(super) fn asked_at(&self, dir: Dir, id: &str) -> Option<u64> {
        let asked = self.relations.find(dir, id)?;
        Some(self.start.unwrap_or_default().saturating_add(asked.at))
    }
}
