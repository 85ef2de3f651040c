//! Splits a peer's output into messages. It is strict: a peer writes exactly one form.

use duet_rpc::proto::frame::Framing;
use serde::de::IgnoredAny;

pub(crate) struct Cutter {
    framing: Framing,
    /// The message so far.
    bytes: Vec<u8>,
    /// The range of its body, once it is known.
    body: Option<(usize, usize)>,
}

impl Cutter {
    pub(crate) fn new(framing: Framing) -> Self {
        Cutter { framing, bytes: Vec::new(), body: None }
    }

    /// Returns `true` if the next byte begins a message.
    pub(crate) fn is_between(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes a byte; returns the body of the message that ends with it, or the problem.
    pub(crate) fn take(&mut self, byte: u8) -> Option<Result<Vec<u8>, String>> {
        self.bytes.push(byte);
        let end = match self.framing {
            Framing::Ndjson => (byte == b'\n').then(|| (0, self.bytes.len() - 1, 1)),
            Framing::Lsp => {
                if self.body.is_none() && self.bytes.ends_with(b"\r\n\r\n") {
                    let Some(length) = lsp_length(&self.bytes) else { return Some(self.wrong()) };
                    self.body = Some((self.bytes.len(), self.bytes.len() + length));
                }
                self.body.map(|(start, end)| (start, end, 0))
            }
            Framing::Length => {
                if let Some(&[a, b, c, d]) = self.bytes.get(..4).and_then(|head| head.first_chunk())
                {
                    self.body = Some((4, 4 + u32::from_be_bytes([a, b, c, d]) as usize));
                }
                self.body.map(|(start, end)| (start, end, 1))
            }
        };
        let (start, end, tail) = end.filter(|(_, end, tail)| self.bytes.len() == end + tail)?;
        if tail == 1 && self.bytes.last() != Some(&b'\n') {
            return Some(self.wrong());
        }
        let body = self.bytes[start..end].to_vec();
        self.bytes.clear();
        self.body = None;
        Some(Ok(body))
    }

    /// Returns the unfinished message at the end: a last line without its line end is a message (F20).
    pub(crate) fn take_rest(&mut self) -> Option<Vec<u8>> {
        let is_whole = serde_json::from_slice::<IgnoredAny>(&self.bytes).is_ok();
        let is_message = self.framing == Framing::Ndjson && is_whole;
        is_message.then(|| std::mem::take(&mut self.bytes))
    }

    fn wrong(&mut self) -> Result<Vec<u8>, String> {
        let bytes = std::mem::take(&mut self.bytes);
        self.body = None;
        Err(format!("no frame: {:?}", String::from_utf8_lossy(&bytes)))
    }
}

/// The length in a header section that has nothing else (F17).
fn lsp_length(section: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(section).ok()?;
    text.strip_prefix("Content-Length: ")?.strip_suffix("\r\n\r\n")?.parse().ok()
}

/// A message in its frame.
pub(crate) fn frame(framing: Framing, body: &str) -> Vec<u8> {
    match framing {
        Framing::Ndjson => format!("{body}\n").into_bytes(),
        Framing::Lsp => format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes(),
        Framing::Length => {
            let head = (body.len() as u32).to_be_bytes();
            [&head, body.as_bytes(), b"\n"].concat()
        }
    }
}
