//! WebSocket, as a client speaks it that may break every rule of it.

use std::io::{self, Read, Write};

use crate::random::Random;

pub(super) const CONTINUATION: u8 = 0;
pub(crate) const TEXT: u8 = 1;
pub(super) const BINARY: u8 = 2;
pub(super) const CLOSE: u8 = 8;
pub(super) const PING: u8 = 9;
pub(super) const PONG: u8 = 10;
/// The bit that says that a frame is the last of its message.
pub(crate) const LAST: u8 = 0x80;

/// The example of RFC 6455, and what a server makes of it.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// A frame as clients send them.
pub(crate) fn frame(first: u8, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..=125 => frame.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// A message in one frame or in many, as text or binary: what is not UTF-8 is binary, because a text has to
/// be UTF-8. Between its frames there may be pings, which come back with it.
pub(super) fn message(random: &mut Random, text: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (mut bytes, mut pings) = (Vec::new(), Vec::new());
    let count = if random.once_in(3) { 1 + random.below(5) } else { 1 };
    let mut cuts: Vec<_> = (1..count).map(|_| random.below(text.len() + 1)).collect();
    cuts.push(text.len());
    cuts.sort_unstable();
    let is_binary = random.once_in(3) || std::str::from_utf8(text).is_err();
    let (mut begin, kind) = (0, if is_binary { BINARY } else { TEXT });
    for (number, end) in cuts.iter().copied().enumerate() {
        let mask = (random.bits() as u32).to_be_bytes();
        if random.once_in(12) {
            // No two are the same, as one pong may stand for several of them.
            let ping = random.bits().to_be_bytes().repeat(1 + random.below(15));
            bytes.extend(frame(LAST | PING, &ping, mask));
            pings.push(ping);
        }
        if random.once_in(30) {
            bytes.extend(frame(LAST | PONG, b"unasked", mask));
        }
        let last = if number + 1 == cuts.len() { LAST } else { 0 };
        let operation = if number == 0 { kind } else { CONTINUATION };
        bytes.extend(frame(last | operation, &text[begin..end], mask));
        begin = end;
    }
    (bytes, pings)
}

/// What a server sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    Text(String),
    Pong(Vec<u8>),
    Close(Option<u16>),
}

/// The first frame of what came, if it is whole, and how long it is. A server has one way to write each.
pub(super) fn next(bytes: &[u8]) -> Result<Option<(Event, usize)>, String> {
    let Some(&[first, second]) = bytes.first_chunk::<2>() else { return Ok(None) };
    let short = usize::from(second);
    let (begin, length) = match short {
        126 => match bytes.get(2..4) {
            Some(length) => (4, usize::from(u16::from_be_bytes([length[0], length[1]]))),
            None => return Ok(None),
        },
        127 => match bytes.get(2..10).and_then(|it| it.first_chunk::<8>()) {
            Some(&length) => (10, u64::from_be_bytes(length) as usize),
            None => return Ok(None),
        },
        0..126 => (2, short),
        _ => return Err("a server masks".to_owned()),
    };
    let is_shortest = match begin {
        2 => true,
        4 => length > 125,
        _ => length > 0xffff && length < 1 << 30,
    };
    if !is_shortest {
        return Err(format!("a length of {length} is not written as short as can be"));
    }
    let Some(payload) = bytes.get(begin..begin + length) else { return Ok(None) };
    let event = match first {
        0x81 => Event::Text(String::from_utf8(payload.to_vec()).map_err(|_| "no UTF-8")?),
        0x8a => Event::Pong(payload.to_vec()),
        0x88 => Event::Close(payload.first_chunk().copied().map(u16::from_be_bytes)),
        _ => return Err(format!("a frame that begins with {first:#x}")),
    };
    Ok(Some((event, begin + length)))
}

/// Makes a WebSocket of a connection.
pub(crate) fn shake_hands(stream: &mut (impl Read + Write), host: &str) -> io::Result<()> {
    let head = format!(
        "GET / HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    // Byte by byte: what stands behind the head is the connection's.
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        answer.push(byte[0]);
    }
    let answer = String::from_utf8_lossy(&answer);
    match answer.starts_with("HTTP/1.1 101 ") && answer.contains(ACCEPT) {
        true => Ok(()),
        false => Err(io::Error::other(format!("no handshake: {answer}"))),
    }
}
