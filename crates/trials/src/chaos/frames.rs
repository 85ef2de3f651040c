//! Frames as the daemon has to write them, to the byte: nothing is skipped and nothing is guessed.

use serde_json::Value;

/// How messages are cut out of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `Content-Length` and the body.
    Lsp,
    /// A line.
    Ndjson,
    /// Four bytes of length, the body and a newline.
    Length,
}

/// What stands at the beginning of some output.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// A message, and how many bytes it took.
    Message(Value, usize),
    /// The beginning of a frame, or nothing.
    Part,
    /// What no frame begins with, in words.
    Garbage(String),
}

impl Framing {
    /// The framing that a profile has by itself.
    pub fn of(profile: &str) -> Self {
        match profile {
            "editor" => Framing::Lsp,
            "desktop" => Framing::Length,
            _ => Framing::Ndjson,
        }
    }

    /// A text in a frame.
    pub fn frame(self, text: &str) -> Vec<u8> {
        match self {
            Framing::Lsp => format!("Content-Length: {}\r\n\r\n{text}", text.len()).into_bytes(),
            Framing::Ndjson => format!("{text}\n").into_bytes(),
            Framing::Length => {
                let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
                [&length.to_be_bytes()[..], text.as_bytes(), b"\n"].concat()
            }
        }
    }

    /// Reads one frame.
    pub fn next(self, bytes: &[u8]) -> Next {
        let (begin, length, end) = match self {
            Framing::Ndjson => match bytes.iter().position(|&byte| byte == b'\n') {
                Some(at) => (0, at, 1),
                None if bytes.first().is_none_or(|&first| first == b'{' || first == b'[') => {
                    return Next::Part;
                }
                None => return garbage(bytes),
            },
            Framing::Length => match bytes.first_chunk() {
                Some(&length) => (4, u32::from_be_bytes(length) as usize, 1),
                None if bytes.first().is_none_or(|&first| first == 0) => return Next::Part,
                None => return garbage(bytes),
            },
            Framing::Lsp => match header(bytes) {
                Ok(Some((begin, length))) => (begin, length, 0),
                Ok(None) => return Next::Part,
                Err(()) => return garbage(bytes),
            },
        };
        if length > 1 << 26 {
            return garbage(bytes);
        }
        let Some(frame) = bytes.get(..begin + length + end) else { return Next::Part };
        let (body, newline) = frame[begin..].split_at(length);
        if newline.iter().any(|&byte| byte != b'\n') {
            return garbage(bytes);
        }
        match serde_json::from_slice(body) {
            Ok(value) => Next::Message(value, frame.len()),
            Err(_) => garbage(bytes),
        }
    }
}

/// The bytes of a header, and the length that it tells; nothing if it is not all there.
fn header(bytes: &[u8]) -> Result<Option<(usize, usize)>, ()> {
    const NAME: &[u8] = b"Content-Length: ";
    let seen = bytes.len().min(NAME.len());
    if bytes[..seen] != NAME[..seen] {
        return Err(());
    }
    let rest = &bytes[seen..];
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let behind = &rest[digits..];
    if behind.len() < 4 {
        return if b"\r\n\r\n".starts_with(behind) { Ok(None) } else { Err(()) };
    }
    let number = std::str::from_utf8(&rest[..digits]).map_err(drop)?;
    let length = number.parse().map_err(drop)?;
    if behind.starts_with(b"\r\n\r\n") { Ok(Some((seen + digits + 4, length))) } else { Err(()) }
}

fn garbage(bytes: &[u8]) -> Next {
    let shown = &bytes[..bytes.len().min(80)];
    Next::Garbage(String::from_utf8_lossy(shown).escape_debug().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Framing; 3] = [Framing::Lsp, Framing::Ndjson, Framing::Length];

    #[test]
    fn f5_a_frame_is_read_when_it_is_whole() {
        for framing in ALL {
            let frame = framing.frame(r#"{"id":1}"#);
            for cut in 0..frame.len() {
                assert_eq!(framing.next(&frame[..cut]), Next::Part, "{framing:?} {cut}");
            }
            let more = [&frame[..], b"x"].concat();
            let message = Next::Message(serde_json::json!({"id": 1}), frame.len());
            assert_eq!(framing.next(&more), message, "{framing:?}");
        }
    }

    #[test]
    fn l1_whatever_else_is_there_is_found() {
        for framing in ALL {
            let stray: [&[u8]; 4] =
                [b"hello\n", b"{]\n", b"Content-length: 2\r\n\r\n{}", b"\n\n\n\n\n"];
            for bytes in stray {
                assert!(matches!(framing.next(bytes), Next::Garbage(_)), "{framing:?} {bytes:?}");
            }
        }
    }
}
