//! Converts traces to the formats of other tools, and their logs to traces.
//!
//! ```text
//!   records ─▶ Exporter ─▶ lsp-inspector | vscode | har | otlp | mermaid | chrome
//!   lsp-inspector | vscode | mcpsnoop ─▶ import ─▶ records
//! ```
//!
//! Both directions keep only open requests in memory. A format has no place for some records; the
//! exporter counts them.

mod chrome;
mod har;
mod import;
mod json_layout;
mod lsp_inspector;
mod mcpsnoop;
mod mermaid;
mod otlp;
mod vscode;
mod vscode_import;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use crate::header::Header;
use crate::message::Message;
use crate::record::{Kind, Record};
use crate::relations::{REMEMBERED, Relation, Relations};
use crate::time::Timestamp;
pub use import::{ImportError, ImportFormat, import};

/// A format to convert traces to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportFormat {
    /// JSON lines of the LSP Inspector and of `"trace.server": {"format": "json"}`.
    LspInspector,
    /// The text trace in the output panel of VS Code.
    Vscode,
    /// HTTP Archive 1.2: each request is an entry.
    Har,
    /// OpenTelemetry spans as JSON.
    Otlp,
    /// A sequence diagram.
    Mermaid,
    /// Trace events of Chrome and Perfetto.
    Chrome,
}

impl ExportFormat {
    /// All formats.
    pub const ALL: [ExportFormat; 6] = [
        ExportFormat::LspInspector,
        ExportFormat::Vscode,
        ExportFormat::Har,
        ExportFormat::Otlp,
        ExportFormat::Mermaid,
        ExportFormat::Chrome,
    ];

    /// The name, as in `trace convert --to`.
    pub fn name(self) -> &'static str {
        match self {
            ExportFormat::LspInspector => "lsp-inspector",
            ExportFormat::Vscode => "vscode",
            ExportFormat::Har => "har",
            ExportFormat::Otlp => "otlp",
            ExportFormat::Mermaid => "mermaid",
            ExportFormat::Chrome => "chrome",
        }
    }

    /// A few words about it.
    pub fn summary(self) -> &'static str {
        match self {
            ExportFormat::LspInspector => "JSON lines of the LSP Inspector",
            ExportFormat::Vscode => "Text trace of VS Code",
            ExportFormat::Har => "HTTP Archive 1.2, for the network panel of browsers",
            ExportFormat::Otlp => "OpenTelemetry spans as JSON",
            ExportFormat::Mermaid => "Mermaid sequence diagram",
            ExportFormat::Chrome => "Trace events, for chrome://tracing and Perfetto",
        }
    }
}

/// Writes a trace in another format.
pub struct Exporter<W> {
    output: W,
    format: Box<dyn Format>,
    relations: Relations,
    /// The time of day at which the session started, in microseconds since 1970.
    start: u64,
    has_begun: bool,
    omitted: BTreeMap<&'static str, u64>,
}

impl<W> std::fmt::Debug for Exporter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporter").field("omitted", &self.omitted).finish_non_exhaustive()
    }
}

impl<W: Write> Exporter<W> {
    /// An exporter at the start of a trace.
    pub fn new(format: ExportFormat, output: W) -> Self {
        let format: Box<dyn Format> = match format {
            ExportFormat::LspInspector => Box::new(lsp_inspector::LspInspector),
            ExportFormat::Vscode => Box::new(vscode::Vscode),
            ExportFormat::Har => Box::new(har::Har::default()),
            ExportFormat::Otlp => Box::new(otlp::Otlp::default()),
            ExportFormat::Mermaid => Box::new(mermaid::Mermaid::default()),
            ExportFormat::Chrome => Box::new(chrome::Chrome::default()),
        };
        Exporter {
            output,
            format,
            relations: Relations::new(),
            start: 0,
            has_begun: false,
            omitted: BTreeMap::new(),
        }
    }

    /// Takes the header. Those of later parts of the same trace are ignored.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn header(&mut self, header: &Header) -> io::Result<()> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        self.start = Timestamp::parse(&header.start).map_or(0, Timestamp::unix_micros);
        self.format.begin(&mut self.output, header, self.start)
    }

    /// Takes the next record. A record that is not shown still relates answers to requests.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn record(&mut self, record: &Record<'_>, is_shown: bool) -> io::Result<()> {
        self.header(&Header::new(""))?;
        let time = self.start.saturating_add(record.at);
        if record.kind == Kind::Loss {
            self.relations.handle_gap();
        }
        let messages = record.messages();
        for message in &messages {
            let relation = self.relations.handle(record, message);
            let event = ExportedMessage { record, message, relation: &relation, time };
            match is_shown {
                true => self.format.message(&mut self.output, &event)?,
                false => self.format.hidden(&event),
            }
        }
        let has_place = !messages.is_empty()
            || !is_shown
            || self.format.other(&mut self.output, record, time)?;
        // The end of a trace says nothing about the session.
        if !has_place && record.kind != Kind::End {
            *self.omitted.entry(record.kind.name()).or_default() += 1;
        }
        Ok(())
    }

    /// Ends the trace. Returns the number of records of each kind that have no place in the format.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn finish(mut self) -> io::Result<BTreeMap<&'static str, u64>> {
        self.header(&Header::new(""))?;
        self.format.end(&mut self.output)?;
        self.output.flush()?;
        Ok(self.omitted)
    }
}

/// A message on its way to a format.
struct ExportedMessage<'a> {
    record: &'a Record<'a>,
    message: &'a Message<'a>,
    relation: &'a Relation,
    /// The time of day, in microseconds since 1970.
    time: u64,
}

impl ExportedMessage<'_> {
    /// The method of the message, or of the request that it answers.
    fn method(&self) -> &str {
        match self.relation {
            Relation::Answer { to: Some(asked), .. } => &asked.method,
            _ => self.message.method.as_deref().unwrap_or_default(),
        }
    }

    fn took(&self) -> Option<u64> {
        match self.relation {
            Relation::Answer { to: Some(asked), .. } => {
                Some(self.record.took.unwrap_or_else(|| self.record.at.saturating_sub(asked.at)))
            }
            _ => self.record.took,
        }
    }
}

/// The rules of a format.
trait Format {
    fn begin(&mut self, out: &mut dyn Write, header: &Header, start: u64) -> io::Result<()>;

    fn message(&mut self, out: &mut dyn Write, event: &ExportedMessage<'_>) -> io::Result<()>;

    /// Takes a message that is not shown. It may answer one that is.
    fn hidden(&mut self, _: &ExportedMessage<'_>) {}

    /// Takes a record that is not a message. Returns `false` if the format has no place for it.
    fn other(&mut self, out: &mut dyn Write, record: &Record<'_>, time: u64) -> io::Result<bool>;

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()>;
}

/// Open requests with the data that a format needs when the answer comes.
#[derive(Debug)]
struct Pending<T> {
    requests: HashMap<(u64, String), T>,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Pending { requests: HashMap::new() }
    }
}

impl<T> Pending<T> {
    /// Remembers a request. Returns it if there are too many.
    fn ask(&mut self, event: &ExportedMessage<'_>, value: T) -> Option<T> {
        if self.requests.len() >= REMEMBERED {
            return Some(value);
        }
        let id = event.message.id.as_deref().unwrap_or("null").to_owned();
        self.requests.insert((event.record.seq, id), value)
    }

    /// The request that a message answers.
    fn answer(&mut self, event: &ExportedMessage<'_>) -> Option<T> {
        match event.relation {
            Relation::Answer { to: Some(asked), .. } => {
                self.requests.remove(&(asked.seq, asked.id.clone()))
            }
            _ => None,
        }
    }

    /// The requests without an answer, oldest first.
    fn take_rest(&mut self) -> Vec<T> {
        let mut rest: Vec<_> = std::mem::take(&mut self.requests).into_iter().collect();
        rest.sort_by(|(left, _), (right, _)| left.cmp(right));
        rest.into_iter().map(|(_, value)| value).collect()
    }
}

/// A short name of the server: its program, or its address.
fn server_name(header: &Header) -> String {
    let program =
        header.command.first().map(|program| program.rsplit('/').next().unwrap_or(program));
    let name = program.or(header.connect.as_deref()).unwrap_or("server");
    if name.is_empty() { "server".to_owned() } else { name.to_owned() }
}

/// A JSON text on one line. A line end in JSON is white space between tokens.
fn one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}
