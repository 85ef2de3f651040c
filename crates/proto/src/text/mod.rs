//! A whole, valid JSON text, and where the members of its envelope stand.
//!
//! This is the ground that both [`frame`](crate::frame) and [`message`](crate::message) stand
//! on. The framings need to know whether a body is JSON, because that is how a wrong length
//! shows; the messages need the members. Both come out of one pass over the bytes, so a
//! message is read once. What the members *mean* is not known here.

mod byte_reader;
#[cfg(test)]
mod differential_tests;
mod nesting;
mod scalar;
mod scan;
mod simd;
mod simd_check;
mod simd_classes;
mod string_scan;
mod unchecked;
mod unescape;

use std::borrow::Cow;
use std::fmt;

pub use unescape::unescape;

/// The greatest depth that can be asked for in
/// [`Limits::depth`](crate::Limits::depth).
pub const MAX_DEPTH: usize = 1024;

/// One JSON text that has been checked: UTF-8, grammar and depth.
///
/// ```
/// use duet_rpc_proto::text::{Kind, Member, Text};
///
/// let text = Text::check(br#"{"id": 1.0, "params": [1, 2]}"#, 128).expect("it is JSON");
/// assert_eq!(text.kind(), Kind::Object);
/// assert_eq!(text.member(Member::Id), Some("1.0"));
/// assert_eq!(text.member(Member::Method), None);
/// assert!(Text::check(b"[1, 2", 128).is_err());
/// ```
#[derive(Clone, Copy)]
pub struct Text<'a> {
    text: &'a str,
    outline: Outline,
}

impl<'a> Text<'a> {
    /// Checks that the bytes are one JSON text of at most `max_depth` levels.
    pub fn check(bytes: &'a [u8], max_depth: usize) -> Result<Self, NotJson> {
        let mut outline = Outline::default();
        outline.take(bytes, max_depth)?;
        Ok(Text::outlined(bytes, outline))
    }

    /// Joins bytes with the outline that [`Outline::take`] found in these same bytes.
    pub(crate) fn outlined(bytes: &'a [u8], outline: Outline) -> Self {
        Text { text: unchecked::as_str(bytes), outline }
    }

    /// The text as it arrived, with the white space around it.
    pub fn as_str(&self) -> &'a str {
        self.text
    }

    /// Whether it is an object, an array or something smaller.
    pub fn kind(&self) -> Kind {
        self.outline.kind
    }

    /// The raw value of a member of the outermost object. Of a member that is given twice, it is
    /// the last one.
    #[inline]
    pub fn member(&self, member: Member) -> Option<&'a str> {
        self.has(member).then(|| self.slice(self.outline.members[member as usize]))
    }

    /// Whether the outermost object has this member.
    #[inline(always)]
    pub(crate) fn has(&self, member: Member) -> bool {
        u32::from(self.outline.seen) & member.bit() != 0
    }

    /// Whether the outermost object has this member more than once.
    #[inline]
    pub fn given_twice(&self, member: Member) -> bool {
        u32::from(self.outline.twice) & member.bit() != 0
    }

    /// Whether the outermost object has any of these members more than once.
    #[inline]
    pub fn any_given_twice(&self, members: &[Member]) -> bool {
        members.iter().any(|&member| self.given_twice(member))
    }

    /// What a member means if it is a string; borrowed if it has no escapes.
    #[inline]
    pub fn string_member(&self, member: Member) -> Option<Cow<'a, str>> {
        let raw = self.member(member)?.strip_prefix('"')?.strip_suffix('"')?;
        Some(if self.outline.escaped { unescape(raw) } else { Cow::Borrowed(raw) })
    }

    /// The elements of the outermost array, each with its own outline; none if it is no array.
    pub fn elements(&self) -> Elements<'a> {
        let opening = self.outline.start as usize;
        let next = (self.kind() == Kind::Array).then_some(opening + 1);
        Elements { text: self.text, next }
    }

    #[inline]
    fn slice(&self, span: Span) -> &'a str {
        unchecked::as_str(&self.text.as_bytes()[span.start as usize..span.end as usize])
    }
}

impl fmt::Debug for Text<'_> {
    /// Shows the shape and never the content, which may be secret and may be large.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text({:?}, {} bytes)", self.kind(), self.text.len())
    }
}

/// The elements of an array; see [`Text::elements`].
#[derive(Clone)]
pub struct Elements<'a> {
    text: &'a str,
    /// Behind the opening bracket or a comma; `None` behind the closing bracket.
    next: Option<usize>,
}

impl fmt::Debug for Elements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elements").field("next", &self.next).finish_non_exhaustive()
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Text<'a>;

    fn next(&mut self) -> Option<Text<'a>> {
        let bytes = self.text.as_bytes();
        let element = scan::element(bytes, self.next.take()?)?;
        self.next = element.next;
        let outline = element.outline.counted_from(element.start);
        Some(Text { text: unchecked::as_str(&bytes[element.start..element.end]), outline })
    }
}

/// The outermost value of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// A string, a number, `true`, `false` or `null`.
    #[default]
    Scalar,
}

/// The members of an envelope: of a request or of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// `jsonrpc`
    Jsonrpc,
    /// `id`
    Id,
    /// `method`
    Method,
    /// `params`
    Params,
    /// `result`
    Result,
    /// `error`
    Error,
}

impl Member {
    const COUNT: usize = 6;
    /// No name of ours is longer than this when every letter is written as `\u00xx`.
    const LONGEST_ESCAPED: usize = 6 * "jsonrpc".len();

    /// The member with this name, given as it stands between its quotes.
    fn named(raw: &[u8]) -> Option<Member> {
        if raw.len() > Self::LONGEST_ESCAPED || !raw.contains(&b'\\') {
            return Member::named_plainly(raw);
        }
        // `"\u0069d"` is the name `id` too.
        let plain = unescape(std::str::from_utf8(raw).ok()?);
        Member::named_plainly(plain.as_bytes())
    }

    fn named_plainly(name: &[u8]) -> Option<Member> {
        match name {
            b"jsonrpc" => Some(Member::Jsonrpc),
            b"id" => Some(Member::Id),
            b"method" => Some(Member::Method),
            b"params" => Some(Member::Params),
            b"result" => Some(Member::Result),
            b"error" => Some(Member::Error),
            _ => None,
        }
    }

    fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// What the scanner noted of a text. Kept apart from the text, because the decoder's buffer
/// cannot be borrowed while the decoder still moves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outline {
    kind: Kind,
    /// The members that are there, and those that are there more than once, as bits.
    seen: u8,
    twice: u8,
    /// A name or string of the outermost object holds a backslash.
    escaped: bool,
    /// Where the outermost value begins.
    start: u32,
    members: [Span; Member::COUNT],
}

impl Outline {
    /// Checks bytes as [`Text::check`] does, and becomes their outline. What it is after bytes that
    /// are no JSON means nothing.
    ///
    /// It is filled in place, as it is large for something that a message costs.
    #[inline]
    pub(crate) fn take(&mut self, bytes: &[u8], max_depth: usize) -> Result<(), NotJson> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(NotJson { at: u32::MAX as usize, why: Why::TooLong });
        }
        scan::text(bytes, max_depth, self)
    }

    /// Forgets all, for a value that begins at `start`.
    #[inline(always)]
    fn begin(&mut self, start: usize) {
        (self.kind, self.start) = (Kind::Scalar, start as u32);
        (self.seen, self.twice, self.escaped) = (0, 0, false);
    }

    /// The same outline with positions counted from `start`.
    fn counted_from(mut self, start: usize) -> Self {
        let moved = |span: Span| Span {
            start: span.start.saturating_sub(start as u32),
            end: span.end.saturating_sub(start as u32),
        };
        self.start = self.start.saturating_sub(start as u32);
        self.members = self.members.map(moved);
        self
    }
}

/// A place in a text.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn new(start: usize, end: usize) -> Self {
        // `Outline::take` has refused texts in which a position does not fit.
        Span { start: start as u32, end: end as u32 }
    }
}

/// Bytes that are no JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotJson {
    /// The byte at which this became certain.
    pub at: usize,
    /// What is wrong there.
    pub why: Why,
}

/// What keeps bytes from being a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The grammar of RFC 8259 is broken, or the text ends early.
    Syntax,
    /// Some bytes are not UTF-8.
    NotUtf8,
    /// Objects and arrays are nested deeper than the limit.
    TooDeep,
    /// The text is longer than 4 GiB, the most that this code can address.
    TooLong,
}

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why {
            Why::Syntax => write!(f, "not JSON at byte {}", self.at),
            Why::NotUtf8 => f.write_str("not UTF-8"),
            Why::TooDeep => write!(f, "nested too deeply at byte {}", self.at),
            Why::TooLong => f.write_str("longer than 4 GiB"),
        }
    }
}

impl std::error::Error for NotJson {}

/// What JSON counts as white space.
#[inline(always)]
pub(crate) fn is_white(byte: u8) -> bool {
    byte <= b' ' && matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[cold]
fn syntax(at: usize) -> NotJson {
    NotJson { at, why: Why::Syntax }
}
