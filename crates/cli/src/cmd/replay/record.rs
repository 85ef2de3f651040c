//! Records the session of a replay as a trace.

use std::io;

use duet_rpc::proto::frame::{Framing, write_frame};
use duet_rpc_trace::{Dir, Header, Options, Record, Session, Sink, Stats, Writer};

use crate::sys::processes;

/// A trace in memory.
pub(super) struct NewTrace {
    session: Session<Memory>,
    framing: Framing,
    frame: Vec<u8>,
}

/// The destination of the records.
struct Memory {
    writer: Writer<Vec<u8>>,
    stats: Option<Stats>,
}

impl Sink for Memory {
    fn record(&mut self, record: &Record<'_>) {
        // Writing to memory does not fail.
        let _ = self.writer.record(record);
        if let Some(stats) = &mut self.stats {
            stats.handle(record, true);
        }
    }

    fn is_whole(&self) -> bool {
        // Messages pass here, not the bytes around them.
        false
    }
}

impl NewTrace {
    pub(super) fn new(header: &Header, framing: Framing) -> Self {
        let mut writer = Writer::new(Vec::new());
        let _ = writer.header(header);
        let mut options = Options::default();
        options.framing = Some(framing);
        let session = Session::new(options, Memory { writer, stats: None });
        NewTrace { session, framing, frame: Vec::new() }
    }

    /// Counts the messages, too.
    pub(super) fn with_stats(mut self) -> Self {
        self.session.sink().stats = Some(Stats::new());
        self
    }

    pub(super) fn message(&mut self, dir: Dir, at: u64, json: &str) {
        self.frame.clear();
        let body = |out: &mut Vec<u8>| {
            out.extend_from_slice(json.as_bytes());
            Ok::<_, io::Error>(())
        };
        let _ = write_frame(self.framing, &mut self.frame, body);
        self.session.handle_bytes(dir, at, &self.frame);
    }

    pub(super) fn stderr(&mut self, at: u64, line: &str) {
        self.session.handle_bytes(Dir::Err, at, line.as_bytes());
        self.session.handle_bytes(Dir::Err, at, b"\n");
    }

    pub(super) fn eof(&mut self, dir: Dir, at: u64) {
        self.session.handle_eof(dir, at, None);
    }

    pub(super) fn exit(&mut self, at: u64, status: std::process::ExitStatus) {
        self.session.handle_exit(at, status.code(), processes::signal_of(status), 0);
    }

    /// The file, and the figures.
    pub(super) fn finish(self, at: u64) -> (Vec<u8>, Option<Stats>) {
        let Memory { writer, stats } = self.session.handle_end(at);
        (writer.into_inner(), stats)
    }
}
