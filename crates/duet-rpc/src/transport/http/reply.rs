//! Responses, as a client reads them: takes bytes in any pieces.

use std::io;

use crate::transport::web::{Body, Flaw, HeadReader, Refused, Response};

/// How far a response has come.
#[derive(Debug)]
pub(super) enum Reply {
    /// None is awaited.
    None,
    Head {
        reader: HeadReader,
        header_bytes: usize,
        /// How many responses may still come that say only that the real one comes later.
        interim: u8,
    },
    Body {
        body: Body,
        bytes: Vec<u8>,
        keeps_alive: bool,
        has_message: bool,
    },
}

/// What became of what was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// More is needed.
    More,
    /// No response was awaited: the connection is of no use.
    Unasked,
    /// A response is whole.
    Done { message: Option<Vec<u8>>, keeps_alive: bool },
}

/// How many responses that are none are read before the real one.
const INTERIM: u8 = 16;

impl Reply {
    /// The response to a request that is sent now.
    pub(super) fn awaited(header_bytes: usize) -> Self {
        let reader = HeadReader::new(header_bytes);
        Reply::Head { reader, header_bytes, interim: INTERIM }
    }

    /// Whether one is awaited, and nothing of it has come.
    pub(super) fn has_not_begun(&self) -> bool {
        matches!(self, Reply::Head { reader, interim: INTERIM, .. } if !reader.has_begun())
    }

    /// Takes what was read.
    pub(super) fn take(&mut self, piece: &[u8], message_bytes: usize) -> io::Result<Step> {
        let mut rest = piece;
        loop {
            match self {
                Reply::None => return Ok(Step::Unasked),
                Reply::Head { reader, header_bytes, interim } => {
                    let taken = reader.take(rest);
                    rest = rest.get(taken.used..).unwrap_or_default();
                    let head = taken.head.map_err(|_| invalid("the server sends no HTTP"))?;
                    let Some(head) = head else { return Ok(Step::More) };
                    let response = Response::read(head)?;
                    let status = response.status.0;
                    *self = match status {
                        100..200 if status != 101 && *interim > 0 => Reply::Head {
                            reader: HeadReader::new(*header_bytes),
                            header_bytes: *header_bytes,
                            interim: *interim - 1,
                        },
                        200..300 => Reply::Body {
                            body: Body::new(response.length, message_bytes).map_err(flawed)?,
                            bytes: Vec::new(),
                            keeps_alive: response.keeps_alive(),
                            has_message: !matches!(status, 202 | 204),
                        },
                        _ => return Err(Refused::new(status).into()),
                    };
                }
                Reply::Body { body, bytes, keeps_alive, .. } => {
                    let used = body.take(rest, bytes).map_err(flawed)?;
                    rest = rest.get(used..).unwrap_or_default();
                    if !body.is_whole() {
                        return Ok(Step::More);
                    }
                    // What stands behind it was not asked for.
                    *keeps_alive &= rest.is_empty();
                    return self.finish();
                }
            }
        }
    }

    /// The server has closed the connection.
    pub(super) fn end(&mut self) -> io::Result<Step> {
        match self {
            Reply::None => Ok(Step::Unasked),
            Reply::Body { body, keeps_alive, .. } if body.may_end() => {
                *keeps_alive = false;
                self.finish()
            }
            _ => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the server closed the connection before it had answered",
            )),
        }
    }

    fn finish(&mut self) -> io::Result<Step> {
        let Reply::Body { bytes, keeps_alive, has_message, .. } =
            std::mem::replace(self, Reply::None)
        else {
            return Ok(Step::Unasked);
        };
        match bytes.trim_ascii_start().first() {
            _ if !has_message => Ok(Step::Done { message: None, keeps_alive }),
            None => Ok(Step::Done { message: None, keeps_alive }),
            Some(b'{' | b'[') => Ok(Step::Done { message: Some(bytes), keeps_alive }),
            // To answer that with a parse error, as one does elsewhere, would be another request,
            // and so on for ever.
            Some(_) => Err(invalid("the server's answer is no JSON-RPC message")),
        }
    }
}

fn flawed(flaw: Flaw) -> io::Error {
    match flaw {
        Flaw::TooLarge => invalid("the server's answer is longer than a message may be"),
        Flaw::Malformed => invalid("the server's answer is malformed"),
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
