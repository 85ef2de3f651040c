//! WebSocket frames and HTTP messages as bytes: only the parts that a client needs if it
//! trusts the server.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::ops::Range;

use crate::wire::content_length;

/// All frames have the same mask, so that they can be prepared before the measurement. The server
/// cannot know this, and unmasks byte by byte.
pub const MASK: [u8; 4] = [0x9c, 0x35, 0xe1, 0x5a];

const FINAL_TEXT: u8 = 0x81;
const FINAL_BINARY: u8 = 0x82;
const PING: u8 = 0x89;
const MASKED: u8 = 0x80;
const TWO_BYTES: u8 = 126;
const EIGHT_BYTES: u8 = 127;

/// Appends a frame that is a whole message.
pub fn write_frame(out: &mut Vec<u8>, body: &[u8]) {
    out.push(FINAL_TEXT);
    match body.len() {
        length @ 0..=125 => out.push(MASKED | length as u8),
        length @ 126..=0xffff => {
            out.push(MASKED | TWO_BYTES);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(MASKED | EIGHT_BYTES);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&MASK);
    out.extend(body.iter().zip(MASK.into_iter().cycle()).map(|(byte, mask)| byte ^ mask));
}

/// Position of the server's next message, if it is complete. Pings are skipped: the next request
/// shows the server that the client is alive.
#[inline]
pub fn next_frame(input: &[u8]) -> Result<Option<Range<usize>>, String> {
    let mut at = 0;
    loop {
        let Some([first, length]) = input[at..].first_chunk().copied() else { return Ok(None) };
        at += 2;
        let length = match length {
            TWO_BYTES => {
                let Some(length) = input[at..].first_chunk().copied() else { return Ok(None) };
                at += 2;
                usize::from(u16::from_be_bytes(length))
            }
            EIGHT_BYTES => {
                let Some(length) = input[at..].first_chunk().copied() else { return Ok(None) };
                at += 8;
                u64::from_be_bytes(length) as usize
            }
            length if length & MASKED == 0 => usize::from(length),
            _ => return Err("a server must not mask".to_owned()),
        };
        if input.len() - at < length {
            return Ok(None);
        }
        match first {
            FINAL_TEXT | FINAL_BINARY => return Ok(Some(at..at + length)),
            PING => at += length,
            _ => return Err(format!("a frame that begins with {first:#x}")),
        }
    }
}

/// Appends a request with this body.
pub fn write_post(out: &mut Vec<u8>, body: &[u8]) {
    let head = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(body);
}

/// Position of the body of the next answer, if it is complete.
#[inline]
pub fn next_answer(input: &[u8]) -> Result<Option<Range<usize>>, String> {
    let Some(end) = memchr::memmem::find(input, b"\r\n\r\n") else { return Ok(None) };
    let head = &input[..end];
    if !head.starts_with(b"HTTP/1.1 200 ") {
        return Err(format!("not a 200 response: {}", String::from_utf8_lossy(input)));
    }
    let body = end + 4..end + 4 + content_length(head)?;
    Ok((body.end <= input.len()).then_some(body))
}

/// Upgrades a connection to WebSocket.
pub fn upgrade(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
          Sec-WebSocket-Key: AQIDBAUGBwgJCgsMDQ4PEA==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    )?;
    let mut answer = Vec::new();
    // Byte by byte, so that nothing after the response is read.
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        answer.extend(byte);
    }
    match answer.starts_with(b"HTTP/1.1 101 ") {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&answer).into_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame in the form that a server writes.
    fn unmasked(first: u8, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_frame(&mut out, body);
        let start = out.len() - body.len();
        out.truncate(start - MASK.len());
        (out[0], out[1]) = (first, out[1] & !MASKED);
        out.extend_from_slice(body);
        out
    }

    #[test]
    fn frames_of_all_lengths_are_found() {
        for length in [0, 1, 125, 126, 127, 0xffff, 0x1_0000] {
            let body = vec![b'x'; length];
            let frame = unmasked(FINAL_TEXT, &body);
            let found = frame.len() - length..frame.len();
            assert_eq!(next_frame(&frame), Ok(Some(found.clone())));
            for cut in [0, 1, found.start - 1, frame.len() - 1] {
                assert_eq!(next_frame(&frame[..cut]), Ok(None), "{length} cut at {cut}");
            }
        }
    }

    #[test]
    fn pings_are_skipped_and_other_frames_refused() {
        let message = unmasked(FINAL_BINARY, b"{}");
        let frames = [unmasked(PING, b"?"), message.clone()].concat();
        assert_eq!(next_frame(&frames), Ok(Some(5..7)));
        assert_eq!(next_frame(&frames[..4]), Ok(None));
        assert!(next_frame(&unmasked(0x88, b"")).is_err());
        let mut masked = Vec::new();
        write_frame(&mut masked, b"{}");
        assert!(next_frame(&masked).is_err());
    }

    #[test]
    fn a_mask_can_be_undone() {
        let mut frame = Vec::new();
        write_frame(&mut frame, b"hello");
        let body: Vec<_> = frame[6..].iter().zip(MASK.iter().cycle()).map(|(b, m)| b ^ m).collect();
        assert_eq!((&frame[..2], &body[..]), (&[FINAL_TEXT, MASKED | 5][..], &b"hello"[..]));
    }

    #[test]
    fn only_a_200_response_has_a_body() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(next_answer(answer), Ok(Some(answer.len() - 2..answer.len())));
        assert_eq!(next_answer(&answer[..answer.len() - 1]), Ok(None));
        assert_eq!(next_answer(&answer[..20]), Ok(None));
        assert!(next_answer(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert!(next_answer(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").is_err());
    }
}
