//! Frames, requests and answers, as bytes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::web;

/// Framing of messages on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framing {
    Lsp,
    Ndjson,
    Length,
    WebSocket,
    /// One request per message, over one connection.
    Http,
}

impl Framing {
    pub fn name(self) -> &'static str {
        match self {
            Framing::Lsp => "lsp",
            Framing::Ndjson => "ndjson",
            Framing::Length => "length",
            Framing::WebSocket => "websocket",
            Framing::Http => "http",
        }
    }

    /// Name over sockets, where lines are plain TCP.
    pub fn transport(self) -> &'static str {
        match self {
            Framing::Ndjson => "tcp",
            framing => framing.name(),
        }
    }

    /// Appends a frame.
    pub fn write(self, out: &mut Vec<u8>, body: &[u8]) {
        match self {
            Framing::Lsp => {
                out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            }
            Framing::Ndjson => {}
            Framing::Length => out.extend_from_slice(&(body.len() as u32).to_be_bytes()),
            Framing::WebSocket => return web::write_frame(out, body),
            Framing::Http => return web::write_post(out, body),
        }
        out.extend_from_slice(body);
        if self.ends_lines() {
            out.push(b'\n');
        }
    }

    fn ends_lines(self) -> bool {
        matches!(self, Framing::Ndjson | Framing::Length)
    }

    /// The body of the next frame and the end of the frame, if it is complete.
    pub fn next(self, input: &[u8]) -> Result<Option<(&[u8], usize)>, String> {
        let (start, end, next) = match self {
            Framing::Lsp => {
                let Some((start, length)) = header(input)? else { return Ok(None) };
                (start, start + length, start + length)
            }
            Framing::Ndjson => {
                let Some(end) = memchr::memchr(b'\n', input) else { return Ok(None) };
                (0, end, end + 1)
            }
            Framing::Length => {
                let Some(length) = input.first_chunk() else { return Ok(None) };
                let end = 4 + u32::from_be_bytes(*length) as usize;
                (4, end, end + 1)
            }
            Framing::WebSocket | Framing::Http => {
                let found = match self {
                    Framing::WebSocket => web::next_frame(input)?,
                    _ => web::next_answer(input)?,
                };
                return Ok(found.map(|body| (&input[body.clone()], body.end)));
            }
        };
        Ok((next <= input.len()).then(|| (&input[start..end], next)))
    }
}

/// Start and length of the body. Tries the form of most servers first, a `Content-Length` alone,
/// because the driver's own work must not hide theirs.
#[inline]
fn header(input: &[u8]) -> Result<Option<(usize, usize)>, String> {
    if let Some(rest) = input.strip_prefix(b"Content-Length: ") {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if rest[digits..].starts_with(b"\r\n\r\n") {
            let length =
                rest[..digits].iter().fold(0, |n, digit| n * 10 + usize::from(digit - b'0'));
            return Ok(Some((input.len() - rest.len() + digits + 4, length)));
        }
    }
    let Some(end) = memchr::memmem::find(input, b"\r\n\r\n") else { return Ok(None) };
    Ok(Some((end + 4, content_length(&input[..end])?)))
}

pub fn content_length(header: &[u8]) -> Result<usize, String> {
    let text = || String::from_utf8_lossy(header);
    header
        .split(|&byte| byte == b'\n')
        .filter_map(|line| line.split_at_checked("content-length:".len()))
        .find(|(name, _)| name.eq_ignore_ascii_case(b"content-length:"))
        .and_then(|(_, value)| str::from_utf8(value.trim_ascii()).ok()?.parse().ok())
        .ok_or_else(|| format!("a header without a length: {}", text()))
}

/// All ids have eight digits, so that all requests have the same length.
pub const FIRST_ID: u32 = 10_000_000;
pub const LAST_ID: u32 = 99_999_999;
const DIGITS: usize = 8;

const BEFORE_ID: &str = r#"{"jsonrpc":"2.0","id":"#;

/// Position of the id in a request, and its mask.
#[derive(Clone, Copy)]
pub struct IdPosition {
    start: usize,
    mask: [u8; DIGITS],
}

impl IdPosition {
    /// Overwrites the id.
    #[inline]
    pub fn set(self, request: &mut [u8], id: u32) {
        let mut rest = id;
        let digits = &mut request[self.start..self.start + DIGITS];
        for (digit, mask) in digits.iter_mut().zip(self.mask).rev() {
            *digit = (b'0' + (rest % 10) as u8) ^ mask;
            rest /= 10;
        }
    }
}

/// A request in its frame, and the position of its id.
pub fn request(framing: Framing, method: &str, params: &str) -> (Vec<u8>, IdPosition) {
    let body = format!(r#"{BEFORE_ID}{FIRST_ID},"method":"{method}","params":{params}}}"#);
    let mut frame = Vec::new();
    framing.write(&mut frame, body.as_bytes());
    let line_end = usize::from(framing.ends_lines());
    let start = frame.len() - line_end - body.len() + BEFORE_ID.len();
    let mask = match framing {
        Framing::WebSocket => std::array::from_fn(|n| web::MASK[(BEFORE_ID.len() + n) % 4]),
        _ => [0; DIGITS],
    };
    (frame, IdPosition { start, mask })
}

/// Checks answers: each must answer a request, with the params as its result.
///
/// The first answer is parsed. After that, an answer that differs only in its id is right too,
/// which costs the driver little. Any other answer is parsed again.
pub struct Verifier {
    expected: Value,
    known: Vec<u8>,
    id_start: usize,
    pub parsed: u64,
}

impl Verifier {
    pub fn new(params: &str) -> Self {
        let expected = serde_json::from_str(params).expect("our own params are JSON");
        Verifier { expected, known: Vec::new(), id_start: 0, parsed: 0 }
    }

    /// The id of an answer, if the answer is right.
    #[inline]
    pub fn id_of(&mut self, answer: &[u8]) -> Result<u32, String> {
        let id_end = self.id_start + DIGITS;
        if answer.len() == self.known.len()
            && answer[..self.id_start] == self.known[..self.id_start]
            && answer[id_end..] == self.known[id_end..]
            && let Some(id) = number(&answer[self.id_start..id_end])
        {
            return Ok(id);
        }
        self.parse(answer)
    }

    #[cold]
    fn parse(&mut self, answer: &[u8]) -> Result<u32, String> {
        self.parsed += 1;
        let shown = || String::from_utf8_lossy(&answer[..answer.len().min(300)]).into_owned();
        let value: Value =
            serde_json::from_slice(answer).map_err(|error| format!("{error} in {}", shown()))?;
        let id = value.get("id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
        let Some(id) = id.filter(|id| (FIRST_ID..=LAST_ID).contains(id)) else {
            return Err(format!("an answer to none of our requests: {}", shown()));
        };
        if value.get("result") != Some(&self.expected) {
            return Err(format!("another result: {}", shown()));
        }
        // The params contain no number of eight digits, so this is the id.
        if let Some(id_start) = memchr::memmem::find(answer, id.to_string().as_bytes()) {
            self.known = answer.to_vec();
            self.id_start = id_start;
        }
        Ok(id)
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0u32, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u32::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_written() {
        for framing in [Framing::Lsp, Framing::Ndjson, Framing::Length] {
            let mut out = Vec::new();
            framing.write(&mut out, b"{}");
            assert_eq!(framing.next(&out), Ok(Some((&b"{}"[..], out.len()))));
            assert_eq!(framing.next(&out[..out.len() - 1]), Ok(None));
        }
    }

    #[test]
    fn an_id_is_overwritten_in_every_framing() {
        let framings = [Framing::Lsp, Framing::Ndjson, Framing::Length, Framing::Http];
        for framing in framings.into_iter().chain([Framing::WebSocket]) {
            let (mut frame, position) = request(framing, "echo", "{}");
            position.set(&mut frame, 87_654_321);
            let expected = br#"{"jsonrpc":"2.0","id":87654321,"method":"echo","params":{}}"#;
            let mut written = Vec::new();
            framing.write(&mut written, expected);
            assert_eq!(frame, written, "{framing:?}");
        }
    }

    #[test]
    fn only_the_right_answer_to_a_request_is_right() {
        let mut verifier = Verifier::new(r#"{"a":1}"#);
        let right = [
            &br#"{"jsonrpc":"2.0","id":10000001,"result":{"a":1}}"#[..],
            br#"{"jsonrpc":"2.0","id":10000002,"result":{"a":1}}"#,
            br#"{"id": 10000003, "result": {"a": 1}, "jsonrpc": "2.0"}"#,
        ];
        for (answer, id) in right.into_iter().zip(10_000_001..) {
            assert_eq!(verifier.id_of(answer), Ok(id));
        }
        assert_eq!(verifier.parsed, 2);
        let wrong = [
            &br#"{"jsonrpc":"2.0","id":10000001,"result":{"a":2}}"#[..],
            br#"{"jsonrpc":"2.0","id":1000000x,"result":{"a":1}}"#,
            br#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#,
            br#"{"jsonrpc":"2.0","id":10000001,"error":{"code":-32601,"message":"no"}}"#,
        ];
        for answer in wrong {
            assert!(verifier.id_of(answer).is_err());
        }
    }
}
