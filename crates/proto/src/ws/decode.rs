//! WebSocket decoder: takes messages and control frames out of a stream of bytes.

use std::fmt;

use super::utf8::Utf8Check;
use super::{
    CONTROL_BYTES, Control, EIGHT_BYTES, FIN, MASKED, Problem, Role, TWO_BYTES, WsEvent, mask,
    opcode,
};

/// Decodes WebSocket frames.
///
/// It is small and holds no payload: the payload of a message is appended to the caller's buffer.
/// An announced length reserves nothing.
pub struct WsDecoder {
    role: Role,
    state: WsState,
    /// The type of the unfinished message.
    message: Option<MessageType>,
    utf8: Utf8Check,
    /// The number of payload bytes still to come.
    left: usize,
    /// The mask, rotated to the next byte; all zero if there is none.
    mask: [u8; 4],
    /// The maximum size of a message, and the room left in the current one.
    limit: usize,
    room: usize,
    /// The header that is being received, if it arrives in pieces.
    header: [u8; HEADER_BYTES],
    header_length: u8,
    /// The payload of the control frame that is being received, still masked.
    control: Control,
}

/// The longest header: two bytes, eight of length, four of mask.
const HEADER_BYTES: usize = 14;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WsState {
    /// Between two frames, or in a header.
    Header,
    /// In a frame of this kind.
    Payload(FrameKind),
    /// The stream has ended; further bytes are ignored.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameKind {
    Data { is_last: bool },
    Ping,
    Pong,
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageType {
    /// Must be UTF-8.
    Text,
    Binary,
}

/// The header of a frame.
struct Header {
    kind: FrameKind,
    /// The type of the message that the frame begins.
    begins: Option<MessageType>,
    payload: usize,
    mask: [u8; 4],
    /// The size of the header itself.
    size: usize,
}

impl WsDecoder {
    /// A decoder for one end. A message of more than `max_message_bytes`, all its frames together,
    /// is refused as soon as a header announces it.
    pub fn new(role: Role, max_message_bytes: usize) -> Self {
        WsDecoder {
            role,
            state: WsState::Header,
            message: None,
            utf8: Utf8Check::default(),
            left: 0,
            mask: [0; 4],
            limit: max_message_bytes,
            room: max_message_bytes,
            header: [0; HEADER_BYTES],
            header_length: 0,
            control: Control::new(b""),
        }
    }

    /// Consumes bytes up to the next event, and appends the payload among them to `message`.
    /// Returns the number of bytes consumed: all of them if there is no event.
    ///
    /// An event comes with the last byte that it needs. Bytes after [`WsEvent::Close`] and
    /// [`WsEvent::Failed`] are consumed and ignored. After [`WsEvent::Failed`] the caller drops the
    /// unfinished message from `message`.
    pub fn decode(&mut self, input: &[u8], message: &mut Vec<u8>) -> (usize, Option<WsEvent>) {
        let mut rest = input;
        let mut event = None;
        while event.is_none() && !rest.is_empty() {
            event = match self.state {
                WsState::Header => self.take_header(&mut rest),
                WsState::Payload(kind) => self.take_payload(kind, &mut rest, message),
                WsState::Done => {
                    rest = &[];
                    None
                }
            };
        }
        (input.len() - rest.len(), event)
    }

    /// The payload of the latest ping; valid until more is decoded.
    pub fn ping(&self) -> &Control {
        &self.control
    }

    /// True inside a message or a frame.
    pub fn is_inside(&self) -> bool {
        let is_between = self.state == WsState::Header && self.header_length == 0;
        self.state != WsState::Done && (self.message.is_some() || !is_between)
    }

    fn take_header(&mut self, rest: &mut &[u8]) -> Option<WsEvent> {
        let held = usize::from(self.header_length);
        // Most headers arrive in one piece and are read in place.
        let count = rest.len().min(HEADER_BYTES - held);
        let header = if held == 0 {
            self.read_header(rest)
        } else {
            self.header[held..held + count].copy_from_slice(&rest[..count]);
            self.read_header(&self.header[..held + count])
        };
        let header = match header {
            Ok(Some(header)) => header,
            Ok(None) => {
                self.header[held..held + count].copy_from_slice(&rest[..count]);
                self.header_length += count as u8;
                *rest = &rest[count..];
                return None;
            }
            Err(problem) => {
                *rest = &[];
                return Some(self.fail(problem));
            }
        };
        *rest = &rest[header.size - held..];
        self.header_length = 0;
        self.left = header.payload;
        self.mask = header.mask;
        match header.kind {
            FrameKind::Data { .. } => {
                self.room -= header.payload;
                self.message = header.begins.or(self.message);
            }
            _ => self.control = Control::new(b""),
        }
        self.state = WsState::Payload(header.kind);
        if self.left == 0 { self.end_frame(header.kind) } else { None }
    }

    /// Reads a header as far as it has arrived, so that the first wrong byte is an error. `None` if
    /// it is incomplete.
    fn read_header(&self, bytes: &[u8]) -> Result<Option<Header>, Problem> {
        let Some(&first) = bytes.first() else { return Ok(None) };
        let (kind, begins) = self.read_kind(first)?;
        let Some(&second) = bytes.get(1) else { return Ok(None) };
        let is_masked = second & MASKED != 0;
        match self.role {
            Role::Server if !is_masked => return Err(Problem::Protocol("a frame without a mask")),
            Role::Client if is_masked => return Err(Problem::Protocol("a frame with a mask")),
            _ => {}
        }
        let short = second & !MASKED;
        if short >= TWO_BYTES && !matches!(kind, FrameKind::Data { .. }) {
            return Err(Problem::Protocol("a control frame that is too long"));
        }
        let Some((length, behind)) = read_length(short, &bytes[2..])? else { return Ok(None) };
        let room = if matches!(kind, FrameKind::Data { .. }) { self.room } else { CONTROL_BYTES };
        let payload = match usize::try_from(length) {
            Ok(payload) if payload <= room => payload,
            _ => {
                let before = (self.limit - self.room) as u64;
                return Err(Problem::TooLarge(before.saturating_add(length)));
            }
        };
        let (mask, behind) = match behind.split_first_chunk() {
            _ if !is_masked => ([0; 4], behind),
            Some((mask, behind)) => (*mask, behind),
            None => return Ok(None),
        };
        Ok(Some(Header { kind, begins, payload, mask, size: bytes.len() - behind.len() }))
    }

    fn read_kind(&self, first: u8) -> Result<(FrameKind, Option<MessageType>), Problem> {
        if first & 0x70 != 0 {
            return Err(Problem::Protocol("a reserved bit is set"));
        }
        let is_last = first & FIN != 0;
        let control = match (first & 0x0f, self.message) {
            (opcode::CONTINUATION, None) => {
                return Err(Problem::Protocol("a continuation without a message"));
            }
            (opcode::TEXT | opcode::BINARY, Some(_)) => {
                return Err(Problem::Protocol("a message inside another"));
            }
            (opcode::CONTINUATION, _) => return Ok((FrameKind::Data { is_last }, None)),
            (opcode::TEXT, _) => return Ok((FrameKind::Data { is_last }, Some(MessageType::Text))),
            (opcode::BINARY, _) => {
                return Ok((FrameKind::Data { is_last }, Some(MessageType::Binary)));
            }
            (opcode::CLOSE, _) => FrameKind::Close,
            (opcode::PING, _) => FrameKind::Ping,
            (opcode::PONG, _) => FrameKind::Pong,
            _ => return Err(Problem::Protocol("an unknown opcode")),
        };
        match is_last {
            true => Ok((control, None)),
            false => Err(Problem::Protocol("a fragmented control frame")),
        }
    }

    fn take_payload(
        &mut self,
        kind: FrameKind,
        rest: &mut &[u8],
        message: &mut Vec<u8>,
    ) -> Option<WsEvent> {
        let (payload, behind) = rest.split_at(self.left.min(rest.len()));
        *rest = behind;
        self.left -= payload.len();
        if let FrameKind::Data { .. } = kind {
            let start = message.len();
            mask::append_unmasked(message, payload, self.mask);
            mask::advance(&mut self.mask, payload.len());
            if self.message == Some(MessageType::Text) && !self.utf8.take(&message[start..]) {
                return Some(self.fail(Problem::NotUtf8));
            }
        } else {
            self.control.append(payload);
        }
        if self.left == 0 { self.end_frame(kind) } else { None }
    }

    fn end_frame(&mut self, kind: FrameKind) -> Option<WsEvent> {
        self.state = WsState::Header;
        if let FrameKind::Data { is_last } = kind {
            if !is_last {
                return None;
            }
            self.message = None;
            self.room = self.limit;
            return Some(match self.utf8.is_whole() {
                true => WsEvent::Message,
                false => self.fail(Problem::NotUtf8),
            });
        }
        mask::apply(&mut self.control.bytes[..usize::from(self.control.length)], self.mask);
        Some(match kind {
            FrameKind::Ping => WsEvent::Ping,
            FrameKind::Close => match read_close(self.control.as_bytes()) {
                Ok(code) => {
                    self.state = WsState::Done;
                    WsEvent::Close(code)
                }
                Err(problem) => self.fail(problem),
            },
            _ => WsEvent::Pong,
        })
    }

    fn fail(&mut self, problem: Problem) -> WsEvent {
        self.state = WsState::Done;
        WsEvent::Failed(problem)
    }
}

/// Reads the length of a payload. `short` is the length in the second byte of the header. Returns
/// the length and the bytes after it; `None` if it is incomplete.
fn read_length(short: u8, bytes: &[u8]) -> Result<Option<(u64, &[u8])>, Problem> {
    let (length, behind, least) = match short {
        TWO_BYTES => match bytes.split_first_chunk() {
            Some((length, behind)) => (u16::from_be_bytes(*length).into(), behind, 126),
            None => return Ok(None),
        },
        EIGHT_BYTES => match bytes.split_first_chunk() {
            Some((length, behind)) => (u64::from_be_bytes(*length), behind, 1 << 16),
            None => return Ok(None),
        },
        _ => (short.into(), bytes, 0),
    };
    if length < least {
        return Err(Problem::Protocol("a length that is not in its shortest form"));
    }
    if length >> 63 != 0 {
        return Err(Problem::Protocol("a length with its highest bit set"));
    }
    Ok(Some((length, behind)))
}

/// Reads the payload of a close frame: nothing, or a code and a reason.
fn read_close(payload: &[u8]) -> Result<Option<u16>, Problem> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return match payload {
            [] => Ok(None),
            _ => Err(Problem::Protocol("an incomplete close code")),
        };
    };
    let code = u16::from_be_bytes(*code);
    // Codes that are defined for the wire, and codes that anybody may use.
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(Problem::Protocol("an invalid close code"));
    }
    match std::str::from_utf8(reason) {
        Ok(_) => Ok(Some(code)),
        Err(_) => Err(Problem::NotUtf8),
    }
}

impl fmt::Debug for WsDecoder {
    /// Shows the state, and nothing that arrived.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("WsDecoder");
        shown.field("role", &self.role).field("state", &self.state).field("left", &self.left);
        shown.finish_non_exhaustive()
    }
}
