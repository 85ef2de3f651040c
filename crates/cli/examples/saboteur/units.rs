//! Splits a well-formed stream into messages. Everything else passes unchanged.

use std::mem;

/// One message with its frame, or bytes that are not a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) framing: Framing,
    /// The JSON text; for [`Framing::None`], all bytes.
    pub(crate) body: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Framing {
    Lsp,
    Ndjson,
    Length,
    /// A protocol with its own frames, such as HTTP.
    #[default]
    None,
}

impl Unit {
    /// Writes the unit with its frame.
    pub(crate) fn write(&self, output: &mut Vec<u8>) {
        write(self.framing, &self.body, self.body.len(), output);
    }

    /// Writes the unit with a length that is one too small; without a length, with no newline.
    pub(crate) fn write_short(&self, output: &mut Vec<u8>) {
        write(self.framing, &self.body, self.body.len().saturating_sub(1), output);
        if matches!(self.framing, Framing::Ndjson) {
            output.pop();
        }
    }
}

fn write(framing: Framing, body: &[u8], count: usize, output: &mut Vec<u8>) {
    match framing {
        Framing::Lsp => {
            output.extend_from_slice(format!("Content-Length: {count}\r\n\r\n").as_bytes());
        }
        Framing::Length => {
            output.extend_from_slice(&u32::try_from(count).unwrap_or(0).to_be_bytes());
        }
        Framing::Ndjson | Framing::None => {}
    }
    output.extend_from_slice(body);
    if matches!(framing, Framing::Ndjson | Framing::Length) {
        output.push(b'\n');
    }
}

/// Received bytes, and the framing detected from the first one.
#[derive(Default)]
pub(crate) struct Units {
    framing: Option<Framing>,
    bytes: Vec<u8>,
}

impl Units {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete unit; at the end, the rest.
    pub(crate) fn next_unit(&mut self, at_end: bool) -> Option<Unit> {
        let first = *self.bytes.first()?;
        let framing = *self.framing.get_or_insert(match first {
            b'{' | b'[' => Framing::Ndjson,
            b'C' => Framing::Lsp,
            0 => Framing::Length,
            _ => Framing::None,
        });
        match cut(framing, &self.bytes) {
            Cut::At { start, end, next } => {
                let body = self.bytes[start..end].to_vec();
                self.bytes.drain(..next);
                Some(Unit { framing, body })
            }
            Cut::More if !at_end => None,
            _ => Some(Unit { framing: Framing::None, body: mem::take(&mut self.bytes) }),
        }
    }
}

enum Cut {
    /// A message from `start` to `end`; the next one begins at `next`.
    At {
        start: usize,
        end: usize,
        next: usize,
    },
    More,
    Never,
}

fn cut(framing: Framing, bytes: &[u8]) -> Cut {
    match framing {
        Framing::Ndjson => match bytes.iter().position(|byte| *byte == b'\n') {
            Some(end) => Cut::At { start: 0, end, next: end + 1 },
            None => Cut::More,
        },
        Framing::Length => {
            let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Cut::More };
            let length = u32::from_be_bytes(*length) as usize;
            match rest.len() > length {
                true => Cut::At { start: 4, end: 4 + length, next: 5 + length },
                false => Cut::More,
            }
        }
        Framing::Lsp => {
            let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
                return Cut::More;
            };
            let header = String::from_utf8_lossy(&bytes[..end]);
            let length = header.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let Some(length) = length.and_then(|length| length.trim().parse::<usize>().ok()) else {
                return Cut::Never;
            };
            let start = end + 4;
            match bytes.len() - start >= length {
                true => Cut::At { start, end: start + length, next: start + length },
                false => Cut::More,
            }
        }
        Framing::None => Cut::Never,
    }
}
