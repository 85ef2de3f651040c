//! Detection of the framing of a stream.
//!
//! | the stream begins with | framing |
//! |---|---|
//! | `GET / HTTP/1.1`, `HTTP/1.1 200 OK`, as its very first line | HTTP and WebSocket |
//! | a zero byte | `length` |
//! | a line `Content-…:` | `lsp` |
//! | a line that is JSON, an object or an array | `ndjson` |
//! | another line | not decided: the line is noise |
//!
//! A server may print a banner before its first message, so the first byte alone does not decide.
//! The framing of the other direction does: both directions of a session use the same.

use duet_rpc_proto::Limits;
use duet_rpc_proto::frame::Framing;
use duet_rpc_proto::text::Text;

use crate::stream::Carrier;
use crate::web_head::is_first_line;

/// A line that is longer decides by its first byte alone.
const LONGEST_LINE: usize = 1024 * 1024;

/// The result of looking at the first bytes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sniffed {
    /// The stream has this protocol, from its first byte.
    Carrier(Carrier),
    /// This many bytes at the front are not part of a frame.
    Noise(usize),
    /// More bytes are needed.
    Wait,
}

/// Looks at the first bytes of a stream. `ended` means that no more will come, `is_first` that none came
/// before.
pub(crate) fn sniff(bytes: &[u8], ended: bool, is_first: bool) -> Sniffed {
    let framing = |framing| Sniffed::Carrier(Carrier::Framed(framing));
    let blanks = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let Some(&first) = bytes.get(blanks) else {
        return if bytes.is_empty() { Sniffed::Wait } else { Sniffed::Noise(blanks) };
    };
    if blanks > 0 {
        return Sniffed::Noise(blanks);
    }
    if first == 0 {
        return framing(Framing::Length);
    }
    let line_end = memchr::memchr(b'\n', bytes).map(|place| place + 1);
    let line = &bytes[..line_end.unwrap_or(bytes.len())];
    if is_header(line) {
        return framing(Framing::Lsp);
    }
    if is_first && line_end.is_some() && is_first_line(line) {
        return Sniffed::Carrier(Carrier::Web);
    }
    let is_open = matches!(first, b'{' | b'[');
    match line_end {
        Some(_) if is_open && is_json(line) => framing(Framing::Ndjson),
        Some(end) => Sniffed::Noise(end),
        None if bytes.len() > LONGEST_LINE && is_open => framing(Framing::Ndjson),
        None if bytes.len() > LONGEST_LINE => Sniffed::Noise(bytes.len()),
        None if ended && is_open && is_json(line) => framing(Framing::Ndjson),
        None if ended => Sniffed::Noise(bytes.len()),
        None => Sniffed::Wait,
    }
}

fn is_header(line: &[u8]) -> bool {
    let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
    let is_known = |known: &[u8]| name.eq_ignore_ascii_case(known);
    name.len() < line.len() && (is_known(b"Content-Length") || is_known(b"Content-Type"))
}

fn is_json(line: &[u8]) -> bool {
    Text::check(line, Limits::MAX_DEPTH).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framing_is_found_behind_a_banner() {
        use Sniffed::{Noise, Wait};
        let found = |framing| Sniffed::Carrier(Carrier::Framed(framing));
        let rows: [(&[u8], bool, Sniffed); 18] = [
            (b"", false, Wait),
            (b"", true, Wait),
            (b"\0\0\0\x02[]\n", false, found(Framing::Length)),
            (b"Content-Length: 2\r\n\r\n[]", false, found(Framing::Lsp)),
            (b"content-type: x", false, found(Framing::Lsp)),
            (b"Content-Len", false, Wait),
            (b"Content-Len", true, Noise(11)),
            (b"{\"a\":1}\n", false, found(Framing::Ndjson)),
            (b"{\"a\":1}", false, Wait),
            (b"{\"a\":1}", true, found(Framing::Ndjson)),
            (b"[info] started\n{}\n", false, Noise(15)),
            (b"listening: 80\r\n", false, Noise(15)),
            (b" \r\n{}\n", false, Noise(3)),
            (b" ", false, Noise(1)),
            (b"\xff\n", false, Noise(2)),
            (b"GET / HTTP/1.1\r\n", false, Sniffed::Carrier(Carrier::Web)),
            (b"HTTP/1.1 200 OK\r\n", false, Sniffed::Carrier(Carrier::Web)),
            (b"GET / HTTP/1.1\n", false, Noise(15)),
        ];
        for (bytes, ended, expected) in rows {
            assert_eq!(sniff(bytes, ended, true), expected, "{}", bytes.escape_ascii());
        }
        assert_eq!(sniff(b"GET / HTTP/1.1\r\n", false, false), Noise(16));
    }
}
