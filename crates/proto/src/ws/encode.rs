//! Frames written straight into an output buffer.

use std::fmt;

use super::mask::{self, Masks};
use super::{Control, EIGHT_BYTES, FIN, MASKED, Role, TWO_BYTES, opcode};
use crate::prefixed::{append, move_body};

/// Writes the frames of one end.
pub struct WsFrameWriter {
    role: Role,
    /// How many bytes the length of the next message will take, probably: as many as the last one's.
    length_size: LengthSize,
    masks: Masks,
}

/// A control frame, and what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlKind {
    /// Asks for a sign of life.
    Ping,
    /// Answers a ping with what that carried.
    Pong,
    /// Says that nothing more comes, and why: see [`Control::close`].
    Close,
}

/// How many bytes stand behind the first two of a header for the length.
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
    /// A writer for what this end sends. A client hides each frame behind a mask that nobody
    /// can foresee who does not know the `seed`, so this has to be random; a server uses none.
    pub fn new(role: Role, seed: u128) -> Self {
        WsFrameWriter { role, length_size: LengthSize::Two, masks: Masks::new(seed) }
    }

    /// Appends one message, which is written by `body`, as one frame of text.
    ///
    /// If `body` fails or panics, nothing is appended. It must append, and only append, UTF-8.
    #[inline]
    pub fn write<E>(
        &mut self,
        out: &mut Vec<u8>,
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = out.len();
        // The length is known only behind the body, but its place is before it, so it is guessed
        // how much room it takes.
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

    /// Makes a frame of a text that stays in its own buffer, because it is too large to be copied: the
    /// header is appended to `before`, and a client's text is masked where it is.
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

    /// Writes the header of a frame whose payload stands in its place already, and masks that.
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
    /// Shows nothing of what masks are made of.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WsFrameWriter").field("role", &self.role).finish_non_exhaustive()
    }
}
