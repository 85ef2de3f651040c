//! JSON texts: a checked text, and the positions of its envelope's members.
//!
//! Both [`frame`](crate::frame) and [`message`](crate::message) build on this module. The framings
//! must know whether a body is JSON, because a wrong length shows only there; the messages need the
//! members. One pass over the bytes gives both, so a message is read once. This module does not
//! know the meaning of the members.

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

/// The greatest depth that [`Limits::depth`](crate::Limits::depth) can set.
pub const MAX_DEPTH: usize = 1024;

/// A JSON text that has been checked for UTF-8, grammar and depth.
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

    /// Combines bytes with the outline that [`Outline::take`] found in the same bytes.
    pub(crate) fn outlined(bytes: &'a [u8], outline: Outline) -> Self {
        Text { text: unchecked::as_str(bytes), outline }
    }

    /// The text as it arrived, including white space around it.
    pub fn as_str(&self) -> &'a str {
        self.text
    }

    /// The kind of the outermost value.
    pub fn kind(&self) -> Kind {
        self.outline.kind
    }

    /// The raw value of a member of the outermost object. If the member appears more than once, the
    /// last value.
    #[inline]
    pub fn member(&self, member: Member) -> Option<&'a str> {
        self.has(member).then(|| self.slice(self.outline.members[member as usize]))
    }

    /// True if the outermost object has this member.
    #[inline(always)]
    pub(crate) fn has(&self, member: Member) -> bool {
        u32::from(self.outline.seen) & member.bit() != 0
    }

    /// True if the outermost object has this member more than once.
    #[inline]
    pub fn given_twice(&self, member: Member) -> bool {
        u32::from(self.outline.twice) & member.bit() != 0
    }

    /// True if the outermost object has any of these members more than once.
    #[inline]
    pub fn any_given_twice(&self, members: &[Member]) -> bool {
        members.iter().any(|&member| self.given_twice(member))
    }

    /// The unescaped value of a member that is a string; borrowed if it has no escapes.
    #[inline]
    pub fn string_member(&self, member: Member) -> Option<Cow<'a, str>> {
        let raw = self.member(member)?.strip_prefix('"')?.strip_suffix('"')?;
        Some(if self.outline.escaped { unescape(raw) } else { Cow::Borrowed(raw) })
    }

    /// The elements of the outermost array, each with its own outline. Empty if the text is not an
    /// array.
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
    /// Shows the kind and the size, never the content: it may be secret or large.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text({:?}, {} bytes)", self.kind(), self.text.len())
    }
}

/// The elements of an array; see [`Text::elements`].
#[derive(Clone)]
pub struct Elements<'a> {
    text: &'a str,
    /// The position after the opening bracket or a comma; `None` after the closing bracket.
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

/// Kinds of the outermost value of a text.
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

/// Members of the envelope of a request or response.
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
    /// The length of the longest member name with every letter written as `\u00xx`.
    const LONGEST_ESCAPED: usize = 6 * "jsonrpc".len();

    /// The member with this name. `raw` is the text between the quotes.
    fn named(raw: &[u8]) -> Option<Member> {
        if raw.len() > Self::LONGEST_ESCAPED || !raw.contains(&b'\\') {
            return Member::named_plainly(raw);
        }
        // `"\u0069d"` also spells `id`.
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

/// The outline of a text: its kind and the positions of its members. It is separate from the text
/// because the decoder's buffer cannot be borrowed while the decoder still moves bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outline {
    kind: Kind,
    /// Bits of the members that are present, and of those that are present more than once.
    seen: u8,
    twice: u8,
    /// A name or string of the outermost object holds a backslash.
    escaped: bool,
    /// The position of the outermost value.
    start: u32,
    members: [Span; Member::COUNT],
}

impl Outline {
    /// Checks bytes as [`Text::check`] does, and becomes their outline. After an error the outline
    /// is meaningless.
    ///
    /// It is filled in place, because copying it would be a noticeable cost for each message.
    #[inline]
    pub(crate) fn take(&mut self, bytes: &[u8], max_depth: usize) -> Result<(), NotJson> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(NotJson { at: u32::MAX as usize, why: Why::TooLong });
        }
        scan::text(bytes, max_depth, self)
    }

    /// Resets the outline for a value that begins at `start`.
    #[inline(always)]
    fn begin(&mut self, start: usize) {
        (self.kind, self.start) = (Kind::Scalar, start as u32);
        (self.seen, self.twice, self.escaped) = (0, 0, false);
    }

    /// This outline with positions relative to `start`.
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

/// A range of a text.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn new(start: usize, end: usize) -> Self {
        // `Outline::take` has refused texts whose positions do not fit.
        Span { start: start as u32, end: end as u32 }
    }
}

/// Bytes that are not a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotJson {
    /// The position at which the error was found.
    pub at: usize,
    /// The error.
    pub why: Why,
}

/// Reasons why bytes are not a JSON text.
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

/// True for JSON white space.
#[inline(always)]
pub(crate) fn is_white(byte: u8) -> bool {
    byte <= b' ' && matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[cold]
fn syntax(at: usize) -> NotJson {
    NotJson { at, why: Why::Syntax }
}
