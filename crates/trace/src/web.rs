//! HTTP/1.1 and WebSocket in one direction of a connection: heads, bodies, frames.
//!
//! | state | the next bytes | then |
//! |---|---|---|
//! | `Head` | an HTTP head with a `Content-Length`, and the body: a message, or `broken` | `Head` |
//! | | a head without a body: `head` | `Head`; `Frames` if it upgrades to WebSocket |
//! | | a head with another kind of body (chunked, until the end): `head` | `Raw` |
//! | | not a head: `noise` | `Raw` |
//! | `Frames` | the frames of a message, with control frames between them: a message, or `broken` | `Frames` |
//! | | a control frame: `control` | `Frames` |
//! | | a request, because the server refused the upgrade | `Head` |
//! | `Skip` | the rest of a body or a frame that is too long: `more` | `Head`, `Frames` |
//! | `Raw` | lines: `noise` | `Raw` |
//!
//! The bytes stay in the buffer of the caller. Here is only the state, so that no byte is looked at twice.

use duet_rpc_proto::Limits;
use duet_rpc_proto::text::Text;

use crate::envelope::{Envelope, envelope};
use crate::record::Kind;
use crate::web_head::{Follows, HttpHead, find_head_end, is_request_start};

/// The longest body or message that is recorded as one.
const LONGEST: u64 = 64 * 1024 * 1024;

/// The longest head, and the longest line of raw bytes.
const LONGEST_HEAD: usize = 64 * 1024;

/// One direction of an HTTP connection.
#[derive(Debug)]
pub(crate) struct Web {
    state: WebState,
    /// The bytes at the front that were looked at: for the end of a head, or as whole frames.
    seen: usize,
    /// The payload of the frames of an unfinished message.
    message: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WebState {
    Head,
    Frames,
    Skip { left: u64, frames: bool },
    Raw,
}

/// A part of the stream: the first `length` bytes of the buffer.
#[derive(Debug)]
pub(crate) struct WebPart {
    pub(crate) kind: Kind,
    pub(crate) length: usize,
    pub(crate) shape: Shape,
    /// The bytes may have lines of a head, with credentials.
    pub(crate) has_head: bool,
    pub(crate) why: Option<String>,
    pub(crate) envelope: Envelope,
}

/// The form of a part's bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The bytes are the body.
    Plain,
    /// A head of this length, and the body after it.
    Http(usize),
    /// One frame whose header has this length, with the key of its mask. The payload is in `body`.
    Frame { body: Vec<u8>, mask: Option<[u8; 4]>, header: usize },
    /// Several frames. Their payload is in `body`.
    Frames { body: Vec<u8> },
}

impl Web {
    pub(crate) fn new() -> Self {
        Web { state: WebState::Head, seen: 0, message: Vec::new() }
    }

    /// Returns `true` if the next bytes may belong to a head, with its credentials.
    pub(crate) fn is_in_head(&self) -> bool {
        matches!(self.state, WebState::Head | WebState::Raw)
    }

    /// Continues after a loss: nothing tells where the next head or frame begins.
    pub(crate) fn handle_loss(&mut self) {
        *self = Web { state: WebState::Raw, ..Web::new() };
    }

    /// The first part of these bytes, if it is whole.
    pub(crate) fn next(&mut self, bytes: &[u8], ended: bool) -> Option<WebPart> {
        if bytes.is_empty() {
            return None;
        }
        if self.state == WebState::Frames && self.seen == 0 && is_request_start(bytes) {
            self.state = WebState::Head;
        }
        let has_head = self.is_in_head();
        let mut part = match self.state {
            WebState::Head => self.head(bytes),
            WebState::Frames => self.frames(bytes),
            WebState::Skip { left, frames } => {
                let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                let left = left - count as u64;
                self.state = match (left, frames) {
                    (0, true) => WebState::Frames,
                    (0, false) => WebState::Head,
                    _ => WebState::Skip { left, frames },
                };
                Some(plain(Kind::More, count))
            }
            WebState::Raw => raw_line(bytes, ended),
        }?;
        self.seen = 0;
        part.has_head = has_head;
        Some(part)
    }

    fn head(&mut self, bytes: &[u8]) -> Option<WebPart> {
        let Some(end) = find_head_end(bytes, self.seen) else {
            self.seen = bytes.len().saturating_sub(3);
            if bytes.len() <= LONGEST_HEAD {
                return None;
            }
            self.state = WebState::Raw;
            return raw_line(bytes, false);
        };
        let Some(head) = HttpHead::parse(&bytes[..end]) else {
            self.state = WebState::Raw;
            return raw_line(bytes, false);
        };
        let size = match head.follows {
            Follows::Body(size) if size > 0 => size,
            Follows::Body(_) => return Some(plain(Kind::Head, end)),
            Follows::Frames => {
                self.state = WebState::Frames;
                return Some(plain(Kind::Head, end));
            }
            Follows::Other => {
                self.state = WebState::Raw;
                return Some(plain(Kind::Head, end));
            }
        };
        if size > LONGEST {
            self.state = WebState::Skip { left: size, frames: false };
            let why = Some(too_long(size));
            return Some(WebPart { why, ..plain(Kind::Broken, end) });
        }
        let length = end + usize::try_from(size).ok()?;
        self.seen = end - 4;
        let body = bytes.get(end..length)?;
        let (kind, why, envelope) = classify(body);
        Some(WebPart { kind, shape: Shape::Http(end), why, envelope, ..plain(kind, length) })
    }

    fn frames(&mut self, bytes: &[u8]) -> Option<WebPart> {
        loop {
            let header = FrameHeader::parse(&bytes[self.seen..])?;
            let is_control = header.opcode >= 8;
            let so_far = self.message.len() as u64;
            if header.payload > LONGEST - so_far {
                let length = self.seen + header.size;
                self.message = Vec::new();
                self.state = WebState::Skip { left: header.payload, frames: true };
                let why = Some(too_long(header.payload.saturating_add(so_far)));
                return Some(WebPart { why, ..plain(Kind::Broken, length) });
            }
            let start = self.seen + header.size;
            let end = start + usize::try_from(header.payload).ok()?;
            let payload = bytes.get(start..end)?;
            if is_control && self.seen == 0 && !(header.is_last && header.payload < 126) {
                let why = Some("a control frame that is too long or in fragments".to_owned());
                return Some(WebPart { why, ..plain(Kind::Broken, end) });
            }
            if is_control && self.seen == 0 {
                let why = Some(control_name(header.opcode, header.mask, payload));
                return Some(WebPart { why, ..plain(Kind::Control, end) });
            }
            if !is_control {
                let from = self.message.len();
                self.message.extend_from_slice(payload);
                apply_mask(header.mask, &mut self.message[from..]);
            }
            if !is_control && header.is_last {
                let body = std::mem::take(&mut self.message);
                let (kind, why, envelope) = match header.is_compressed {
                    true => (Kind::Broken, Some("compressed".to_owned()), Envelope::default()),
                    false => classify(&body),
                };
                let shape = match self.seen {
                    0 => Shape::Frame { body, mask: header.mask, header: header.size },
                    _ => Shape::Frames { body },
                };
                return Some(WebPart { kind, shape, why, envelope, ..plain(kind, end) });
            }
            self.seen = end;
        }
    }
}

fn plain(kind: Kind, length: usize) -> WebPart {
    let (shape, why, envelope) = (Shape::Plain, None, Envelope::default());
    WebPart { kind, length, shape, has_head: false, why, envelope }
}

fn too_long(size: u64) -> String {
    format!("the message has {size} bytes, the limit is {LONGEST}")
}

/// A line, or more bytes than a line may have.
fn raw_line(bytes: &[u8], ended: bool) -> Option<WebPart> {
    let length = match memchr::memrchr(b'\n', bytes) {
        Some(place) => place + 1,
        None if ended || bytes.len() > LONGEST_HEAD => bytes.len(),
        None => return None,
    };
    Some(plain(Kind::Noise, length))
}

/// The kind of a body.
fn classify(body: &[u8]) -> (Kind, Option<String>, Envelope) {
    match Text::check(body, Limits::MAX_DEPTH) {
        Ok(text) => {
            let (kind, envelope) = envelope(&text);
            (kind, None, envelope)
        }
        Err(_) => (Kind::Broken, Some("not JSON".to_owned()), Envelope::default()),
    }
}

/// The header of a WebSocket frame.
struct FrameHeader {
    is_last: bool,
    is_compressed: bool,
    opcode: u8,
    payload: u64,
    mask: Option<[u8; 4]>,
    size: usize,
}

impl FrameHeader {
    /// Parses a header. `None` if it is not whole.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let [first, second] = *bytes.first_chunk::<2>()?;
        let (payload, mut size) = match second & 0x7f {
            126 => (u64::from(u16::from_be_bytes(*bytes[2..].first_chunk()?)), 4),
            127 => (u64::from_be_bytes(*bytes[2..].first_chunk()?), 10),
            short => (u64::from(short), 2),
        };
        let mut mask = None;
        if second & 0x80 != 0 {
            mask = Some(*bytes.get(size..)?.first_chunk::<4>()?);
            size += 4;
        }
        let (is_last, is_compressed) = (first & 0x80 != 0, first & 0x40 != 0);
        Some(FrameHeader { is_last, is_compressed, opcode: first & 15, payload, mask, size })
    }
}

/// Masks a payload, or removes its mask.
pub(crate) fn apply_mask(mask: Option<[u8; 4]>, payload: &mut [u8]) {
    let Some(mask) = mask else { return };
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
}

/// Appends the usual header of a text message in one frame.
pub(crate) fn write_frame_header(size: usize, mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    let masked = if mask.is_some() { 0x80 } else { 0 };
    out.push(0x81);
    match (u8::try_from(size), u16::try_from(size)) {
        (Ok(short @ ..=125), _) => out.push(masked | short),
        (_, Ok(medium)) => {
            out.push(masked | 126);
            out.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            out.push(masked | 127);
            out.extend_from_slice(&(size as u64).to_be_bytes());
        }
    }
    out.extend(mask.into_iter().flatten());
}

/// The name of a control frame, and the code of a close.
fn control_name(opcode: u8, mask: Option<[u8; 4]>, payload: &[u8]) -> String {
    match opcode {
        8 => {
            let mut code = payload.get(..2).unwrap_or_default().to_vec();
            apply_mask(mask, &mut code);
            let code = code.first_chunk::<2>().map(|code| u16::from_be_bytes(*code));
            code.map_or("close".to_owned(), |code| format!("close {code}"))
        }
        9 => "ping".to_owned(),
        10 => "pong".to_owned(),
        other => format!("unknown opcode {other}"),
    }
}
