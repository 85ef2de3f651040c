//! Framings, read and written in the plainest way: an independent check of the library's codec.
//!
//! The parser is strict. The daemon's output has exactly one form (F5, F17); any other byte is a fault.

use super::http;
use crate::harness::prelude::*;

/// Framing of messages on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Framing {
    /// `Content-Length` headers.
    Lsp,
    /// One message per line.
    Ndjson,
    /// A 4-byte length before each message, and a newline after it.
    Length,
    /// WebSocket messages.
    #[value(skip)]
    Ws,
    /// Bodies of HTTP requests and responses.
    #[value(skip)]
    Http,
}

/// One item that a daemon sends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A message or a batch.
    Text(String),
    /// A WebSocket pong.
    Pong(Vec<u8>),
    /// The close frame of a WebSocket, with its code.
    Close(Option<u16>),
    /// An HTTP response: its status and its body.
    Response(u16, String),
}

/// The first item in some bytes and its length, if it is complete.
pub(crate) type Parsed<T> = Result<Option<(T, usize)>, String>;

/// Limit on the length of an answer; no daemon under test sends a longer one.
const MAX_ANSWER: usize = 1 << 24;

impl Framing {
    /// Frames a text. For HTTP this is only the body; `http::post` makes the head.
    pub(crate) fn frame(self, text: &[u8]) -> Vec<u8> {
        match self {
            Framing::Lsp => {
                [format!("Content-Length: {}\r\n\r\n", text.len()).as_bytes(), text].concat()
            }
            Framing::Ndjson => [text, b"\n"].concat(),
            Framing::Length => [&(text.len() as u32).to_be_bytes(), text, b"\n"].concat(),
            Framing::Ws => ws::frame(ws::LAST | ws::TEXT, text, [7, 0, 255, 42]),
            Framing::Http => text.to_vec(),
        }
    }

    fn next(self, bytes: &[u8]) -> Parsed<Event> {
        let body = match self {
            Framing::Lsp => lsp(bytes)?,
            Framing::Ndjson => line(bytes)?,
            Framing::Length => length(bytes)?,
            Framing::Ws => return ws::next(bytes),
            Framing::Http => return http::next(bytes),
        };
        let Some((body, end)) = body else { return Ok(None) };
        let text = String::from_utf8(bytes[body].to_vec());
        Ok(Some((Event::Text(text.map_err(|_| "a frame is not UTF-8")?), end)))
    }
}

/// Received bytes of a connection, split into events.
#[derive(Debug)]
pub(crate) struct Inbound {
    framing: Framing,
    bytes: Vec<u8>,
    /// Number of consumed bytes.
    taken: usize,
    /// True until the response to a WebSocket handshake has come.
    is_upgrading: bool,
}

impl Inbound {
    pub(crate) fn new(framing: Framing) -> Self {
        let is_upgrading = framing == Framing::Ws;
        Inbound { framing, bytes: Vec::new(), taken: 0, is_upgrading }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.taken));
        self.bytes.extend_from_slice(bytes);
    }

    /// The bytes of an incomplete event.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// The next event, if it is complete. Fails on bytes that no daemon may send.
    pub(crate) fn next(&mut self) -> Result<Option<Event>, String> {
        if self.is_upgrading {
            let Some(((), length)) = ws::upgraded(self.rest())? else { return Ok(None) };
            self.taken += length;
            self.is_upgrading = false;
        }
        let Some((event, length)) = self.framing.next(self.rest())? else { return Ok(None) };
        self.taken += length;
        Ok(Some(event))
    }
}

/// Range of a body, and the end of its frame.
type Place = Parsed<std::ops::Range<usize>>;

fn line(bytes: &[u8]) -> Place {
    if !matches!(bytes.first(), None | Some(b'{' | b'[')) {
        return Err("a line is not a message".to_owned());
    }
    let end = bytes.iter().position(|&byte| byte == b'\n');
    Ok(end.map(|end| (0..end, end + 1)))
}

fn lsp(bytes: &[u8]) -> Place {
    const NAME: &[u8] = b"Content-Length: ";
    let begin = &bytes[..bytes.len().min(NAME.len())];
    if begin != &NAME[..begin.len()] {
        return Err("no frame begins here".to_owned());
    }
    let digits = bytes[begin.len()..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let end = begin.len() + digits;
    let line = &bytes[end..bytes.len().min(end + 4)];
    if begin.len() < NAME.len() || line.len() < 4 {
        let is_begin = b"\r\n\r\n".starts_with(line) && digits < 10;
        return if is_begin { Ok(None) } else { Err("a header is malformed".to_owned()) };
    }
    let digits = String::from_utf8_lossy(&bytes[NAME.len()..end]).into_owned();
    let length = digits.parse::<usize>().ok().filter(|&length| length < MAX_ANSWER);
    let length = length.filter(|length| line == b"\r\n\r\n" && length.to_string() == digits);
    let length = length.ok_or("a header is malformed")?;
    let body = end + 4..end + 4 + length;
    Ok((bytes.len() >= body.end).then_some((body.clone(), body.end)))
}

fn length(bytes: &[u8]) -> Place {
    let Some(&prefix) = bytes.first_chunk::<4>() else {
        // The first byte of a length below `MAX_ANSWER` is 0.
        let is_begin = matches!(bytes.first(), None | Some(0));
        return if is_begin { Ok(None) } else { Err("no frame begins here".to_owned()) };
    };
    let length = u32::from_be_bytes(prefix) as usize;
    if length == 0 || length >= MAX_ANSWER {
        return Err(format!("a length of {length}"));
    }
    match bytes.get(4 + length) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((4..4 + length, 5 + length))),
        Some(_) => Err("no newline after a payload".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, Framing, Inbound};

    const STREAMS: [Framing; 3] = [Framing::Lsp, Framing::Ndjson, Framing::Length];

    #[test]
    fn f1_f5_frames_arrive_unchanged_however_they_are_cut() {
        for framing in STREAMS {
            let texts = ["{}", "[1,2]", "{\"é\":1}"];
            let bytes: Vec<u8> =
                texts.iter().flat_map(|text| framing.frame(text.as_bytes())).collect();
            for size in 1..=bytes.len() {
                let (mut inbound, mut came) = (Inbound::new(framing), Vec::new());
                for piece in bytes.chunks(size) {
                    inbound.feed(piece);
                    while let Some(Event::Text(text)) = inbound.next().expect("frames") {
                        came.push(text);
                    }
                }
                assert_eq!(came, texts, "{framing:?} {size}");
                assert_eq!(inbound.rest(), b"");
            }
        }
    }

    #[test]
    fn l1_a_byte_outside_of_frames_is_a_fault() {
        let check = |framing, bytes: &[u8]| {
            let mut inbound = Inbound::new(framing);
            inbound.feed(bytes);
            let end = inbound.next().and_then(|_| inbound.next());
            assert!(end.is_err(), "{framing:?} {bytes:?}: {end:?}");
        };
        for (framing, bytes) in [
            (Framing::Lsp, &b"x"[..]),
            (Framing::Lsp, b"Content-Length: 02\r\n\r\n{}"),
            (Framing::Lsp, b"Content-Length: 2\n\n{}"),
            (Framing::Lsp, b"Content-Length: 2\r\n\r\n{}\n"),
            (Framing::Length, b"\0\0\0\0\n"),
            (Framing::Length, b"\0\0\0\x02{}x"),
            (Framing::Length, b"x"),
            (Framing::Ndjson, b"\xff\n"),
            (Framing::Ndjson, b"{\"\xff\"}\n"),
            (Framing::Ndjson, b"x"),
        ] {
            check(framing, bytes);
        }
        for framing in STREAMS {
            for bytes in [&b"hello\n"[..], b"content-length: 2\r\n\r\n{}", b"\n\n\n\n\n"] {
                check(framing, bytes);
            }
        }
    }
}
