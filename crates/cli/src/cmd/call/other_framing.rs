//! A server that speaks another framing than ours, recognised by its first bytes.
//!
//! | first bytes | framing |
//! |---|---|
//! | a line that begins with `Content-Length:` | `lsp` |
//! | a line that begins with `{` and has `"jsonrpc"`, before any other | `ndjson` |
//! | four bytes of a length, and `{` | `length` |
//! | `HTTP/`, which has headers of the same name | none |
//!
//! Without this, a call waits for its whole timeout: each side waits for the end of a message. Other texts are stray
//! prints, which a call skips.

use duet_rpc::proto::frame::Framing;

/// The number of bytes that are looked at.
const MOST: usize = 4 * 1024;

const HEADER: &[u8] = b"content-length:";

/// Looks at the first bytes of a server.
#[derive(Debug)]
pub(super) struct FramingCheck {
    expected: Framing,
    first: Vec<u8>,
    is_done: bool,
}

impl FramingCheck {
    pub(super) fn new(expected: Framing) -> Self {
        FramingCheck { expected, first: Vec::new(), is_done: false }
    }

    /// Returns `true` if no more bytes are needed.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Takes the next bytes. Returns the framing of the server if it is another one.
    pub(super) fn handle_bytes(&mut self, bytes: &[u8]) -> Option<Framing> {
        let room = MOST - self.first.len();
        self.first.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let found = framing_of(&self.first);
        self.is_done = found.is_some() || self.first.len() == MOST;
        if self.is_done {
            self.first = Vec::new();
        }
        found.filter(|found| *found != self.expected)
    }
}

fn framing_of(bytes: &[u8]) -> Option<Framing> {
    if bytes.starts_with(b"HTTP/") {
        return None;
    }
    if let [0, _, _, _, b'{', ..] = bytes {
        return Some(Framing::Length);
    }
    let mut lines = bytes.split(|byte| *byte == b'\n');
    // The last line may go on.
    let is_header = |line: &[u8]| {
        line.get(..HEADER.len()).is_some_and(|start| start.eq_ignore_ascii_case(HEADER))
    };
    if lines.clone().any(is_header) {
        return Some(Framing::Lsp);
    }
    let first = lines.next()?;
    let member = b"\"jsonrpc\"";
    let is_message =
        first.starts_with(b"{") && first.windows(member.len()).any(|bytes| bytes == member);
    (is_message && lines.next().is_some()).then_some(Framing::Ndjson)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p2_the_first_bytes_tell_the_framing_of_a_server() {
        let line = "{\"jsonrpc\":\"2.0\",\"id\":1}\n";
        let rows = [
            ("Content-Length: 2\r\n\r\n{}", Some(Framing::Lsp)),
            ("content-length:2", Some(Framing::Lsp)),
            ("Loading...\nContent-Length: 2\r\n", Some(Framing::Lsp)),
            ("see Content-Length: 2", None),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", None),
            ("Content-Leng", None),
            (line, Some(Framing::Ndjson)),
            // It may go on, or it is a log line.
            (line.trim_end(), None),
            ("{\"level\":\"info\"}\n", None),
            ("Loading...\n{\"jsonrpc\":\"2.0\"}\n", None),
            ("\0\0\0\u{2}{}", Some(Framing::Length)),
            ("\0\0\0\u{2}", None),
            ("", None),
        ];
        for (bytes, found) in rows {
            for expected in [Framing::Lsp, Framing::Ndjson, Framing::Length] {
                let found = found.filter(|found| *found != expected);
                let mut check = FramingCheck::new(expected);
                assert_eq!(check.handle_bytes(bytes.as_bytes()), found, "{bytes:?}");
                // The same, byte by byte.
                let mut check = FramingCheck::new(expected);
                let mut each = bytes.bytes().filter_map(|byte| match check.is_done() {
                    true => None,
                    false => check.handle_bytes(&[byte]),
                });
                assert_eq!(each.next(), found, "{bytes:?}");
            }
        }
    }

    #[test]
    fn p2_only_the_first_bytes_of_a_server_are_looked_at() {
        let mut check = FramingCheck::new(Framing::Ndjson);
        assert_eq!(check.handle_bytes(&vec![b'x'; 2 * MOST]), None);
        assert!(check.is_done());
    }
}
