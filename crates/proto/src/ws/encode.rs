//! WebSocket frame writer: it writes straight into an output buffer.

use std::fmt;

use super::mask::{self, Masks};
use super::{Control, EIGHT_BYTES, FIN, MASKED, Role, TWO_BYTES, opcode};
use crate::prefixed::{append, move_body};

/// Writes the frames of one end.
pub struct WsFrameWriter {
    role: Role,
    /// The guessed size of the next length field: that of the last one.
    length_size: LengthSize,
    masks: Masks,
}

/// Kinds of control frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlKind {
    /// Asks for a pong.
    Ping,
    /// Answers a ping with its payload.
    Pong,
    /// Announces that nothing more follows, with a reason: see [`Control::close`].
    Close,
}

/// The number of bytes for the length after the first two bytes of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LengthSize {
    None = 0,
    Two = 2,
    Eight = 8,
}

impl LengthSize {
    fn for_length(length: usize) -> Self {
        match length {
            0..126 => LengthSize::None,
            126..0x1_0000 => LengthSize::Two,
            _ => LengthSize::Eight,
        }
    }
}

/// Room for the longest header.
const EMPTY: [u8; 14] = [0; 14];

impl WsFrameWriter {
    /// A writer for one end. A client masks each frame with a mask that nobody can predict without
    /// the `seed`, so the seed must be random. A server does not mask.
    pub fn new(role: Role, seed: u128) -> Self {
        WsFrameWriter { role, length_size: LengthSize::Two, masks: Masks::new(seed) }
    }

    /// Appends one message as one text frame. `body` writes the message.
    ///
    /// If `body` fails or panics, nothing is appended. It must only append, and only UTF-8.
    #[inline]
    pub fn write<E>(
        &mut self,
        out: &mut Vec<u8>,
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = out.len();
        // The length precedes the body, but it is known only after the body is written. So reserve room by a
        // guess.
        let guessed = self.header_size(self.length_size);
        out.extend_from_slice(&EMPTY[..guessed]);
        append(out, start, body)?;
        let length = out.len() - start - guessed;
        self.length_size = LengthSize::for_length(length);
        let size = self.header_size(self.length_size);
        if size != guessed {
            move_body(out, start + guessed, start + size);
        }
        let (header, payload) = out[start..].split_at_mut(size);
        self.finish(header, payload, opcode::TEXT);
        Ok(())
    }

    /// Makes a frame of a text that is too large to copy and stays in its own buffer. The header is
    /// appended to `before`; a client masks the text in place.
    pub fn wrap(&mut self, before: &mut Vec<u8>, text: &mut [u8]) {
        let start = before.len();
        before.extend_from_slice(&EMPTY[..self.header_size(LengthSize::for_length(text.len()))]);
        self.finish(&mut before[start..], text, opcode::TEXT);
    }

    /// Appends a control frame.
    pub fn write_control(&mut self, out: &mut Vec<u8>, kind: ControlKind, control: &Control) {
        let opcode = match kind {
            ControlKind::Ping => opcode::PING,
            ControlKind::Pong => opcode::PONG,
            ControlKind::Close => opcode::CLOSE,
        };
        let start = out.len();
        let size = self.header_size(LengthSize::None);
        out.extend_from_slice(&EMPTY[..size]);
        out.extend_from_slice(control.as_bytes());
        let (header, payload) = out[start..].split_at_mut(size);
        self.finish(header, payload, opcode);
    }

    fn header_size(&self, length_size: LengthSize) -> usize {
        let mask = if self.role == Role::Client { 4 } else { 0 };
        2 + length_size as usize + mask
    }

    /// Writes the header of a frame whose payload is in place, and masks the payload.
    fn finish(&mut self, header: &mut [u8], payload: &mut [u8], opcode: u8) {
        let length = payload.len();
        let length_size = LengthSize::for_length(length);
        header[0] = FIN | opcode;
        let (second, rest) = header[1..].split_at_mut(1);
        let (extended, mask) = rest.split_at_mut(length_size as usize);
        second[0] = match length_size {
            LengthSize::None => length as u8,
            LengthSize::Two => {
                extended.copy_from_slice(&(length as u16).to_be_bytes());
                TWO_BYTES
            }
            LengthSize::Eight => {
                extended.copy_from_slice(&(length as u64).to_be_bytes());
                EIGHT_BYTES
            }
        };
        if self.role == Role::Client {
            second[0] |= MASKED;
            let fresh = self.masks.next();
            mask.copy_from_slice(&fresh);
            mask::apply(payload, fresh);
        }
    }
}

impl fmt::Debug for WsFrameWriter {
    /// Hides the seed of the masks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WsFrameWriter").field("role", &self.role).finish_non_exhaustive()
    }
}
