//! The place of each event in the stream, and the bytes of a fault.
//!
//! The decoder drops the bytes of an event before it returns the event. So the bytes that it does not hold any more,
//! since the event before, are those of this one.

use duet_rpc::proto::fault::{FaultKind, Malformed};
use duet_rpc::proto::frame::{Decoder, Framing};
use serde::de::IgnoredAny;

/// Bytes since the last event that are kept.
const MOST: usize = 64 * 1024;

/// Bytes of a fault that are shown.
const SHOWN: usize = 80;

const HEADER: &[u8] = b"content-length:";

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The bytes since the last event.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// The position of the first byte that is kept.
    start: usize,
    bytes: Vec<u8>,
    /// The end of the last event.
    begin: usize,
    /// The number of bytes that the decoder got.
    fed: usize,
}

impl Recent {
    /// Notes bytes that were fed to the decoder.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let done = (self.begin - self.start).min(self.bytes.len());
        self.bytes.drain(..done);
        self.start += done;
        // After a gap, the bytes come from the decoder.
        if self.start + self.bytes.len() == self.fed {
            let room = MOST.saturating_sub(self.bytes.len());
            self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        self.fed += bytes.len();
    }

    /// The position of the JSON text of a frame that was just taken, and has this length.
    pub(super) fn frame_begin(&self, decoder: &Decoder, length: usize) -> usize {
        let end = self.fed - decoder.at_hand().len();
        match decoder.framing() {
            Some(Framing::Lsp) => end - length,
            // A newline may follow the text.
            Some(Framing::Length) => {
                let last = self.since().get((end - self.begin).saturating_sub(1));
                end - length - usize::from(last == Some(&b'\n'))
            }
            _ => self.begin + blanks(self.since()),
        }
    }

    /// The position of a fault that was just taken.
    pub(super) fn fault_begin(&self, kind: FaultKind) -> usize {
        let bytes = self.since();
        // Stray bytes before this frame were reported by the fault before.
        let header = match kind {
            FaultKind::CutShort | FaultKind::NotJson(_) => header_begin(bytes),
            _ => None,
        };
        self.begin + header.unwrap_or_else(|| blanks(bytes))
    }

    /// Notes that an event has ended, or that the decoder has dropped bytes without one.
    pub(super) fn end(&mut self, decoder: &Decoder) {
        let rest = decoder.at_hand();
        self.begin = self.fed - rest.len();
        if self.begin > self.start + self.bytes.len() {
            self.bytes = rest[..rest.len().min(MOST)].to_vec();
            self.start = self.begin;
        }
    }

    /// The bytes since the last event. They may go on after this one.
    fn since(&self) -> &[u8] {
        self.bytes.get(self.begin - self.start..).unwrap_or_default()
    }

    /// The likely reason for a fault, beyond that of the decoder.
    pub(super) fn reason(&self, kind: FaultKind) -> Option<String> {
        let bytes = self.since().trim_ascii_start();
        if bytes.starts_with(BYTE_ORDER_MARK) {
            return Some("it begins with a byte order mark, which must be left out".to_owned());
        }
        match kind {
            FaultKind::CutShort | FaultKind::NotJson(_) => wrong_length(bytes),
            FaultKind::Malformed(Malformed::BareLineFeed) => {
                let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
                let is_header = line.contains(&b':');
                (!is_header).then(|| "the line is not a header: stray output?".to_owned())
            }
            _ => None,
        }
    }

    /// The first bytes of a fault that was just taken, as a string that cannot control the terminal.
    pub(super) fn excerpt(&self, decoder: &Decoder, kind: FaultKind) -> String {
        let from = self.fault_begin(kind) - self.begin;
        let end = self.fed - decoder.at_hand().len() - self.begin;
        let bytes = self.since();
        // The decoder may keep bytes, and search them for the next frame.
        let end = match (kind, decoder.framing()) {
            (FaultKind::Malformed(_), _) => {
                let line = bytes.iter().skip(from).position(|byte| *byte == b'\n');
                end.max(from + line.map_or(bytes.len(), |line| line + 1))
            }
            (_, Some(Framing::Lsp)) => bytes.len(),
            _ => end,
        };
        let bytes = bytes.get(from..end.min(bytes.len())).unwrap_or_default();
        let (shown, more) = match bytes.len() > SHOWN {
            true => (&bytes[..SHOWN], "…"),
            false => (bytes, ""),
        };
        format!("{:?}{more}", String::from_utf8_lossy(shown))
    }
}

fn blanks(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// The start of the first header line.
fn header_begin(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if line.get(..HEADER.len()).is_some_and(|name| name.eq_ignore_ascii_case(HEADER)) {
            return Some(at);
        }
        at += line.len();
    }
    None
}

/// The end of the JSON text, if the header says another.
fn wrong_length(bytes: &[u8]) -> Option<String> {
    let bytes = &bytes[header_begin(bytes)?..];
    let head = bytes.windows(4).position(|end| end == b"\r\n\r\n")?;
    let (head, body) = (std::str::from_utf8(&bytes[..head]).ok()?, &bytes[head + 4..]);
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    })?;
    let mut texts = serde_json::Deserializer::from_slice(body).into_iter::<IgnoredAny>();
    texts.next()?.ok()?;
    let end = texts.byte_offset();
    (end != length).then(|| format!("the JSON text ends at byte {end}, the length is {length}"))
}
