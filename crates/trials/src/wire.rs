//! Framings and messages, read and written in the plainest way: a second opinion on those of the library.
//!
//! Nothing here is lenient. What the daemon sends has one form only (F5, F17), and a byte that is not a
//! part of it is a fault.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// How messages are cut out of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `Content-Length` headers.
    Lsp,
    /// A message a line.
    Ndjson,
    /// Four bytes of length before, a newline behind.
    Length,
}

impl Framing {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Framing::Lsp => "lsp",
            Framing::Ndjson => "ndjson",
            Framing::Length => "length",
        }
    }

    /// A text in a frame.
    pub fn frame(self, text: &[u8]) -> Vec<u8> {
        match self {
            Framing::Lsp => {
                [format!("Content-Length: {}\r\n\r\n", text.len()).as_bytes(), text].concat()
            }
            Framing::Ndjson => [text, b"\n"].concat(),
            Framing::Length => [&(text.len() as u32).to_be_bytes(), text, b"\n"].concat(),
        }
    }
}

/// Cuts what the daemon sends into texts.
#[derive(Debug)]
pub struct Frames {
    framing: Framing,
    bytes: Vec<u8>,
    /// How many of them were taken.
    taken: usize,
    /// How many of them were searched for the end of a line.
    searched: usize,
}

/// No answer of a daemon under test is as long as this.
const LONGEST: usize = 256 << 20;

impl Frames {
    /// Nothing has come yet.
    pub fn new(framing: Framing) -> Self {
        Frames { framing, bytes: Vec::new(), taken: 0, searched: 0 }
    }

    /// Takes what came.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.bytes.drain(..self.taken);
            self.searched = self.searched.saturating_sub(self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// What is left and belongs to no frame yet.
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// The next text, if all of it is there.
    ///
    /// # Errors
    ///
    /// If what came is no frame.
    pub fn next_text(&mut self) -> Result<Option<String>, String> {
        let rest = &self.bytes[self.taken..];
        let Some((body, consumed)) = (match self.framing {
            Framing::Lsp => lsp(rest)?,
            Framing::Ndjson => {
                let from = self.searched.saturating_sub(self.taken).min(rest.len());
                let end = rest[from..].iter().position(|&byte| byte == b'\n');
                self.searched = self.taken + rest.len();
                end.map(|end| (0..from + end, from + end + 1))
            }
            Framing::Length => length(rest)?,
        }) else {
            return Ok(None);
        };
        let text = String::from_utf8(rest[body].to_vec());
        self.taken += consumed;
        self.searched = self.taken;
        text.map(Some).map_err(|_| "a frame is not UTF-8".to_owned())
    }
}

/// Where the body is, and how long the frame is.
type Place = Option<(std::ops::Range<usize>, usize)>;

fn lsp(bytes: &[u8]) -> Result<Place, String> {
    const NAME: &[u8] = b"Content-Length: ";
    let begin = &bytes[..bytes.len().min(NAME.len())];
    if begin != &NAME[..begin.len()] {
        return Err("no frame begins here".to_owned());
    }
    let digits = bytes[begin.len()..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let end = begin.len() + digits;
    let line = &bytes[end..bytes.len().min(end + 4)];
    if begin.len() < NAME.len() || line.len() < 4 {
        let is_begin = b"\r\n\r\n".starts_with(line) && digits < 10;
        return if is_begin { Ok(None) } else { Err("a header is malformed".to_owned()) };
    }
    let digits = String::from_utf8_lossy(&bytes[NAME.len()..end]).into_owned();
    let length = digits.parse::<usize>().ok().filter(|&length| length < LONGEST);
    let length = length.filter(|length| line == b"\r\n\r\n" && length.to_string() == digits);
    let length = length.ok_or("a header is malformed")?;
    let body = end + 4..end + 4 + length;
    Ok((bytes.len() >= body.end).then_some((body.clone(), body.end)))
}

fn length(bytes: &[u8]) -> Result<Place, String> {
    let Some(&prefix) = bytes.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(prefix) as usize;
    if length == 0 || length >= LONGEST {
        return Err(format!("a length of {length}"));
    }
    match bytes.get(4 + length) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((4..4 + length, 5 + length))),
        Some(_) => Err("no newline behind a payload".to_owned()),
    }
}

/// A message, with its members as they stand there.
#[derive(Debug)]
pub struct Message<'t> {
    members: BTreeMap<&'t str, &'t RawValue>,
}

impl<'t> Message<'t> {
    /// Reads an object.
    ///
    /// # Errors
    ///
    /// If it is none, has a member twice, or has white space around its members: nothing that the daemon
    /// sends has any.
    pub fn read(text: &'t str) -> Result<Self, String> {
        let members: BTreeMap<&str, &RawValue> =
            serde_json::from_str(text).map_err(|error| format!("no object: {error}"))?;
        let sizes = members.iter().map(|(name, value)| name.len() + value.get().len() + 4);
        match sizes.sum::<usize>() + 1 == text.len() {
            true => Ok(Message { members }),
            false => Err("a member is there twice, or white space is".to_owned()),
        }
    }

    /// A member as it stands there.
    pub fn get(&self, name: &str) -> Option<&'t str> {
        self.members.get(name).map(|value| value.get())
    }

    /// A member that is a string.
    pub fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// A member that is a number.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.get(name)?.parse().ok()
    }

    /// Whether it has these members, and those of the second list perhaps, and no other.
    pub fn has_only(&self, all: &[&str], perhaps: &[&str]) -> bool {
        all.iter().all(|name| self.members.contains_key(name))
            && self.members.keys().all(|name| all.contains(name) || perhaps.contains(name))
    }
}

/// The elements of an array, as they stand there.
pub fn elements(text: &str) -> Option<Vec<&str>> {
    let elements: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    Some(elements.into_iter().map(RawValue::get).collect())
}

/// A JSON text without white space between its parts.
pub fn squeezed(text: &str) -> String {
    let (mut is_string, mut is_escaped) = (false, false);
    let mut stays = |character: char| {
        let stays = is_string || !matches!(character, ' ' | '\t' | '\r' | '\n');
        if character == '"' && !is_escaped {
            is_string = !is_string;
        }
        is_escaped = is_string && character == '\\' && !is_escaped;
        stays
    };
    text.chars().filter(|&character| stays(character)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Frames, Framing, Message, squeezed};

    const ALL: [Framing; 3] = [Framing::Lsp, Framing::Ndjson, Framing::Length];

    #[test]
    fn f1_frames_come_out_as_they_went_in_however_they_are_cut() {
        for framing in ALL {
            let texts = ["{}", "[1,2]", "\"é\""];
            let bytes: Vec<u8> =
                texts.iter().flat_map(|text| framing.frame(text.as_bytes())).collect();
            for size in 1..=bytes.len() {
                let (mut frames, mut came) = (Frames::new(framing), Vec::new());
                for piece in bytes.chunks(size) {
                    frames.feed(piece);
                    while let Some(text) = frames.next_text().expect("frames") {
                        came.push(text);
                    }
                }
                assert_eq!(came, texts, "{framing:?} {size}");
                assert_eq!(frames.rest(), b"");
            }
        }
    }

    #[test]
    fn l1_a_byte_that_is_no_part_of_a_frame_is_a_fault() {
        for (framing, bytes) in [
            (Framing::Lsp, &b"x"[..]),
            (Framing::Lsp, b"content-length: 2\r\n\r\n{}"),
            (Framing::Lsp, b"Content-Length: 02\r\n\r\n{}"),
            (Framing::Lsp, b"Content-Length: 2\n\n{}"),
            (Framing::Lsp, b"Content-Length: 2\r\n\r\n{}\n"),
            (Framing::Length, b"\0\0\0\0\n"),
            (Framing::Length, b"\0\0\0\x02{}x"),
            (Framing::Ndjson, b"\xff\n"),
        ] {
            let mut frames = Frames::new(framing);
            frames.feed(bytes);
            let first = frames.next_text();
            let end = first.and_then(|_| frames.next_text());
            assert!(end.is_err(), "{framing:?} {bytes:?}: {end:?}");
        }
    }

    #[test]
    fn m4_a_member_that_is_there_twice_is_found() {
        assert!(Message::read(r#"{"id":1,"result":{"a": 1}}"#).is_ok());
        for text in [r#"{"id":1,"id":1}"#, r#"{"id": 1}"#, "[]", "7", r#"{"id":1"#] {
            assert!(Message::read(text).is_err(), "{text}");
        }
        assert_eq!(squeezed("{ \"a b\\\" \" :\t[ 1 ] }"), r#"{"a b\" ":[1]}"#);
    }
}
