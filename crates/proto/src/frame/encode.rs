//! Frame writers: they write straight into an output buffer.

use memchr::memchr2;

use super::Framing;
use crate::prefixed::{append, move_body};

/// Appends one frame. `body` writes its JSON text; see [`FrameWriter::write`].
///
/// ```
/// use std::io::Write;
/// use duet_rpc_proto::frame::{Framing, write_frame};
///
/// # fn main() -> std::io::Result<()> {
/// let mut out = Vec::new();
/// write_frame(Framing::Lsp, &mut out, |out| out.write_all(b"[]"))?;
/// assert_eq!(out, b"Content-Length: 2\r\n\r\n[]");
/// # Ok(())
/// # }
/// ```
pub fn write_frame<E>(
    framing: Framing,
    out: &mut Vec<u8>,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    FrameWriter::new(framing).write(out, body)
}

/// Writes frames of one framing.
#[derive(Clone, Copy, Debug)]
pub struct FrameWriter {
    framing: Framing,
    /// The guessed number of digits of the next length: that of the last length.
    digits: usize,
}

const NAME: &[u8] = b"Content-Length: ";
const END: &[u8] = b"\r\n\r\n";
/// Room for the longest header.
const HEADER: &[u8; 36] = b"Content-Length: 0000000000000000\r\n\r\n";

impl FrameWriter {
    /// A writer of this framing.
    pub fn new(framing: Framing) -> Self {
        FrameWriter { framing, digits: 3 }
    }

    /// Appends one frame. `body` writes its JSON text.
    ///
    /// If `body` fails or panics, nothing is appended. It must only append, and only one JSON text.
    /// The text may be pretty-printed: `ndjson` replaces raw line ends.
    #[inline]
    pub fn write<E>(
        &mut self,
        out: &mut Vec<u8>,
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = out.len();
        // The length precedes the body, but it is known only after the body is written. So guess how
        // much room the length takes.
        match self.framing {
            Framing::Lsp => {
                out.extend_from_slice(HEADER);
                out.truncate(start + NAME.len() + self.digits + END.len());
            }
            Framing::Ndjson => {}
            Framing::Length => out.extend_from_slice(&[0; 4]),
        }
        let body_start = out.len();
        append(out, start, body)?;
        match self.framing {
            Framing::Lsp => self.digits = write_header(out, start, body_start),
            Framing::Ndjson => {
                replace_line_ends(&mut out[start..]);
                out.push(b'\n');
            }
            Framing::Length => {
                let prefix = length_prefix(out.len() - body_start);
                out[start..body_start].copy_from_slice(&prefix);
                out.push(b'\n');
            }
        }
        Ok(())
    }

    /// Makes a frame of a JSON text that is too large to copy and stays in its own buffer. The
    /// bytes of the frame before it are appended to `before`, the bytes after it to `text`.
    ///
    /// ```
    /// use duet_rpc_proto::frame::{FrameWriter, Framing};
    ///
    /// let (mut before, mut text) = (Vec::new(), b"[]".to_vec());
    /// FrameWriter::new(Framing::Lsp).wrap(&mut before, &mut text);
    /// assert_eq!((&before[..], &text[..]), (&b"Content-Length: 2\r\n\r\n"[..], &b"[]"[..]));
    /// ```
    pub fn wrap(&mut self, before: &mut Vec<u8>, text: &mut Vec<u8>) {
        match self.framing {
            Framing::Lsp => {
                before.extend_from_slice(NAME);
                before.extend_from_slice(itoa::Buffer::new().format(text.len()).as_bytes());
                before.extend_from_slice(END);
            }
            Framing::Ndjson => {
                replace_line_ends(text);
                text.push(b'\n');
            }
            Framing::Length => {
                before.extend_from_slice(&length_prefix(text.len()));
                text.push(b'\n');
            }
        }
    }
}

/// Replaces line ends by spaces. Valid JSON has them only between tokens, where both mean the same.
#[inline]
fn replace_line_ends(mut text: &mut [u8]) {
    while let Some(line_end) = memchr2(b'\n', b'\r', text) {
        text[line_end] = b' ';
        text = &mut text[line_end..];
    }
}

/// The prefix of a body. A length that does not fit becomes a prefix over every message limit, so
/// the remote refuses it.
fn length_prefix(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

/// Writes the length before a body, and moves the body if the guess was wrong. Returns the number
/// of digits.
#[inline]
fn write_header(out: &mut Vec<u8>, start: usize, body_start: usize) -> usize {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(out.len() - body_start).as_bytes();
    let place = start + NAME.len();
    let end = place + digits.len();
    let body_place = end + END.len();
    if body_place != body_start {
        move_body(out, body_start, body_place);
    }
    out[place..end].copy_from_slice(digits);
    out[end..body_place].copy_from_slice(END);
    digits.len()
}
