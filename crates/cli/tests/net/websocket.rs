//! A WebSocket client that can break every rule.

use std::io::{BufReader, Read, Write};

use crate::client::Client;
use crate::http::{Response, head};
use crate::stream::Stream;
use crate::support::listening::Url;

pub(crate) const CONTINUATION: u8 = 0;
pub(crate) const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;
/// Bit that marks the last frame of a message.
pub(crate) const LAST: u8 = 0x80;

const MASK: [u8; 4] = [0x12, 0xfe, 0x00, 0x9a];

/// Example key of RFC 6455, and the server's response to it.
pub(crate) const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

pub(crate) struct WebSocket {
    input: BufReader<Stream>,
    pub(crate) output: Stream,
    /// True to send messages as binary.
    pub(crate) sends_binary: bool,
    /// Code of the received close frame.
    pub(crate) closed: Option<u16>,
    /// The subprotocol that the server chose.
    pub(crate) subprotocol: Option<String>,
}

/// A received frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The operation, and the bits beside it.
    pub(crate) first: u8,
    pub(crate) payload: Vec<u8>,
}

/// The headers of a handshake.
pub(crate) fn handshake(host: &str) -> [(&str, &str); 5] {
    [
        ("Host", host),
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", KEY),
    ]
}

impl WebSocket {
    pub(crate) fn connect(url: &Url) -> Self {
        Self::connect_with(url, &[]).unwrap_or_else(|response| panic!("{url:?}: {response:?}"))
    }

    /// Connects with further headers. Returns any other response as an error.
    pub(crate) fn connect_with(url: &Url, headers: &[(&str, &str)]) -> Result<Self, Response> {
        let headers = [&handshake(&url.authority), headers].concat();
        Self::open(url, head("GET", &url.path, &headers).as_bytes())
    }

    /// Connects with this handshake.
    pub(crate) fn open(url: &Url, handshake: &[u8]) -> Result<Self, Response> {
        let mut output = Stream::connect(url);
        let _ = output.write_all(handshake);
        let mut input = BufReader::new(output.try_clone());
        let response = Response::read(&mut input).expect("it answers");
        if response.status != 101 {
            return Err(response);
        }
        assert_eq!(response.header("sec-websocket-accept"), Some(ACCEPT), "{response:?}");
        let extensions = response.header("sec-websocket-extensions");
        assert_eq!(extensions, None, "nothing is negotiated: {response:?}");
        let subprotocol = response.header("sec-websocket-protocol").map(str::to_owned);
        let upgrade = response.header("upgrade").map(str::to_ascii_lowercase);
        assert_eq!(upgrade.as_deref(), Some("websocket"), "{response:?}");
        Ok(WebSocket { input, output, sends_binary: false, closed: None, subprotocol })
    }

    /// Sends raw bytes.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.output.write_all(bytes).expect("it reads");
    }

    /// Sends a masked frame with this first byte.
    pub(crate) fn send_frame(&mut self, first: u8, payload: &[u8]) {
        self.send_raw(&frame(first, payload));
    }

    /// Receives the next frame, or `None` at the end.
    pub(crate) fn frame(&mut self) -> Option<Frame> {
        let mut start = [0; 2];
        match self.input.read(&mut start[..1]) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => panic!("the end is not orderly: {error}"),
        }
        self.input.read_exact(&mut start[1..]).expect("a frame comes whole");
        assert_eq!(start[0] & 0x70, 0, "an unknown bit is set");
        assert_eq!(start[1] & 0x80, 0, "a server must not mask");
        let length = match start[1] {
            126 => u64::from(u16::from_be_bytes(self.exactly())),
            127 => u64::from_be_bytes(self.exactly()),
            length => u64::from(length),
        };
        let shortest = match length {
            0..=125 => length,
            126..=0xffff => 126,
            _ => 127,
        };
        assert_eq!(u64::from(start[1]), shortest, "a length has its shortest form");
        let mut payload = vec![0; usize::try_from(length).expect("memory")];
        self.input.read_exact(&mut payload).expect("a frame comes whole");
        Some(Frame { first: start[0], payload })
    }

    fn exactly<const COUNT: usize>(&mut self) -> [u8; COUNT] {
        let mut bytes = [0; COUNT];
        self.input.read_exact(&mut bytes).expect("a frame comes whole");
        bytes
    }

    /// Reads until the connection is closed, and returns the code of the close frame.
    pub(crate) fn read_out(&mut self) -> Option<u16> {
        while self.receive().is_some() {}
        self.closed
    }
}

/// A frame in the form that clients send.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
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
    frame.extend(MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

impl Client for WebSocket {
    /// Sends bytes that are not UTF-8 as binary: as text they would end the connection (F4).
    fn send(&mut self, text: &[u8]) {
        let is_binary = self.sends_binary || std::str::from_utf8(text).is_err();
        let operation = if is_binary { BINARY } else { TEXT };
        self.send_frame(LAST | operation, text);
    }

    fn receive(&mut self) -> Option<String> {
        loop {
            let Frame { first, payload } = self.frame()?;
            assert_eq!(self.closed, None, "nothing may follow a close frame");
            match first {
                first if first == LAST | TEXT => {
                    return Some(String::from_utf8(payload).expect("text is UTF-8"));
                }
                first if first == LAST | PING => self.send_frame(LAST | PONG, &payload),
                first if first == LAST | CLOSE => {
                    let code = payload.first_chunk().copied().map(u16::from_be_bytes);
                    self.closed = Some(code.expect("a close frame has a code"));
                    assert!(std::str::from_utf8(&payload[2..]).is_ok(), "a reason is text");
                    // A server that closes because of a fault need not wait for this.
                    let _ = self.output.write_all(&frame(first, &payload));
                }
                _ => panic!("an answer is one frame of text, and not {first:#x}"),
            }
        }
    }
}
