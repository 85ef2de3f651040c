//! Cuts one direction of a session into parts: messages, broken frames, noise.
//!
//! Every byte is in exactly one part, and the parts are in order (R0). The decoder decides where
//! frames begin and end; this file only assigns the bytes that the decoder has consumed:
//!
//! ```text
//!  bytes ──▶ undecided ──sniff──▶ decoder ──▶ Frame: lead │ head │ body │ tail
//!               │                    │                 ▼
//!               └─ noise             ├─▶ Fault         noise or blank, if it is not empty
//!                                    └─▶ skipped bytes: noise, or `more` of the fault before
//! ```
//!
//! A stream that begins like HTTP goes to `web.rs` instead of the decoder.
//!
//! A copy of the unassigned bytes is kept here, because the decoder does not show the bytes that it
//! has consumed. It is never longer than a frame and a chunk.

use std::collections::VecDeque;
use std::ops::Range;

use duet_rpc_proto::Limits;
use duet_rpc_proto::fault::{FaultKind, Malformed};
use duet_rpc_proto::frame::{Decoder, Event, Framing};

use crate::envelope::{Envelope, envelope};
use crate::record::Kind;
use crate::sniff::{Sniffed, sniff};
use crate::web::{Shape, Web, WebPart};
use crate::web_head::is_request_start;
use crate::wire::Wire;

/// The longest frame that is recorded as a message. Longer ones are `broken` and `more`.
const LONGEST_FRAME: usize = 64 * 1024 * 1024;

/// Every length below 16 MiB begins with a zero byte, which lets the decoder find the next frame.
const LONGEST_PREFIXED: usize = 16 * 1024 * 1024 - 1;

/// The longest header section.
const LONGEST_HEADER: usize = 64 * 1024;

/// A part of a stream: the bytes from `lead` to the end of `tail`.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub(crate) kind: Kind,
    pub(crate) wire: Option<Wire>,
    pub(crate) head: &'a [u8],
    pub(crate) body: &'a [u8],
    pub(crate) tail: &'a [u8],
    /// The key of a WebSocket frame, and all bytes of the frames of a message.
    pub(crate) mask: Option<[u8; 4]>,
    pub(crate) raw: Option<&'a [u8]>,
    /// `head`, or the body of a part without one, may have credentials.
    pub(crate) has_head: bool,
    /// The part may end anywhere, even inside of a word: no line end divides it from the next one.
    pub(crate) is_divided: bool,
    pub(crate) why: Option<String>,
    pub(crate) envelope: Envelope,
    /// The times of the first and the last byte.
    pub(crate) first: u64,
    pub(crate) at: u64,
}

impl<'a> Part<'a> {
    /// A part of these bytes alone.
    fn new(kind: Kind, body: &'a [u8], [first, at]: [u64; 2]) -> Self {
        let (wire, mask, raw, why) = (None, None, None, None);
        let (head, tail, has_head, is_divided) = (&b""[..], &b""[..], false, false);
        let envelope = Envelope::default();
        Part {
            kind,
            wire,
            head,
            body,
            tail,
            mask,
            raw,
            has_head,
            is_divided,
            why,
            envelope,
            first,
            at,
        }
    }
}

/// The protocol of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// Messages in a framing.
    Framed(Framing),
    /// HTTP and WebSocket.
    Web,
}

/// One direction of a session.
pub(crate) struct Stream {
    carrier: Option<Carrier>,
    web: Web,
    decoder: Option<Decoder>,
    /// The bytes that are in no part yet, behind `front` bytes that are.
    bytes: Vec<u8>,
    front: usize,
    /// The position in the stream of the first of them, and of the first byte not fed.
    start: u64,
    fed: u64,
    /// Positions at which chunks begin, with the time of each chunk.
    chunks: VecDeque<(u64, u64)>,
    /// The fault whose bytes are being skipped, and whether a part of it was reported.
    fault: Option<(Kind, String, bool)>,
}

impl Stream {
    /// A stream from its first byte. Without a framing, the first bytes decide.
    pub(crate) fn new(framing: Option<Framing>) -> Self {
        Stream {
            carrier: framing.map(Carrier::Framed),
            web: Web::new(),
            decoder: None,
            bytes: Vec::new(),
            front: 0,
            start: 0,
            fed: 0,
            chunks: VecDeque::new(),
            fault: None,
        }
    }

    /// The protocol, once it is decided.
    pub(crate) fn carrier(&self) -> Option<Carrier> {
        self.carrier
    }

    /// Sets the protocol, if it is not decided yet.
    pub(crate) fn suggest(&mut self, carrier: Carrier) {
        self.carrier.get_or_insert(carrier);
    }

    /// Takes the next bytes, and passes on the parts that are whole.
    pub(crate) fn handle_bytes(&mut self, at: u64, bytes: &[u8], out: &mut dyn FnMut(Part<'_>)) {
        let end = self.end();
        self.chunks.push_back((end, at));
        self.bytes.extend_from_slice(bytes);
        self.advance(false, out);
    }

    /// Ends the stream, or a run of bytes before a loss. `why` describes a part that is cut short.
    pub(crate) fn handle_end(&mut self, why: &str, out: &mut dyn FnMut(Part<'_>)) {
        self.advance(true, out);
        let left = self.bytes.len() - self.front;
        if left > 0 {
            self.fault = Some((Kind::Broken, why.to_owned(), false));
            self.pass_skipped(left, out);
        }
        // After a loss, the decoder looks for the next frame.
        (self.decoder, self.fault) = (None, None);
        self.web.handle_loss();
        self.fed = self.start;
    }

    fn advance(&mut self, ended: bool, out: &mut dyn FnMut(Part<'_>)) {
        while self.carrier.is_none() {
            match sniff(&self.bytes[self.front..], ended, self.start == 0) {
                Sniffed::Carrier(carrier) => self.carrier = Some(carrier),
                Sniffed::Noise(count) => {
                    self.fed = self.start + count as u64;
                    self.pass_skipped(count, out);
                }
                Sniffed::Wait => return,
            }
        }
        let framing = match self.carrier {
            Some(Carrier::Framed(framing)) => framing,
            Some(Carrier::Web) => return self.advance_web(ended, out),
            None => return,
        };
        let mut decoder = self.decoder.take().unwrap_or_else(|| new_decoder(framing));
        if ended {
            decoder.finish();
        }
        loop {
            let unfed = self.front + (self.fed - self.start) as usize;
            let taken = decoder.feed(&self.bytes[unfed..]);
            self.fed += taken as u64;
            while let Some(event) = decoder.next_event() {
                let found = Found::new(&event);
                self.pass(found, framing, decoder.at_hand(), out);
            }
            if self.fed == self.end() {
                break;
            }
        }
        // The header of a frame whose body is incomplete is consumed, and belongs to the frame.
        let in_body = decoder.partial().is_some_and(|partial| partial.expected.is_some());
        let mut skipped = self.consumed(decoder.at_hand().len());
        if framing == Framing::Lsp && in_body {
            skipped = head_start(&self.bytes[self.front..self.front + skipped], framing);
        }
        self.pass_skipped(skipped, out);
        if !ended {
            self.decoder = Some(decoder);
        }
    }

    fn advance_web(&mut self, ended: bool, out: &mut dyn FnMut(Part<'_>)) {
        while let Some(found) = self.web.next(&self.bytes[self.front..], ended) {
            let WebPart { kind, length, shape, has_head, why, envelope } = found;
            let bytes = &self.bytes[self.front..self.front + length];
            let times = [self.time(0), self.time(length - 1)];
            // Nobody can read a text that is masked.
            let is_masked = kind == Kind::Control && bytes.get(6).is_some() && bytes[1] >= 0x80;
            // The length of a body may be wrong. That of a frame is part of the protocol.
            let is_broken = kind == Kind::Broken && matches!(shape, Shape::Plain | Shape::Http(_));
            let is_divided = is_masked || is_broken || matches!(kind, Kind::Noise | Kind::More);
            let part =
                Part { has_head, is_divided, why, envelope, ..Part::new(kind, bytes, times) };
            match &shape {
                Shape::Plain => out(part),
                Shape::Http(end) => {
                    let (head, body) = bytes.split_at(*end);
                    out(Part { wire: Some(Wire::Http), head, body, ..part });
                }
                Shape::Frame { body, mask, header } => {
                    let (wire, head) = (Some(Wire::Ws), &bytes[..*header]);
                    out(Part { wire, head, body, mask: *mask, raw: Some(bytes), ..part });
                }
                Shape::Frames { body } => {
                    out(Part { wire: Some(Wire::Ws), body, raw: Some(bytes), ..part });
                }
            }
            self.remove(length);
        }
        self.fed = self.start;
    }

    /// The position after the last byte.
    fn end(&self) -> u64 {
        self.start + (self.bytes.len() - self.front) as u64
    }

    /// The number of bytes in no part yet that the decoder has consumed.
    fn consumed(&self, at_hand: usize) -> usize {
        (self.fed - self.start) as usize - at_hand
    }

    fn pass(
        &mut self,
        found: Found,
        framing: Framing,
        at_hand: &[u8],
        out: &mut dyn FnMut(Part<'_>),
    ) {
        let end = self.consumed(at_hand.len());
        match found {
            Found::Fault(kind, why) => {
                // Bytes that were skipped before a header are of the fault before.
                let consumed = &self.bytes[self.front..self.front + end];
                let own = match framing {
                    Framing::Lsp if consumed.ends_with(b"\r\n\r\n") => {
                        head_start(consumed, framing)
                    }
                    Framing::Lsp if self.fault.as_ref().is_some_and(|(.., reported)| !reported) => {
                        end
                    }
                    _ => 0,
                };
                self.pass_skipped(own, out);
                // The bad line is consumed, or at hand.
                let consumed = &self.bytes[self.front..self.front + end - own];
                let line = consumed.trim_ascii_start();
                let line = if line.is_empty() { at_hand } else { line };
                let kind = match (kind, framing) {
                    (Kind::Noise, Framing::Lsp) if is_header_like(line) => Kind::Broken,
                    (Kind::Broken, Framing::Ndjson) if !is_message_like(line) => Kind::Noise,
                    (kind, _) => kind,
                };
                self.fault = Some((kind, why, false));
                self.pass_skipped(end - own, out);
            }
            Found::Frame { kind, length, envelope } => {
                let bytes = &self.bytes[self.front..self.front + end];
                let body = body_range(bytes, framing, length);
                let head = head_start(&bytes[..body.start], framing);
                self.pass_skipped(head, out);
                let (end, body) = (end - head, body.start - head..body.end - head);
                let bytes = &self.bytes[self.front..self.front + end];
                let times = [self.time(0), self.time(end - 1)];
                out(Part {
                    wire: Some(framing.into()),
                    head: &bytes[..body.start],
                    tail: &bytes[body.end..],
                    envelope,
                    ..Part::new(kind, &bytes[body], times)
                });
                self.fault = None;
                self.remove(end);
            }
        }
    }

    /// Passes on bytes that are not in a frame.
    fn pass_skipped(&mut self, count: usize, out: &mut dyn FnMut(Part<'_>)) {
        if count == 0 {
            return;
        }
        let bytes = &self.bytes[self.front..self.front + count];
        let is_blank = bytes.iter().all(u8::is_ascii_whitespace);
        let (kind, why) = match &mut self.fault {
            Some((kind, why, is_reported)) => {
                let is_first = !std::mem::replace(is_reported, true);
                match kind {
                    Kind::Noise if is_blank => (Kind::Blank, None),
                    // The next stray print is noise of its own.
                    Kind::Noise => (Kind::Noise, None),
                    _ if is_first => (*kind, Some(why.clone())),
                    _ => (Kind::More, None),
                }
            }
            None if is_blank => (Kind::Blank, None),
            None => (Kind::Noise, None),
        };
        let times = [self.time(0), self.time(count - 1)];
        let has_head = match self.carrier {
            Some(Carrier::Web) => self.web.is_in_head(),
            Some(Carrier::Framed(_)) => false,
            None => is_request_start(bytes),
        };
        let is_divided = match self.carrier {
            Some(Carrier::Framed(Framing::Length)) => true,
            // The length of a broken frame may be wrong.
            Some(Carrier::Framed(Framing::Lsp)) => matches!(kind, Kind::Broken | Kind::More),
            _ => false,
        };
        out(Part { why, has_head, is_divided, ..Part::new(kind, bytes, times) });
        self.remove(count);
    }

    /// The time at which one of the bytes arrived.
    fn time(&self, place: usize) -> u64 {
        let position = self.start + place as u64;
        let is_before = |&&(start, _): &&(u64, u64)| start <= position;
        self.chunks.iter().take_while(is_before).last().map_or(0, |&(_, at)| at)
    }

    fn remove(&mut self, count: usize) {
        self.start += count as u64;
        self.front += count;
        // Only if more bytes go than stay, so that each byte is moved once at most.
        if self.front >= self.bytes.len() - self.front {
            self.bytes.drain(..self.front);
            self.front = 0;
        }
        while self.chunks.get(1).is_some_and(|&(start, _)| start <= self.start) {
            self.chunks.pop_front();
        }
    }
}

/// An event of the decoder, without its bytes.
enum Found {
    Frame { kind: Kind, length: usize, envelope: Envelope },
    Fault(Kind, String),
}

impl Found {
    fn new(event: &Event<'_>) -> Self {
        match event {
            Event::Frame(text) => {
                let (kind, envelope) = envelope(text);
                Found::Frame { kind, length: text.as_str().len(), envelope }
            }
            Event::Fault(fault) => {
                use Malformed::{BareLineFeed, HeaderLine, LengthMissing, NoPrefix};
                let is_noise = matches!(
                    fault.kind,
                    FaultKind::Malformed(HeaderLine | BareLineFeed | LengthMissing | NoPrefix)
                );
                let kind = if is_noise { Kind::Noise } else { Kind::Broken };
                Found::Fault(kind, fault.kind.to_string())
            }
        }
    }
}

fn new_decoder(framing: Framing) -> Decoder {
    let limits = Limits::default().with(|it| {
        it.header_bytes = LONGEST_HEADER;
        it.depth = Limits::MAX_DEPTH;
        it.message_bytes = match framing {
            Framing::Length => LONGEST_PREFIXED,
            Framing::Lsp | Framing::Ndjson => LONGEST_FRAME,
        };
    });
    Decoder::new(framing, &limits)
}

/// The place of a body of this length at the end of consumed bytes.
fn body_range(bytes: &[u8], framing: Framing, length: usize) -> Range<usize> {
    let tail = match framing {
        Framing::Lsp => 0,
        Framing::Length => 1,
        // At the end of the stream, the last line may have no line feed.
        Framing::Ndjson if bytes.ends_with(b"\r\n") => 2,
        Framing::Ndjson => usize::from(bytes.ends_with(b"\n") || bytes.ends_with(b"\r")),
    };
    let end = bytes.len() - tail;
    end - length..end
}

/// The place at which the header of a frame begins, in the bytes before its body.
fn head_start(bytes: &[u8], framing: Framing) -> usize {
    match framing {
        Framing::Ndjson => bytes.len(),
        Framing::Length => bytes.len() - 4,
        Framing::Lsp => {
            // Upwards from the empty line, as long as the lines look like headers.
            let mut start = bytes.len().saturating_sub(2);
            while let Some(above) = bytes[..start].strip_suffix(b"\r\n") {
                let line_start = memchr::memrchr(b'\n', above).map_or(0, |place| place + 1);
                let name = above[line_start..].split(|&byte| byte == b':').next();
                let is_token = |&byte: &u8| byte.is_ascii_alphanumeric() || byte == b'-';
                let is_name = name.is_some_and(|name| {
                    name.len() < above.len() - line_start && name.iter().all(is_token)
                });
                if !is_name {
                    break;
                }
                // Skipped bytes may come before the header without a line end.
                const NAME: &[u8] = b"Content-Length";
                let strays = name.map_or(0, |name| name.len().saturating_sub(NAME.len()));
                if name.is_some_and(|name| name[strays..].eq_ignore_ascii_case(NAME)) && strays > 0
                {
                    return line_start + strays;
                }
                start = line_start;
            }
            start
        }
    }
}

/// Returns `true` if bytes begin like the header of a frame, and not like a stray print.
fn is_header_like(bytes: &[u8]) -> bool {
    const NAME: &[u8] = b"Content-";
    bytes.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME))
}

/// Returns `true` if a line begins like a message or a batch, and not like a stray print.
fn is_message_like(line: &[u8]) -> bool {
    let inner = line.strip_prefix(b"[").unwrap_or(line).trim_ascii_start();
    inner.first() == Some(&b'{')
}
