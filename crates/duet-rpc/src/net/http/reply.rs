//! HTTP response parser of a client: takes bytes in any pieces.

use super::verdict::HttpFailure;
use crate::net::web::{Body, Flaw, HeadReader, Response, Status};

/// How far a response has come.
#[derive(Debug)]
pub(super) enum ResponseReader {
    Head {
        reader: HeadReader,
        header_bytes: usize,
        /// How many responses may still come that say only that the real one comes later.
        interim: u8,
    },
    Body {
        status: Status,
        body: Body,
        bytes: Vec<u8>,
        keeps_alive: bool,
    },
}

/// What became of what was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ResponseStep {
    /// More is needed.
    More,
    /// A response is whole.
    Done { status: Status, body: Vec<u8>, keeps_alive: bool },
}

/// How many responses that are none are read before the real one.
const INTERIM: u8 = 16;

const NO_HTTP: HttpFailure = HttpFailure::Bad("the server does not speak HTTP");

impl ResponseReader {
    /// The response to a request that is sent now.
    pub(super) fn awaited(header_bytes: usize) -> Self {
        let reader = HeadReader::new(header_bytes);
        ResponseReader::Head { reader, header_bytes, interim: INTERIM }
    }

    /// Takes what was read. Nothing may be given to it after it was whole, or failed.
    pub(super) fn take(
        &mut self,
        piece: &[u8],
        message_bytes: usize,
    ) -> Result<ResponseStep, HttpFailure> {
        let mut rest = piece;
        loop {
            match self {
                ResponseReader::Head { reader, header_bytes, interim } => {
                    let taken = reader.take(rest);
                    rest = rest.get(taken.used..).unwrap_or_default();
                    let Some(head) = taken.head.map_err(|_| NO_HTTP)? else {
                        return Ok(ResponseStep::More);
                    };
                    let response = Response::read(head).map_err(|_| NO_HTTP)?;
                    let status = response.status;
                    *self = match status.0 {
                        100..200 if status.0 != 101 && *interim > 0 => ResponseReader::Head {
                            reader: HeadReader::new(*header_bytes),
                            header_bytes: *header_bytes,
                            interim: *interim - 1,
                        },
                        200..300 | 400..600 if !HttpFailure::Status(status).concerns_all() => {
                            let body = Body::new(response.length, message_bytes);
                            ResponseReader::Body {
                                status,
                                body: body.map_err(|flaw| flawed(flaw, status))?,
                                bytes: Vec::new(),
                                keeps_alive: response.keeps_alive(),
                            }
                        }
                        _ => return Err(HttpFailure::Status(status)),
                    };
                }
                ResponseReader::Body { status, body, bytes, keeps_alive } => {
                    let used = body.take(rest, bytes).map_err(|flaw| flawed(flaw, *status))?;
                    rest = rest.get(used..).unwrap_or_default();
                    if !body.is_whole() {
                        return Ok(ResponseStep::More);
                    }
                    let (status, body) = (*status, std::mem::take(bytes));
                    // What stands behind it was not asked for.
                    let keeps_alive = *keeps_alive && rest.is_empty();
                    return Ok(ResponseStep::Done { status, body, keeps_alive });
                }
            }
        }
    }

    /// The server has closed the connection.
    pub(super) fn end(&mut self) -> Result<ResponseStep, HttpFailure> {
        match self {
            ResponseReader::Body { status, body, bytes, .. } if body.may_end() => {
                let (status, body) = (*status, std::mem::take(bytes));
                Ok(ResponseStep::Done { status, body, keeps_alive: false })
            }
            _ => Err(self.broken()),
        }
    }

    /// The connection broke.
    pub(super) fn broken(&self) -> HttpFailure {
        match self {
            ResponseReader::Head { .. } => HttpFailure::Broken,
            ResponseReader::Body { status, .. } => unless_refused(HttpFailure::Broken, *status),
        }
    }
}

fn flawed(flaw: Flaw, status: Status) -> HttpFailure {
    let what = match flaw {
        Flaw::TooLarge => "the response is longer than the message limit",
        Flaw::Malformed => "the body of the response is malformed",
    };
    unless_refused(HttpFailure::Bad(what), status)
}

/// Of a refusal the status says enough, whatever is wrong with the rest.
fn unless_refused(failure: HttpFailure, status: Status) -> HttpFailure {
    match status.0 {
        200..300 => failure,
        _ => HttpFailure::Status(status),
    }
}
