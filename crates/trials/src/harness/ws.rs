//! WebSocket from the side of a client that may break every rule.

use super::http;
use super::wire::Parsed;
use crate::harness::prelude::*;

pub(crate) const CONTINUATION: u8 = 0;
pub(crate) const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;
/// Bit that marks the last frame of a message.
pub(crate) const LAST: u8 = 0x80;

/// Example key of RFC 6455, and the response to it.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// A frame in the form that clients send.
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

/// Makes a message in one or several frames, as text or binary. Text must be UTF-8, so other bytes go as
/// binary. Pings may stand between the frames; they are returned too.
pub(crate) fn message(random: &mut Random, text: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
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
            // Each payload is unique, because one pong may answer several pings.
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

/// Reads the first frame. A server has one form for each.
pub(crate) fn next(bytes: &[u8]) -> Parsed<Event> {
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
        return Err(format!("a length of {length} is not written in the shortest form"));
    }
    let Some(payload) = bytes.get(begin..begin + length) else { return Ok(None) };
    let event = match first {
        0x81 => {
            Event::Text(String::from_utf8(payload.to_vec()).map_err(|_| "a text is not UTF-8")?)
        }
        0x8a => Event::Pong(payload.to_vec()),
        0x88 => Event::Close(payload.first_chunk().copied().map(u16::from_be_bytes)),
        _ => return Err(format!("a frame that begins with {first:#x}")),
    };
    Ok(Some((event, begin + length)))
}

/// The handshake request of a client.
pub(crate) fn handshake(host: &str) -> Vec<u8> {
    let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n");
    let key = format!("Connection: Upgrade\r\nSec-WebSocket-Key: {KEY}\r\n");
    format!("{head}{key}Sec-WebSocket-Version: 13\r\n\r\n").into_bytes()
}

/// Reads the server's response to the handshake.
pub(crate) fn upgraded(bytes: &[u8]) -> Parsed<()> {
    let Some((head, length)) = http::head(bytes)? else { return Ok(None) };
    match head.starts_with("HTTP/1.1 101 ") && head.contains(ACCEPT) {
        true => Ok(Some(((), length))),
        false => Err(format!("no handshake: {head}")),
    }
}
