//! The bytes of one message with those around it, and the changes that faults make to them.
//!
//! Only the body and the announced length change; other header lines stay as the sender wrote them.

use std::ops::Range;

use super::json_edit;
use super::random::between;
use super::rule::Corruption;
use crate::wire::Wire;

/// The line of `corrupt=print`.
pub(super) const STRAY_PRINT: &[u8] = b"a stray print\n";

/// The id of `corrupt=id`, for ids that are numbers; others get it as a string.
const OTHER_ID: u32 = 1_000_003;

/// One message on its way.
#[derive(Clone, Debug)]
pub(super) struct FaultFrame {
    pub(super) wire: Option<Wire>,
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) tail: Vec<u8>,
}

impl FaultFrame {
    /// A message of our own. Without a framing, the bytes are the body alone.
    pub(super) fn new(wire: Option<Wire>, body: String) -> Self {
        let mut frame =
            FaultFrame { wire, head: Vec::new(), body: body.into_bytes(), tail: Vec::new() };
        if let Some(wire) = wire {
            wire.write_head(frame.body.len(), &mut frame.head);
            frame.tail = wire.tail().to_vec();
        }
        frame
    }

    pub(super) fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.body).ok()
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        [&self.head[..], &self.body, &self.tail].concat()
    }

    pub(super) fn set_body(&mut self, body: Vec<u8>) {
        self.body = body;
        self.announce(self.body.len());
    }

    /// Writes another length into the header.
    fn announce(&mut self, length: usize) {
        match self.wire {
            Some(Wire::Lsp) => {
                if let Some(digits) = length_digits(&self.head) {
                    self.head.splice(digits, length.to_string().into_bytes());
                }
            }
            Some(Wire::Length) => {
                self.head = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes().to_vec();
            }
            _ => {}
        }
    }

    /// Returns `true` if the message can be corrupted so.
    pub(super) fn can(&self, how: Corruption) -> bool {
        match how {
            Corruption::Json => !self.body.is_empty(),
            Corruption::Utf8 | Corruption::Print => true,
            Corruption::Bit => !self.body.is_empty(),
            Corruption::Truncate => self.body.len() >= 2,
            Corruption::Length => self.wire.is_some() && !self.body.is_empty(),
            Corruption::Id => self.text().is_some_and(|text| id(text).is_some()),
        }
    }

    pub(super) fn corrupt(&mut self, how: Corruption, random: u64) {
        match how {
            // No JSON text ends with this character.
            Corruption::Json => {
                if let Some(last) = self.body.last_mut() {
                    *last = b'!';
                }
            }
            Corruption::Utf8 => {
                let mut body = std::mem::take(&mut self.body);
                let place = memchr::memchr(b'"', &body).map_or(body.len(), |quote| quote + 1);
                body.insert(place, 0xff);
                self.set_body(body);
            }
            Corruption::Length => match self.wire {
                Some(Wire::Ndjson) => self.tail.clear(),
                _ => self.announce(self.body.len().saturating_sub(1)),
            },
            // The header still announces the whole message.
            Corruption::Truncate => {
                self.body.truncate(self.body.len() / 2);
                self.tail.clear();
            }
            Corruption::Bit => {
                let most = (self.body.len() as u64 * 8).saturating_sub(1);
                let bit = between(random, 0, most);
                if let Some(byte) = self.body.get_mut((bit / 8) as usize) {
                    *byte ^= 1 << (bit % 8);
                }
            }
            Corruption::Id => {
                let Some((text, id)) = self.text().and_then(|text| Some((text, id(text)?))) else {
                    return;
                };
                let number = id.parse::<f64>().is_ok();
                let other = if number { OTHER_ID.to_string() } else { format!("\"{OTHER_ID}\"") };
                if let Some(body) = json_edit::set(text, &["id".to_owned()], &other) {
                    self.set_body(body.into_bytes());
                }
            }
            // The line is written before the message.
            Corruption::Print => {}
        }
    }
}

/// The id of a message, as JSON.
pub(super) fn id(text: &str) -> Option<&str> {
    text.trim_start().starts_with('{').then(|| json_edit::get(text, &["id".to_owned()])).flatten()
}

/// The place of the number after `Content-Length:`.
fn length_digits(head: &[u8]) -> Option<Range<usize>> {
    const NAME: &[u8] = b"content-length:";
    let place = head.windows(NAME.len()).rposition(|it| it.eq_ignore_ascii_case(NAME))?;
    let from = place + NAME.len();
    let spaces = head[from..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let start = from + spaces;
    let count = head[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then_some(start..start + count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(wire: Wire, body: &str) -> FaultFrame {
        FaultFrame::new(Some(wire), body.to_owned())
    }

    #[test]
    fn x1_corruptions_do_what_they_say_in_each_framing() {
        let rows: [(Corruption, Wire, &str, &[u8]); 15] = [
            (Corruption::Json, Wire::Ndjson, "{}", b"{!\n"),
            (Corruption::Json, Wire::Lsp, "[1]", b"Content-Length: 3\r\n\r\n[1!"),
            (Corruption::Utf8, Wire::Ndjson, r#"{"a":1}"#, b"{\"\xffa\":1}\n"),
            (Corruption::Utf8, Wire::Length, "{}", b"\0\0\0\x03{}\xff\n"),
            (Corruption::Length, Wire::Lsp, "{}", b"Content-Length: 1\r\n\r\n{}"),
            (Corruption::Length, Wire::Length, "{}", b"\0\0\0\x01{}\n"),
            (Corruption::Length, Wire::Ndjson, "{}", b"{}"),
            (Corruption::Truncate, Wire::Lsp, "[1,2]", b"Content-Length: 5\r\n\r\n[1"),
            (Corruption::Truncate, Wire::Ndjson, "[1,2]", b"[1"),
            (Corruption::Truncate, Wire::Length, "[1,2]", b"\0\0\0\x05[1"),
            (Corruption::Id, Wire::Ndjson, r#"{"id":7}"#, b"{\"id\":1000003}\n"),
            (Corruption::Id, Wire::Ndjson, r#"{"id":"a"}"#, b"{\"id\":\"1000003\"}\n"),
            (Corruption::Id, Wire::Ndjson, r#"{"id":null}"#, b"{\"id\":\"1000003\"}\n"),
            (Corruption::Bit, Wire::Ndjson, "{}", b"{|\n"),
            (Corruption::Print, Wire::Ndjson, "{}", b"{}\n"),
        ];
        for (how, wire, body, expected) in rows {
            let mut frame = frame(wire, body);
            assert!(frame.can(how), "{how:?} {body}");
            frame.corrupt(how, 8);
            let bytes = frame.bytes();
            assert_eq!(bytes, expected, "{how:?} {wire:?}: {}", bytes.escape_ascii());
        }
        assert!(!frame(Wire::Ndjson, r#"{"method":"m"}"#).can(Corruption::Id));
        assert!(!frame(Wire::Ndjson, r#"[{"id":1}]"#).can(Corruption::Id));
        assert!(!frame(Wire::Ndjson, "7").can(Corruption::Truncate));
    }

    #[test]
    fn x1_other_header_lines_stay() {
        let mut frame = frame(Wire::Lsp, "{}");
        frame.head = b"Content-Type: x\r\ncontent-LENGTH:\t2\r\nA: 1\r\n\r\n".to_vec();
        frame.set_body(b"[1,2,3,4,5,6]".to_vec());
        assert!(
            frame.bytes().starts_with(b"Content-Type: x\r\ncontent-LENGTH:\t13\r\nA: 1\r\n\r\n[")
        );
    }
}
