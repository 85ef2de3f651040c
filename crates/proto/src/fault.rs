//! Faults: bytes that break the framing or a limit.

use std::fmt;

use crate::text::{NotJson, Text};

/// A run of bytes without a message.
///
/// A fault contains no error code. [`message`](crate::message) decides the answer to it.
#[derive(Clone, Copy, Debug)]
pub struct Fault<'a> {
    /// The kind of fault.
    pub kind: FaultKind,
    /// The body, if it arrived whole and is JSON despite the fault. Only its `id` is used: the
    /// answer carries it.
    pub body: Option<Text<'a>>,
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// Bytes that do not begin a frame, or a malformed header.
    Malformed(Malformed),
    /// The frame was whole, and its body is not JSON.
    NotJson(NotJson),
    /// A frame ended early: the input ended, or the next frame began, inside it.
    CutShort,
    /// A frame that is longer than the message limit.
    Oversize,
    /// A header section that is longer than its limit.
    HeaderTooLarge,
    /// A `Content-Type` with an unsupported media type.
    UnsupportedContentType,
    /// A `Content-Type` with a charset other than UTF-8.
    BadCharset,
}

/// Kinds of malformed bytes. Only the log shows the kind; the remote gets a plain parse error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// A header line that is not `Name: value`: most often stray text.
    HeaderLine,
    /// A header line that ends with LF alone.
    BareLineFeed,
    /// A `Content-Length` that is not a decimal number.
    LengthValue,
    /// Two `Content-Length` headers that disagree.
    LengthConflict,
    /// A header section without a `Content-Length`.
    LengthMissing,
    /// A length prefix of zero.
    ZeroLength,
    /// Printable characters in the place of a length prefix.
    NoPrefix,
    /// A payload that is not followed by a newline.
    NoTerminator,
    /// A zero byte inside a payload, which JSON cannot contain.
    ZeroByte,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            FaultKind::Malformed(what) => return what.fmt(f),
            FaultKind::NotJson(why) => return write!(f, "the frame's body is {why}"),
            FaultKind::CutShort => "a frame ended early: its length is wrong, or the input ended",
            FaultKind::Oversize => "a frame is longer than the message limit",
            FaultKind::HeaderTooLarge => "a header section is longer than its limit",
            FaultKind::UnsupportedContentType => "the content type is not supported",
            FaultKind::BadCharset => "the charset is not UTF-8",
        };
        f.write_str(text)
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformed::HeaderLine => "a line is not a header: stray output before a frame?",
            Malformed::BareLineFeed => "a header line ends with LF instead of CR LF",
            Malformed::LengthValue => "a Content-Length is not a decimal number",
            Malformed::LengthConflict => "two Content-Length headers disagree",
            Malformed::LengthMissing => "a header section has no Content-Length",
            Malformed::ZeroLength => "a length prefix is zero",
            Malformed::NoPrefix => "text in place of a length prefix: stray output?",
            Malformed::NoTerminator => "a payload is not followed by a newline",
            Malformed::ZeroByte => "a payload contains a zero byte",
        })
    }
}

impl fmt::Display for Fault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}
