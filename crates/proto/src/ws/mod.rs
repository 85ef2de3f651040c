//! WebSocket frames (RFC 6455) after the handshake: decoder and writer.
//!
//! A [`WsDecoder`] takes bytes in any pieces. It appends the payload of a message to the caller's
//! buffer, reports when the message is whole, and keeps none of it. A [`WsFrameWriter`] writes each
//! message as one frame. No extension is supported, so no frame has a reserved bit. Text and binary
//! messages are received alike, but a text message that is not UTF-8 ends the stream. Messages are
//! always sent as text. This module does no I/O, never waits and draws no random numbers.
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

/// The end of a connection. A client masks the frames that it sends; a server does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The end that opened the connection.
    Client,
    /// The end that accepted it.
    Server,
}

/// Close codes on the wire.
pub mod close_code {
    /// The connection has served its purpose.
    pub const NORMAL: u16 = 1000;
    /// The program exits.
    pub const GOING_AWAY: u16 = 1001;
    /// The remote broke the framing rules.
    pub const PROTOCOL_ERROR: u16 = 1002;
    /// Bytes that must be UTF-8 are not.
    pub const INVALID_DATA: u16 = 1007;
    /// The remote violated a policy.
    pub const POLICY: u16 = 1008;
    /// A message is over the limit.
    pub const TOO_LARGE: u16 = 1009;
}

/// An event of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WsEvent {
    /// The message is whole. The next payload belongs to another message.
    Message,
    /// The remote wants a pong with the same payload: [`WsDecoder::ping`].
    Ping,
    /// The answer to a ping.
    Pong,
    /// The remote sends no more, and gave this code. It expects a close in return.
    Close(Option<u16>),
    /// The stream is broken.
    Failed(Problem),
}

/// Reasons why a stream is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The remote broke this framing rule.
    Protocol(&'static str),
    /// A text message, or the reason in a close frame, is not UTF-8.
    NotUtf8,
    /// The message is over the limit: it has at least this many bytes.
    TooLarge(u64),
}

impl Problem {
    /// The close code for the connection.
    pub fn code(&self) -> u16 {
        match self {
            Problem::Protocol(_) => close_code::PROTOCOL_ERROR,
            Problem::NotUtf8 => close_code::INVALID_DATA,
            Problem::TooLarge(_) => close_code::TOO_LARGE,
        }
    }

    /// The reason, for the close frame and the log.
    pub fn reason(&self) -> &'static str {
        match self {
            Problem::Protocol(reason) => reason,
            Problem::NotUtf8 => "invalid UTF-8",
            Problem::TooLarge(_) => "message too large",
        }
    }
}

/// Maximum payload of a control frame.
const CONTROL_BYTES: usize = 125;

/// The payload of a ping, a pong or a close: at most 125 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Control {
    bytes: [u8; CONTROL_BYTES],
    length: u8,
}

impl Control {
    /// A payload of these bytes, cut to the maximum.
    pub fn new(payload: &[u8]) -> Self {
        let mut control = Control { bytes: [0; CONTROL_BYTES], length: 0 };
        control.append(payload);
        control
    }

    /// A payload of a close code and a reason. The reason is cut to the maximum.
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

    /// The payload.
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
    /// Shows the size, and none of the payload.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("length", &self.length).finish_non_exhaustive()
    }
}

/// Kinds of frames on the wire.
mod opcode {
    pub(super) const CONTINUATION: u8 = 0;
    pub(super) const TEXT: u8 = 1;
    pub(super) const BINARY: u8 = 2;
    pub(super) const CLOSE: u8 = 8;
    pub(super) const PING: u8 = 9;
    pub(super) const PONG: u8 = 10;
}

/// Bit of a frame's first byte: this is the last frame of its message.
const FIN: u8 = 0x80;
/// Bit of a frame's second byte: the payload is masked.
const MASKED: u8 = 0x80;
/// Values of the second byte for lengths that do not fit into it: the length takes two or eight
/// bytes.
const TWO_BYTES: u8 = 126;
const EIGHT_BYTES: u8 = 127;
