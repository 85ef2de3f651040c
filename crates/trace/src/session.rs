//! Makes records of everything that happens in a session: the pure part of the recorder.
//!
//! It gets the bytes of each direction with the time at which they passed, in the order in which the
//! recorder took them from its queue. It does no I/O: records go to a [`Sink`].

use std::borrow::Cow;

use duet_rpc_proto::frame::Framing;

use crate::pairs::{Asked, Pairs, short};
use crate::record::{Body, Bytes, Dir, End, Kind, Record};
use crate::redact::Redactions;
use crate::stream::{Part, Stream};
use crate::wire::Wire;

/// The longest part of a line on stderr that is one record.
const LONGEST_LINE: usize = 64 * 1024;

/// The destination of records.
pub trait Sink {
    /// Takes a record. A sink that fails counts the loss itself: nobody waits for a trace.
    fn record(&mut self, record: &Record<'_>);

    /// Returns `true` if every record was stored.
    fn is_whole(&self) -> bool {
        true
    }
}

impl<F: FnMut(&Record<'_>)> Sink for F {
    fn record(&mut self, record: &Record<'_>) {
        self(record);
    }
}

/// Settings of a recording.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The framing of both directions; `None` detects it.
    pub framing: Option<Framing>,
    /// The longest body to record.
    pub max_body: Option<usize>,
    /// Values to replace.
    pub redact: Redactions,
}

/// Turns the bytes of a session into records.
///
/// ```
/// use duet_rpc_trace::{Dir, Options, Record, Session};
///
/// let mut lines = Vec::new();
/// let sink = |record: &Record<'_>| lines.push(format!("{} {}", record.dir.name(), record.kind.name()));
/// let mut session = Session::new(Options::default(), sink);
/// session.handle_bytes(Dir::C2s, 10, b"{\"id\":1,\"method\":\"ping\"}\n");
/// session.handle_bytes(Dir::S2c, 15, b"hello\n{\"id\":1,\"result\":7}\n");
/// session.handle_end(20);
/// assert_eq!(lines, ["c2s request", "s2c noise", "s2c response", "tap end"]);
/// ```
#[derive(Debug)]
pub struct Session<S> {
    sink: S,
    options: Options,
    seq: u64,
    c2s: Direction,
    s2c: Direction,
    err: Lines,
    totals: End,
}

/// A direction with messages.
struct Direction {
    stream: Stream,
    /// The requests that it carried.
    pairs: Pairs,
}

impl std::fmt::Debug for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Direction").field("framing", &self.stream.framing()).finish_non_exhaustive()
    }
}

/// The stderr of the server, before its next line end.
#[derive(Debug, Default)]
struct Lines {
    line: Vec<u8>,
    first: u64,
    /// The line has more records before this one.
    is_more: bool,
}

impl<S: Sink> Session<S> {
    /// A session at its start.
    pub fn new(options: Options, sink: S) -> Self {
        let direction =
            || Direction { stream: Stream::new(options.framing), pairs: Pairs::default() };
        let totals = End::new(options.max_body.is_none() && options.redact.is_empty());
        let (c2s, s2c) = (direction(), direction());
        Session { sink, options, seq: 0, c2s, s2c, err: Lines::default(), totals }
    }

    /// Records bytes that passed at this time, in microseconds.
    pub fn handle_bytes(&mut self, dir: Dir, at: u64, bytes: &[u8]) {
        self.count(dir, bytes.len() as u64);
        match dir {
            Dir::Err => self.stderr(at, bytes),
            Dir::C2s | Dir::S2c => {
                let other = match dir {
                    Dir::C2s => self.s2c.stream.framing(),
                    _ => self.c2s.stream.framing(),
                };
                self.with_stream(dir, |stream, out| {
                    if let Some(framing) = other {
                        stream.suggest(framing);
                    }
                    stream.handle_bytes(at, bytes, out);
                });
            }
            Dir::Tap | Dir::Unknown => {}
        }
    }

    /// Records that bytes passed which could not be recorded.
    pub fn handle_loss(&mut self, dir: Dir, at: u64, lost: u64) {
        self.end_parts(dir, at, "the bytes after these were not recorded");
        self.count(dir, lost);
        self.totals.lossless = false;
        let mut record = self.next(at, dir, Kind::Loss);
        record.lost = Some(lost);
        self.sink.record(&record);
    }

    /// Records that a stream ended, with the reason if it is not a usual end.
    pub fn handle_eof(&mut self, dir: Dir, at: u64, why: Option<&str>) {
        self.end_parts(dir, at, "the stream ended");
        let mut record = self.next(at, dir, Kind::Eof);
        record.why = why.map(Cow::Borrowed);
        self.sink.record(&record);
    }

    /// Records a signal that was passed on.
    pub fn handle_signal(&mut self, at: u64, signal: i32) {
        let mut record = self.next(at, Dir::Tap, Kind::Signal);
        record.signal = Some(signal);
        self.sink.record(&record);
    }

    /// Records the end of the server: its exit code or signal, and the number of processes that it
    /// left behind.
    pub fn handle_exit(&mut self, at: u64, code: Option<i32>, signal: Option<i32>, left: u64) {
        let mut record = self.next(at, Dir::Tap, Kind::Exit);
        (record.code, record.signal) = (code, signal);
        record.left = Some(left).filter(|&left| left > 0);
        self.sink.record(&record);
    }

    /// Ends the session and returns the sink.
    pub fn handle_end(mut self, at: u64) -> S {
        for dir in Dir::STREAMS {
            self.end_parts(dir, at, "the recording ended");
        }
        let mut totals = self.totals;
        totals.lossless &= self.sink.is_whole();
        let mut record = self.next(at, Dir::Tap, Kind::End);
        record.end = Some(totals);
        self.sink.record(&record);
        self.sink
    }

    /// The sink.
    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    fn next<'a>(&mut self, at: u64, dir: Dir, kind: Kind) -> Record<'a> {
        self.seq += 1;
        Record::new(self.seq, at, dir, kind)
    }

    fn count(&mut self, dir: Dir, bytes: u64) {
        match dir {
            Dir::C2s => self.totals.c2s += bytes,
            Dir::S2c => self.totals.s2c += bytes,
            Dir::Err => self.totals.err += bytes,
            Dir::Tap | Dir::Unknown => {}
        }
    }

    /// Records the bytes of a direction that were waiting for others.
    fn end_parts(&mut self, dir: Dir, at: u64, why: &str) {
        match dir {
            Dir::Err => {
                let line = std::mem::take(&mut self.err.line);
                if !line.is_empty() {
                    self.line(at, &line, None);
                }
                self.err.is_more = false;
            }
            _ => self.with_stream(dir, |stream, out| stream.handle_end(why, out)),
        }
    }

    fn with_stream(&mut self, dir: Dir, work: impl FnOnce(&mut Stream, &mut dyn FnMut(Part<'_>))) {
        let Session { sink, options, seq, c2s, s2c, .. } = self;
        let (own, other) = match dir {
            Dir::C2s => (c2s, s2c),
            Dir::S2c => (s2c, c2s),
            _ => return,
        };
        let Direction { stream, pairs } = own;
        work(stream, &mut |part| {
            *seq += 1;
            let mut record = Record::new(*seq, part.at, dir, part.kind);
            pair(&mut record, &part, pairs, &mut other.pairs);
            fill(&mut record, &part, options);
            record.redacted |= options.redact.apply_fields(&mut record);
            sink.record(&record);
        });
    }

    fn stderr(&mut self, at: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.err.line.is_empty() {
                self.err.first = at;
            }
            let room = LONGEST_LINE - self.err.line.len();
            let line_end = memchr::memchr(b'\n', bytes);
            let count = line_end.unwrap_or(bytes.len()).min(room);
            self.err.line.extend_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            let is_end = bytes.first() == Some(&b'\n') && line_end == Some(count);
            if is_end || self.err.line.len() == LONGEST_LINE {
                bytes = &bytes[usize::from(is_end)..];
                let mut line = std::mem::take(&mut self.err.line);
                self.line(at, &line, is_end.then_some(Wire::Line));
                self.err.is_more = !is_end;
                line.clear();
                self.err.line = line;
            }
        }
    }

    fn line(&mut self, at: u64, line: &[u8], wire: Option<Wire>) {
        let kind = if self.err.is_more { Kind::More } else { Kind::Stderr };
        let first = self.err.first;
        let mut record = self.next(at, Dir::Err, kind);
        record.first = Some(first).filter(|&first| first != at);
        record.wire = wire;
        record.size = Some(line.len() as u64);
        // A secret may stand on both sides of the place where a long line is divided.
        let is_divided = self.err.is_more || wire.is_none() && line.len() == LONGEST_LINE;
        if is_divided && !self.options.redact.is_empty() {
            (record.redacted, record.body) = (true, Some(Body::Text("".into())));
        } else {
            set_body(&mut record, line, &self.options);
        }
        self.sink.record(&record);
    }
}

/// Connects an answer with its request.
fn pair(record: &mut Record<'_>, part: &Part<'_>, own: &mut Pairs, other: &mut Pairs) {
    let (seq, at) = (record.seq, record.at);
    let ask = |method: &str| Asked { seq, at, method: short(method).to_owned() };
    let envelope = &part.envelope;
    record.id = envelope.id.as_ref().map(|id| Cow::Owned(id.as_raw().to_owned()));
    record.method = envelope.method.as_ref().map(|it| Cow::Owned(short(it).to_owned()));
    let mut asked = None;
    match (part.kind, &envelope.id, &envelope.method) {
        (Kind::Request, Some(id), Some(method)) => own.ask(id.clone(), ask(method)),
        (Kind::Response | Kind::Error, Some(id), _) => asked = other.answer(id),
        _ => {}
    }
    for (id, method) in &envelope.asks {
        own.ask(id.clone(), ask(method));
    }
    for id in &envelope.answers {
        let answered = other.answer(id);
        asked = asked.or(answered);
    }
    if let Some(asked) = asked {
        record.of = Some(asked.seq);
        record.took = Some(at.saturating_sub(asked.at));
        if part.kind != Kind::Batch {
            record.method = Some(Cow::Owned(asked.method));
        }
    }
}

/// Adds the bytes of a part.
fn fill<'a>(record: &mut Record<'a>, part: &Part<'a>, options: &Options) {
    record.first = Some(part.first).filter(|&first| first != part.at);
    record.size = Some(part.body.len() as u64);
    record.why = part.why.clone().map(Cow::Owned);
    record.wire = part.framing.map(Wire::from);
    if let Some(wire) = record.wire {
        let mut usual = Vec::with_capacity(40);
        wire.write_head(part.body.len(), &mut usual);
        record.head = (part.head != usual).then(|| Bytes(part.head.into()));
        record.tail = (part.tail != wire.tail()).then(|| Bytes(part.tail.into()));
    }
    set_body(record, part.body, options);
}

/// Sets the body: redacted, cut, and as `msg`, `text` or `b64`.
fn set_body<'a>(record: &mut Record<'a>, body: &'a [u8], options: &Options) {
    let is_json = record.kind.is_message();
    let text = match std::str::from_utf8(body) {
        Ok(text) => text,
        Err(_) if options.redact.is_empty() => {
            record.body = Some(Body::Bytes(cut(record, body, options).into()));
            return;
        }
        // The rules are for text, so they cannot tell what is secret here.
        Err(_) => {
            (record.redacted, record.body) = (true, Some(Body::Text("".into())));
            return;
        }
    };
    let text = match options.redact.apply(record.kind, text) {
        Some(redacted) => {
            record.redacted = true;
            Cow::Owned(redacted)
        }
        None => Cow::Borrowed(text),
    };
    let length = cut(record, text.as_bytes(), options).len();
    record.body = Some(match text {
        text if length == text.len() && is_json => Body::from_json(text),
        text if length == text.len() => Body::Text(text),
        text => {
            let end = (0..=length).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
            Body::Text(Cow::Owned(text[..end].to_owned()))
        }
    });
}

/// The part of a body that is recorded.
fn cut<'a>(record: &mut Record<'_>, body: &'a [u8], options: &Options) -> &'a [u8] {
    match options.max_body {
        Some(most) if body.len() > most => {
            record.cut = true;
            &body[..most]
        }
        _ => body,
    }
}
