//! Trace files: a session between a client and a server, one JSON line per message.
//!
//! `duet-rpc tap` writes these files; any program can read and write them with this crate. A trace
//! that is [marked lossless](End::lossless) contains every byte that passed, so
//! [`Record::write_wire`] gives back both streams exactly (rule R0).
//!
//! ```
//! use duet_rpc_trace::{Body, Dir, Entry, Header, Kind, Reader, Record, Wire, Writer};
//!
//! # fn main() -> std::io::Result<()> {
//! let mut writer = Writer::new(Vec::new());
//! writer.header(&Header::new("example"))?;
//! let mut record = Record::new(1, 250, Dir::C2s, Kind::Notification);
//! record.wire = Some(Wire::Lsp);
//! record.body = Some(Body::from_json(r#"{"jsonrpc":"2.0","method":"exit"}"#));
//! writer.record(&record)?;
//! let file = writer.into_inner();
//!
//! let mut reader = Reader::new(&file[..]);
//! assert!(matches!(reader.next_entry()?, Some(Entry::Header(_))));
//! let Some(Entry::Record(record)) = reader.next_entry()? else { panic!("it has a record") };
//! let mut bytes = Vec::new();
//! record.write_wire(&mut bytes).expect("nothing is left out");
//! assert!(bytes.starts_with(b"Content-Length: 33\r\n\r\n{"));
//! assert!(reader.next_entry()?.is_none());
//! # Ok(())
//! # }
//! ```
//!
//! [docs/trace-format.md] describes the file, for programs in other languages.
//!
//! [docs/trace-format.md]: https://docs.rs/crate/duet-rpc-trace/latest/source/README.md

// Input from outside must not end the process; a failing test may.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod check;
mod claim;
mod convert;
mod diff;
mod encode;
mod envelope;
mod fault;
mod fault_pump;
mod file;
mod filter;
mod folder;
mod header;
mod message;
mod mock;
mod pairs;
mod parse;
mod pump;
mod queue;
#[cfg(test)]
mod queue_tests;
mod reader;
mod record;
mod recorder;
mod redact;
mod redact_record;
mod relations;
mod replay;
mod script;
mod session;
mod sniff;
mod stats;
mod stream;
mod sys;
mod time;
mod variables;
mod web;
mod web_head;
mod wire;
mod writer;

pub use check::{CheckOptions, Checker, Finding, Protocol, Rule, shown_time};
pub use convert::{ExportFormat, Exporter, ImportError, ImportFormat, import};
pub use diff::{Change, DiffError, DiffOptions, Difference, Pointer, Side, diff};
pub use fault::{FaultNote, FaultRule, FaultStep, Faults};
pub use fault_pump::{FaultEnd, FaultLink, discard, fault_pump};
pub use file::{FileOptions, parts};
pub use filter::{Facts, Filter, FilterError, parse_time};
pub use folder::{EXTENSION, default_folder, session_name};
pub use header::{Header, VERSION};
pub use message::{ErrorObject, Message};
pub use mock::{Mock, MockAction, MockNote, MockOptions, MockOutcome, OnMiss};
pub use parse::BadLine;
pub use pump::{Stop, pump};
pub use queue::Feed;
pub use reader::{Entry, LINE_LIMIT, Reader};
pub use record::{Body, Bytes, Dir, End, Kind, Record};
pub use recorder::{Events, QUEUE_BYTES, Recorder, Report};
pub use redact::{BadRedaction, Redactions};
pub use relations::{FactsTable, OpenRequest, Relation, Relations, id_key};
pub use replay::{Action, Ending, Outgoing, Pace, Replay, ReplayOptions};
pub use script::{Script, ScriptError};
pub use session::{Options, Session, Sink};
pub use stats::{MethodStats, SlowRequest, Stats};
pub use sys::ByteStream;
pub use time::Timestamp;
pub use wire::{Incomplete, Wire};
pub use writer::Writer;

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
