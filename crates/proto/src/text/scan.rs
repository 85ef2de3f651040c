//! Scanner: one pass checks that bytes are a JSON text and finds the envelope's members.
//!
//! It builds nothing and copies nothing. The grammar is exactly RFC 8259, the depth is bounded, and
//! unknown members are checked like all others. The UTF-8 check costs nothing while a text is pure
//! ASCII.
//!
//! The envelope and small values are read byte by byte. Large containers go to
//! [`simd`](super::simd), which is faster but takes longer to start. Bytes past the end read as
//! zero, which no rule of the grammar accepts.

use super::byte_reader::{ByteReader, chunk};
use super::syntax;
use super::{Kind, MAX_DEPTH, Member, NotJson, Outline, Span, Why};

/// Checks that `bytes` are one JSON text, with only white space around it.
#[inline]
pub(super) fn text(bytes: &[u8], max_depth: usize, outline: &mut Outline) -> Result<(), NotJson> {
    let mut reader = ByteReader::new(bytes, max_depth.min(MAX_DEPTH));
    let mut end = reader.outlined(0, outline)?;
    if end != bytes.len() {
        (end, _) = reader.skip_white(end);
        if end != bytes.len() {
            return Err(syntax(end));
        }
    }
    if reader.high != 0 && simdutf8::basic::from_utf8(bytes).is_err() {
        return Err(NotJson { at: 0, why: Why::NotUtf8 });
    }
    Ok(())
}

/// One element of an array. The array was checked as a part of its text.
pub(super) struct Element {
    pub(super) outline: Outline,
    pub(super) start: usize,
    pub(super) end: usize,
    /// The position after the comma, if another element follows.
    pub(super) next: Option<usize>,
}

/// The element that begins at or after `from`, if there is one.
pub(super) fn element(bytes: &[u8], from: usize) -> Option<Element> {
    let mut reader = ByteReader::new(bytes, MAX_DEPTH);
    let mut outline = Outline::default();
    let end = reader.outlined(from, &mut outline).ok()?;
    let (behind, byte) = reader.skip_white(end);
    let next = (byte == b',').then_some(behind + 1);
    Some(Element { outline, start: outline.start as usize, end, next })
}

impl ByteReader<'_> {
    /// Reads a value, notes its outline, and returns its end.
    #[inline(always)]
    fn outlined(&mut self, from: usize, outline: &mut Outline) -> Result<usize, NotJson> {
        let (start, first) = self.skip_white(from);
        outline.begin(start);
        match first {
            b'{' => {
                outline.kind = Kind::Object;
                self.envelope(start, outline)
            }
            b'[' => {
                outline.kind = Kind::Array;
                self.value(first, start, 0)
            }
            _ => self.value(first, start, 0),
        }
    }

    /// Reads an object, and notes its members that belong to the envelope.
    #[inline(always)]
    fn envelope(&mut self, start: usize, outline: &mut Outline) -> Result<usize, NotJson> {
        if self.max_depth == 0 {
            return Err(NotJson { at: start, why: Why::TooDeep });
        }
        let (mut i, first) = self.skip_white(start + 1);
        if first == b'}' {
            return Ok(i + 1);
        }
        // Only the strings of this object count.
        self.escaped = false;
        let (mut seen, mut twice) = (0, 0);
        if let Some(version) = self.usual_version(i) {
            outline.members[Member::Jsonrpc as usize] = version;
            seen = Member::Jsonrpc.bit();
            (i, _) = self.skip_white(version.end as usize + 1);
        }
        loop {
            let (member, value) = match self.usual_name(i) {
                Some((member, value)) => (Some(member), value),
                None => {
                    let (end, value) = self.name(self.at(i), i)?;
                    (self.bytes.get(i + 1..end - 1).and_then(Member::named), value)
                }
            };
            let (value, first) = self.skip_white(value);
            let end = self.value(first, value, 1)?;
            if let Some(member) = member {
                twice |= seen & member.bit();
                seen |= member.bit();
                outline.members[member as usize] = Span::new(value, end);
            }
            match self.skip_white(end) {
                (comma, b',') => (i, _) = self.skip_white(comma + 1),
                (end, b'}') => {
                    (outline.seen, outline.twice) = (seen as u8, twice as u8);
                    outline.escaped = self.escaped;
                    return Ok(end + 1);
                }
                (at, _) => return Err(syntax(at)),
            }
        }
    }

    /// The version in its common spelling, with a comma after it. Returns the range of its value.
    #[inline(always)]
    fn usual_version(&self, i: usize) -> Option<Span> {
        (chunk(self.bytes, i)? == b"\"jsonrpc\":\"2.0\",").then(|| Span::new(i + 10, i + 15))
    }

    /// A member name in its common spelling, with a colon right after it: comparing one word finds
    /// it. Returns the position after the colon.
    #[inline(always)]
    fn usual_name(&self, i: usize) -> Option<(Member, usize)> {
        const fn word(text: &[u8; 8]) -> u64 {
            u64::from_le_bytes(*text)
        }
        const METHOD: u64 = word(b"\"method\"");
        const PARAMS: u64 = word(b"\"params\"");
        const RESULT: u64 = word(b"\"result\"");
        const ERROR: u64 = word(b"\"error\":");
        const JSONRPC: u64 = word(b"\"jsonrpc");
        const ID: u64 = word(b"\"id\":\0\0\0");
        const FIVE_BYTES: u64 = (1 << 40) - 1;
        let found = word(chunk(self.bytes, i)?);
        if found & FIVE_BYTES == ID {
            return Some((Member::Id, i + 5));
        }
        let (member, colon) = match found {
            METHOD => (Member::Method, i + 8),
            PARAMS => (Member::Params, i + 8),
            RESULT => (Member::Result, i + 8),
            ERROR => return Some((Member::Error, i + 8)),
            JSONRPC if self.at(i + 8) == b'"' => (Member::Jsonrpc, i + 9),
            _ => return None,
        };
        (self.at(colon) == b':').then_some((member, colon + 1))
    }
}
