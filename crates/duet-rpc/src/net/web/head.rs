//! HTTP heads: everything before the body of a request or a response.
//!
//! A head is read strictly. A proxy between a client and this server may read a doubtful head in another
//! way, and then the body of one is a request of the other (request smuggling).

use std::fmt;
use std::io;
use std::mem::MaybeUninit;

use http::StatusCode;
use httparse::ParserConfig;

use super::headers::Headers;
use super::status::{HttpRefusal, Status};

/// How many header lines a head may have.
const LINES: usize = 100;

/// Finds the end of a head in bytes that come in any pieces. Each byte is looked at once, and the
/// head is copied only if it comes in more than one piece.
pub(in crate::net) struct HeadReader {
    limit: usize,
    /// What has come of a head that is not whole yet.
    begun: Vec<u8>,
    /// How many bytes were taken, also of empty lines that stand before the head.
    taken: usize,
    place: HeadPosition,
}

/// Where the next byte stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HeadPosition {
    /// Before the head, where empty lines are skipped, and inside the end of such a line.
    Before,
    BeforeEnd,
    /// At the beginning of a line other than the first, inside of a line, and inside its end.
    Start,
    Line,
    LineEnd,
    /// Inside the end of the empty line that ends the head, and behind it.
    LastEnd,
    Behind,
}

/// What became of bytes that a reader was given.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::net) struct Taken<'a> {
    /// How many of them belong to the head.
    pub(in crate::net) used: usize,
    /// The head, once it is whole.
    pub(in crate::net) head: Result<Option<&'a [u8]>, HttpRefusal>,
}

const TOO_LARGE: HttpRefusal = HttpRefusal::new(
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    "The headers are too long. Send fewer or shorter ones.",
);
const LINE_ENDS: HttpRefusal =
    HttpRefusal::malformed("The head is malformed: each of its lines has to end in CR LF.");
const FOLDED: HttpRefusal =
    HttpRefusal::malformed("The head is malformed: a header has to stand on one line.");
const NO_HTTP: HttpRefusal = HttpRefusal::malformed("This is no HTTP request.");

impl HeadReader {
    /// A reader of a head of up to so many bytes.
    pub(in crate::net) fn new(limit: usize) -> Self {
        HeadReader { limit, begun: Vec::new(), taken: 0, place: HeadPosition::Before }
    }

    /// Takes what belongs to the head. Nothing may be given to it after the head was whole, or
    /// refused.
    pub(in crate::net) fn take<'a>(&'a mut self, piece: &'a [u8]) -> Taken<'a> {
        let mut start = 0;
        for (at, &byte) in piece.iter().enumerate() {
            if self.taken >= self.limit {
                return Taken { used: at, head: Err(TOO_LARGE) };
            }
            self.taken += 1;
            let before = self.place;
            self.place = match before.step(byte) {
                Ok(place) => place,
                Err(refusal) => return Taken { used: at + 1, head: Err(refusal) },
            };
            match self.place {
                HeadPosition::Line if before == HeadPosition::Before => start = at,
                HeadPosition::Behind => {
                    let last = piece.get(start..=at).unwrap_or_default();
                    let used = at + 1;
                    if self.begun.is_empty() {
                        return Taken { used, head: Ok(Some(last)) };
                    }
                    self.begun.extend_from_slice(last);
                    return Taken { used, head: Ok(Some(&self.begun)) };
                }
                _ => {}
            }
        }
        if !matches!(self.place, HeadPosition::Before | HeadPosition::BeforeEnd) {
            self.begun.extend_from_slice(piece.get(start..).unwrap_or_default());
        }
        Taken { used: piece.len(), head: Ok(None) }
    }
}

impl fmt::Debug for HeadReader {
    /// Shows how much has come: a head may hold a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeadReader").field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl HeadPosition {
    fn step(self, byte: u8) -> Result<HeadPosition, HttpRefusal> {
        Ok(match (self, byte) {
            (HeadPosition::Line, b'\r') => HeadPosition::LineEnd,
            (HeadPosition::Line, b'\n') => return Err(LINE_ENDS),
            (HeadPosition::Line, _) => HeadPosition::Line,
            (HeadPosition::LineEnd, b'\n') => HeadPosition::Start,
            (HeadPosition::Start, b'\r') => HeadPosition::LastEnd,
            (HeadPosition::Start, b' ' | b'\t') => return Err(FOLDED),
            (HeadPosition::Before, b'\r') => HeadPosition::BeforeEnd,
            (HeadPosition::BeforeEnd, b'\n') => HeadPosition::Before,
            (HeadPosition::LastEnd | HeadPosition::Behind, b'\n') => HeadPosition::Behind,
            (HeadPosition::Before | HeadPosition::Start, b'\n') => return Err(LINE_ENDS),
            // What speaks another protocol is found out at once.
            (HeadPosition::Before, _) if !byte.is_ascii_alphabetic() => return Err(NO_HTTP),
            (HeadPosition::Before | HeadPosition::Start, _) => HeadPosition::Line,
            _ => return Err(LINE_ENDS),
        })
    }
}

/// How the length of a body is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) enum Length {
    /// So many bytes. A number that is too large for the machine is the largest.
    Fixed(u64),
    /// In chunks, each with its length.
    Chunked,
    /// Not at all: a response goes on until the connection ends.
    UntilEnd,
}

/// What matters of the head of a response.
#[derive(Clone, Copy)]
pub(in crate::net) struct Response<'a> {
    pub(in crate::net) status: Status,
    pub(in crate::net) is_1_1: bool,
    pub(in crate::net) length: Length,
    pub(in crate::net) headers: Headers<'a>,
}

impl<'a> Response<'a> {
    /// Reads a whole head.
    pub(in crate::net) fn read(head: &'a [u8]) -> io::Result<Self> {
        let malformed =
            || io::Error::new(io::ErrorKind::InvalidData, "the server does not speak HTTP");
        let mut lines = [const { MaybeUninit::uninit() }; LINES];
        let mut response = httparse::Response::new(&mut []);
        let config = ParserConfig::default();
        let parsed = config.parse_response_with_uninit_headers(&mut response, head, &mut lines);
        let (Ok(_), Some(code), Some(version)) = (parsed, response.code, response.version) else {
            return Err(malformed());
        };
        let is_1_1 = version == 1;
        let headers = Headers::read(response.headers).map_err(|_| malformed())?;
        let length = match headers.length(is_1_1).map_err(|_| malformed())? {
            _ if matches!(code, 100..200 | 204 | 304) => Length::Fixed(0),
            length => length.unwrap_or(Length::UntilEnd),
        };
        Ok(Response { status: Status(code), is_1_1, length, headers })
    }

    /// Returns `true` if the connection may be used again.
    pub(in crate::net) fn keeps_alive(&self) -> bool {
        self.length != Length::UntilEnd && self.headers.keeps_alive(self.is_1_1)
    }
}
