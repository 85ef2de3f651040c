//! WebSocket frames (RFC 6455), behind the handshake: messages taken out of them, and put into them.
//!
//! A [`WsDecoder`] is fed with bytes in any pieces. What it finds of a message it appends to the
//! buffer that it is lent, and it says when the message is whole; it keeps nothing of it. A
//! [`WsFrameWriter`] writes each message as one frame. No extension is spoken, so no frame has a
//! reserved bit. Text and binary messages are received alike, but a text message that is not UTF-8 ends
//! the stream. Messages are always sent as text. Nothing here reads, writes, waits or draws a random
//! number.
//!
//! ```
//! use std::io::Write;
//! use duet_rpc_proto::ws::{WsDecoder, WsEvent, WsFrameWriter, Role};
//!
//! # fn main() -> std::io::Result<()> {
//! let mut out = Vec::new();
//! WsFrameWriter::new(Role::Client, 42).write(&mut out, |out| out.write_all(b"[1]"))?;
//!
//! let mut decoder = WsDecoder::new(Role::Server, 1024);
//! let mut message = Vec::new();
//! assert_eq!(decoder.decode(&out[..7], &mut message), (7, None));
//! assert_eq!(decoder.decode(&out[7..], &mut message), (2, Some(WsEvent::Message)));
//! assert_eq!(message, b"[1]");
//! # Ok(())
//! # }
//! ```

mod decode;
mod encode;
mod mask;
mod utf8;

use std::fmt;

pub use decode::WsDecoder;
pub use encode::{ControlKind, WsFrameWriter};

/// Which end of a connection this is. A client masks what it sends, and a server does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The end that asked for the connection.
    Client,
    /// The end that accepted it.
    Server,
}

/// Why a connection is closed, as a number on the wire.
pub mod close_code {
    /// It has done what it was there for.
    pub const NORMAL: u16 = 1000;
    /// The program goes away.
    pub const GOING_AWAY: u16 = 1001;
    /// The remote broke the rules of frames.
    pub const PROTOCOL_ERROR: u16 = 1002;
    /// Bytes that had to be UTF-8 are not.
    pub const INVALID_DATA: u16 = 1007;
    /// The remote did what is not wanted here.
    pub const POLICY: u16 = 1008;
    /// A message is larger than what is taken.
    pub const TOO_LARGE: u16 = 1009;
}

/// What came out of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WsEvent {
    /// The message is whole; what comes next belongs to another.
    Message,
    /// The remote wants a pong that carries the same: [`WsDecoder::ping`].
    Ping,
    /// A sign of life.
    Pong,
    /// The remote sends no more, with the code that it gave. It expects a close in return.
    Close(Option<u16>),
    /// The stream cannot be read on.
    Failed(Problem),
}

/// Why a stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The rules of frames are broken so.
    Protocol(&'static str),
    /// A text message, or the reason in a close frame, is not UTF-8.
    NotUtf8,
    /// The message is larger than the limit: it has at least so many bytes.
    TooLarge(u64),
}

impl Problem {
    /// The code to close the connection with.
    pub fn code(&self) -> u16 {
        match self {
            Problem::Protocol(_) => close_code::PROTOCOL_ERROR,
            Problem::NotUtf8 => close_code::INVALID_DATA,
            Problem::TooLarge(_) => close_code::TOO_LARGE,
        }
    }

    /// What the remote, and the log, are told.
    pub fn reason(&self) -> &'static str {
        match self {
            Problem::Protocol(reason) => reason,
            Problem::NotUtf8 => "invalid UTF-8",
            Problem::TooLarge(_) => "message too large",
        }
    }
}

/// No control frame carries more.
const CONTROL_BYTES: usize = 125;

/// What a ping, a pong or a close carries: 125 bytes at most.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Control {
    bytes: [u8; CONTROL_BYTES],
    length: u8,
}

impl Control {
    /// One that carries these bytes, or as many of them as it can.
    pub fn new(payload: &[u8]) -> Self {
        let mut control = Control { bytes: [0; CONTROL_BYTES], length: 0 };
        control.append(payload);
        control
    }

    /// One that carries the code and the reason of a close, or as much of the reason as it can.
    pub fn close(code: u16, reason: &str) -> Self {
        let mut control = Control::new(&code.to_be_bytes());
        for character in reason.chars() {
            let mut bytes = [0; 4];
            let bytes = character.encode_utf8(&mut bytes).as_bytes();
            if usize::from(control.length) + bytes.len() > CONTROL_BYTES {
                break;
            }
            control.append(bytes);
        }
        control
    }

    /// What it carries.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    fn append(&mut self, payload: &[u8]) {
        let start = usize::from(self.length);
        let count = payload.len().min(CONTROL_BYTES - start);
        self.bytes[start..start + count].copy_from_slice(&payload[..count]);
        self.length += count as u8;
    }
}

impl fmt::Debug for Control {
    /// Shows its size, and nothing of what it carries.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("length", &self.length).finish_non_exhaustive()
    }
}

/// Kinds of frames, as numbers on the wire.
mod opcode {
    pub(super) const CONTINUATION: u8 = 0;
    pub(super) const TEXT: u8 = 1;
    pub(super) const BINARY: u8 = 2;
    pub(super) const CLOSE: u8 = 8;
    pub(super) const PING: u8 = 9;
    pub(super) const PONG: u8 = 10;
}

/// In a frame's first byte: no frame of the message comes behind this one.
const FIN: u8 = 0x80;
/// In its second byte: the payload is masked.
const MASKED: u8 = 0x80;
/// Lengths of this and more do not fit into the second byte; it says then how many bytes they take.
const TWO_BYTES: u8 = 126;
const EIGHT_BYTES: u8 = 127;
