//! The first bytes of a server, which tell why a call would get no answer.
//!
//! | first bytes | sign |
//! |---|---|
//! | our own first message | the server sends everything back, as `cat` does |
//! | a line that begins with `Content-Length:` | framing `lsp` |
//! | a line that begins with `{` and has `"jsonrpc"`, before any other | framing `ndjson` |
//! | four bytes of a length, and `{` | framing `length` |
//! | `HTTP/`, which has headers of the same name | none |
//!
//! Without this, a call waits for its whole timeout: each side waits for the end of a message. Other texts are stray
//! prints, which a call skips. Their first line is kept: it is often the usage of the program.

use duet_rpc::proto::frame::Framing;

/// The number of bytes that are looked at.
const MOST: usize = 4 * 1024;

/// The number of bytes of our first message that are compared.
const MOST_SENT: usize = 512;

/// The number of bytes of the first line that are kept.
const MOST_SHOWN: usize = 120;

const HEADER: &[u8] = b"content-length:";

/// A reason why there will be no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstSign {
    /// The server speaks this framing instead of ours.
    OtherFraming(Framing),
    /// The server sends our own message back.
    Echo,
}

/// Looks at the first bytes in both directions.
#[derive(Debug)]
pub(super) struct FirstBytes {
    expected: Framing,
    sent: Vec<u8>,
    received: Vec<u8>,
    is_done: bool,
}

impl FirstBytes {
    pub(super) fn new(expected: Framing) -> Self {
        FirstBytes { expected, sent: Vec::new(), received: Vec::new(), is_done: false }
    }

    /// Returns `true` if no more bytes are needed.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Takes our first message.
    pub(super) fn handle_sent(&mut self, bytes: &[u8]) {
        if self.sent.is_empty() {
            self.sent.extend_from_slice(&bytes[..bytes.len().min(MOST_SENT)]);
        }
    }

    /// Takes the next bytes of the server.
    pub(super) fn handle_received(&mut self, bytes: &[u8]) -> Option<FirstSign> {
        let room = MOST - self.received.len();
        self.received.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if !self.sent.is_empty() && self.received.starts_with(&self.sent) {
            self.is_done = true;
            return Some(FirstSign::Echo);
        }
        // Until it differs from our message, it may become an echo.
        if !self.received.is_empty() && self.sent.starts_with(&self.received) {
            return None;
        }
        let found = framing_of(&self.received);
        self.is_done = found.is_some() || self.received.len() == MOST;
        found.filter(|found| *found != self.expected).map(FirstSign::OtherFraming)
    }

    /// The beginning of the first line that is not empty.
    pub(super) fn first_line(&self) -> String {
        let text = String::from_utf8_lossy(&self.received);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        match line.char_indices().nth(MOST_SHOWN) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line.to_owned(),
        }
    }
}

/// The framing that these first bytes of a server show.
pub(in crate::cmd) fn framing_of(bytes: &[u8]) -> Option<Framing> {
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

    fn whole(expected: Framing, sent: &str, received: &str) -> Option<FirstSign> {
        let mut first = FirstBytes::new(expected);
        first.handle_sent(sent.as_bytes());
        first.handle_received(received.as_bytes())
    }

    fn byte_by_byte(expected: Framing, sent: &str, received: &str) -> Option<FirstSign> {
        let mut first = FirstBytes::new(expected);
        first.handle_sent(sent.as_bytes());
        received.bytes().find_map(|byte| match first.is_done() {
            true => None,
            false => first.handle_received(&[byte]),
        })
    }

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
                let found = found.filter(|found| *found != expected).map(FirstSign::OtherFraming);
                assert_eq!(whole(expected, "", bytes), found, "{bytes:?}");
                assert_eq!(byte_by_byte(expected, "", bytes), found, "{bytes:?}");
            }
        }
    }

    #[test]
    fn p2_only_the_first_bytes_of_a_server_are_looked_at() {
        let mut first = FirstBytes::new(Framing::Ndjson);
        assert_eq!(first.handle_received(&vec![b'x'; 2 * MOST]), None);
        assert!(first.is_done());
    }

    #[test]
    fn p2_a_server_that_sends_our_message_back_is_recognised() {
        let (line, header) = ("{\"jsonrpc\":\"2.0\",\"id\":0}\n", "Content-Length: 2\r\n\r\n{}");
        let long = format!("{{\"jsonrpc\":\"{}\"}}\n", "x".repeat(2 * MOST_SENT));
        let rows = [
            (Framing::Ndjson, line, line, Some(FirstSign::Echo)),
            (Framing::Lsp, header, header, Some(FirstSign::Echo)),
            (Framing::Ndjson, &long, &long, Some(FirstSign::Echo)),
            (Framing::Ndjson, line, &line[..line.len() - 1], None),
            (Framing::Ndjson, line, "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":1}\n", None),
            (Framing::Lsp, header, line, Some(FirstSign::OtherFraming(Framing::Ndjson))),
        ];
        for (expected, sent, received, found) in rows {
            assert_eq!(whole(expected, sent, received), found, "{received:?}");
            assert_eq!(byte_by_byte(expected, sent, received), found, "{received:?}");
        }
    }

    #[test]
    fn p2_the_first_line_of_a_server_is_kept() {
        for (received, line) in [
            ("", ""),
            ("\r\n  Usage: foo --stdio\nmore", "Usage: foo --stdio"),
            ("no end", "no end"),
            (&"é".repeat(121), &format!("{}…", "é".repeat(120))),
        ] {
            let mut first = FirstBytes::new(Framing::Lsp);
            first.handle_received(received.as_bytes());
            assert_eq!(first.first_line(), line);
        }
    }
}
