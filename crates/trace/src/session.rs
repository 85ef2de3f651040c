//! Makes records of everything that happens in a session: the pure part of the recorder.
//!
//! It gets the bytes of each direction with the time at which they passed, in the order in which the
//! recorder took them from its queue. It does no I/O: records go to a [`Sink`].

use std::borrow::Cow;

use duet_rpc_proto::frame::Framing;
use duet_rpc_proto::message::Id;

use crate::fault::FaultNote;
use crate::pairs::{Asked, Pairs, short};
use crate::record::{Body, Bytes, Dir, End, Kind, Record};
use crate::redact::Redactions;
use crate::stream::{Part, Stream};
use crate::web::write_frame_header;
use crate::web_head;
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
    /// Keep the credentials in the heads of HTTP requests and responses: `Authorization`, cookies, tokens.
    pub keep_credentials: bool,
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
    /// The bytes so far end inside of a line with credentials.
    in_secret: bool,
    /// The bytes before the next ones may have the beginning of a secret: they were divided anywhere, or lost.
    is_torn: bool,
}

impl std::fmt::Debug for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Direction").field("carrier", &self.stream.carrier()).finish_non_exhaustive()
    }
}

/// The stderr of the server, before its next line end.
#[derive(Debug, Default)]
struct Lines {
    line: Vec<u8>,
    first: u64,
    /// The line has more records before this one.
    is_more: bool,
    /// The line is beside a loss.
    is_torn: bool,
}

impl<S: Sink> Session<S> {
    /// A session at its start.
    pub fn new(options: Options, sink: S) -> Self {
        let direction = || Direction {
            stream: Stream::new(options.framing),
            pairs: Pairs::default(),
            in_secret: false,
            is_torn: false,
        };
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
                    Dir::C2s => self.s2c.stream.carrier(),
                    _ => self.c2s.stream.carrier(),
                };
                self.with_stream(dir, |stream, out| {
                    if let Some(carrier) = other {
                        stream.suggest(carrier);
                    }
                    stream.handle_bytes(at, bytes, out);
                });
            }
            Dir::Tap | Dir::Unknown => {}
        }
    }

    /// Records that bytes passed which could not be recorded.
    pub fn handle_loss(&mut self, dir: Dir, at: u64, lost: u64) {
        self.tear(dir);
        self.end_parts(dir, at, "the bytes after these were not recorded");
        self.tear(dir);
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

    /// Records a fault that was made in a message.
    pub fn handle_fault(&mut self, note: &FaultNote) {
        // With the kind of the message, so that its body is redacted like that of the message.
        let mut record = self.next(note.at, note.dir, note.kind);
        record.id = note.id.as_deref().map(Cow::Borrowed);
        record.method = note.method.as_deref().map(Cow::Borrowed);
        if let Some(body) = &note.body {
            set_body(&mut record, body, &self.options);
        }
        record.size = Some(note.size);
        // A rule may contain a secret value, and the name of its member.
        let rule = self.options.redact.apply(Kind::Noise, &note.rule);
        record.redacted |= rule.is_some();
        record.why = Some(rule.map_or(Cow::Borrowed(&*note.rule), Cow::Owned));
        record.redacted |= self.options.redact.apply_fields(&mut record);
        record.kind = Kind::Fault;
        // A request that does not pass may get an answer of the tap.
        if let (Kind::Request, Some(_), Some(id)) = (note.kind, &note.body, &note.id)
            && let Some(id) = Id::from_raw(id)
        {
            let method = note.method.clone().unwrap_or_default();
            let asked = Asked { seq: record.seq, at: record.at, method };
            match note.dir {
                Dir::C2s => self.c2s.pairs.ask(id, asked),
                _ => self.s2c.pairs.ask(id, asked),
            }
        }
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

    /// The bytes of a direction end here, or begin, beside bytes that are not known.
    fn tear(&mut self, dir: Dir) {
        match dir {
            Dir::C2s => (self.c2s.in_secret, self.c2s.is_torn) = (true, true),
            Dir::S2c => (self.s2c.in_secret, self.s2c.is_torn) = (true, true),
            Dir::Err => self.err.is_torn = true,
            Dir::Tap | Dir::Unknown => {}
        }
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
        let Session { sink, options, seq, c2s, s2c, totals, .. } = self;
        let (own, other) = match dir {
            Dir::C2s => (c2s, s2c),
            Dir::S2c => (s2c, c2s),
            _ => return,
        };
        let Direction { stream, pairs, in_secret, is_torn } = own;
        work(stream, &mut |mut part| {
            *seq += 1;
            part.is_divided |= *is_torn;
            // A whole message ends the doubt.
            *is_torn = part.is_divided && !part.is_whole();
            let mut record = Record::new(*seq, part.at, dir, part.kind);
            pair(&mut record, &part, pairs, &mut other.pairs);
            let secrets = part.has_head && !options.keep_credentials;
            let redacted =
                secrets.then(|| web_head::redact(part.secret_bytes(), in_secret)).flatten();
            fill(&mut record, &part, redacted.as_deref(), options);
            record.redacted |= options.redact.apply_fields(&mut record);
            totals.lossless &= !record.redacted;
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
        let is_torn = std::mem::take(&mut self.err.is_torn);
        let is_divided =
            is_torn || self.err.is_more || wire.is_none() && line.len() == LONGEST_LINE;
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

impl<'a> Part<'a> {
    /// Returns `true` for a message in a frame. A number alone may be the end of something else.
    fn is_whole(&self) -> bool {
        self.wire.is_some() && self.kind.is_message() && self.kind != Kind::Invalid
    }

    /// The bytes that may have credentials.
    fn secret_bytes(&self) -> &'a [u8] {
        if self.wire == Some(Wire::Http) { self.head } else { self.body }
    }
}

/// Adds the bytes of a part. `redacted` replaces those that have credentials.
fn fill<'a>(
    record: &mut Record<'a>,
    part: &Part<'a>,
    redacted: Option<&'a [u8]>,
    options: &Options,
) {
    record.first = Some(part.first).filter(|&first| first != part.at);
    record.size = Some(part.body.len() as u64);
    record.why = part.why.clone().map(Cow::Owned);
    record.wire = part.wire;
    record.redacted = redacted.is_some();
    // A secret may stand on both sides of the place where the bytes are divided.
    let is_doubtful = part.is_divided && !options.redact.is_empty();
    if is_doubtful && !part.is_whole() {
        (record.redacted, record.body) = (true, Some(Body::Text("".into())));
        return;
    }
    let mut usual = Vec::with_capacity(40);
    match part.wire {
        None => return set_body(record, redacted.unwrap_or(part.body), options),
        Some(Wire::Http) => record.head = Some(Bytes(redacted.unwrap_or(part.head).into())),
        Some(Wire::Ws) => {
            record.mask = part.mask;
            write_frame_header(part.body.len(), part.mask, &mut usual);
            record.raw = part.raw.filter(|_| part.head != usual).map(|raw| Bytes(raw.into()));
        }
        Some(wire) => {
            wire.write_head(part.body.len(), &mut usual);
            record.head = (part.head != usual).then(|| Bytes(part.head.into()));
            record.tail = (part.tail != wire.tail()).then(|| Bytes(part.tail.into()));
        }
    }
    set_body(record, part.body, options);
    if is_doubtful && (record.head.is_some() || record.tail.is_some()) {
        (record.head, record.tail, record.redacted) = (None, None, true);
    }
    // The raw bytes have the whole body, with all of its values.
    if record.raw.is_some() && (record.cut || !options.redact.is_empty()) {
        (record.raw, record.redacted) = (None, true);
    }
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
