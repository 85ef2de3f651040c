//! Rules for request heads: which requests are served, and which are refused.
//!
//! The rules are strict. A proxy between a client and this server may interpret an ambiguous head in another way.
//! Then the bytes that one of them takes for a body are a request for the other (request smuggling).

use std::sync::Arc;

use duet_rpc_proto::Profile;
use http::header::{CONTENT_LENGTH, EXPECT, HeaderName, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, Version};

use crate::net::web::{AccessPolicy, Admitted, HttpRefusal};

/// The rules of a server.
#[derive(Clone)]
pub(in crate::net) struct Rules {
    pub(super) access: Arc<AccessPolicy>,
    /// The path that is served; `None` if the surrounding server has checked the path.
    pub(super) path: Option<Box<str>>,
    pub(super) protocols: Protocols,
    /// `true` if the connection is encrypted.
    pub(in crate::net) is_secure: bool,
    header_bytes: usize,
    message_bytes: usize,
}

/// The protocols that are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) enum Protocols {
    Both,
    Http,
    #[cfg(feature = "websocket")]
    WebSocket,
}

/// The purpose of an accepted request.
pub(super) enum Asked {
    /// An answer to the message in the body.
    Answer,
    /// A preflight: the browser asks which requests a web page may send.
    Preflight,
    /// A WebSocket. The response has this value of `Sec-WebSocket-Accept`.
    #[cfg(feature = "websocket")]
    WebSocket(HeaderValue),
}

const TOO_LARGE: HttpRefusal = HttpRefusal::new(
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    "The headers are too long. Send fewer or shorter ones.",
);
const TWICE: HttpRefusal = HttpRefusal::malformed(
    "The head is malformed: a header that may stand there once stands twice.",
);
const LENGTH: HttpRefusal =
    HttpRefusal::malformed("The head is malformed: it does not give one length for the body.");
const ENCODING: HttpRefusal = HttpRefusal::new(
    StatusCode::NOT_IMPLEMENTED,
    "This transfer encoding is not served. Use Content-Length or chunked.",
);
const METHOD: HttpRefusal = HttpRefusal::new(
    StatusCode::METHOD_NOT_ALLOWED,
    "Only POST is served: each body is one message.",
);
const UNKNOWN_EXPECTATION: HttpRefusal = HttpRefusal::new(
    StatusCode::EXPECTATION_FAILED,
    "This expectation is not served. Use Expect: 100-continue, or none.",
);
const NO_LENGTH: HttpRefusal = HttpRefusal::new(
    StatusCode::LENGTH_REQUIRED,
    "The length of the body is missing. Use Content-Length or chunked.",
);

/// Headers that may occur once in a head. The access policy checks further headers.
static SINGLE: [HeaderName; 3] = [CONTENT_LENGTH, TRANSFER_ENCODING, EXPECT];

impl Rules {
    pub(in crate::net) fn new(
        access: Arc<AccessPolicy>,
        path: Option<Box<str>>,
        protocols: Protocols,
        profile: &Profile,
    ) -> Self {
        let limits = profile.limits.usable();
        Rules {
            access,
            path,
            protocols,
            is_secure: false,
            header_bytes: limits.header_bytes,
            message_bytes: limits.message_bytes,
        }
    }

    /// The same rules for requests that come over TLS, or not.
    #[must_use]
    pub(in crate::net) fn secure(self, is_secure: bool) -> Self {
        Rules { is_secure, ..self }
    }

    pub(super) fn set_limits(&mut self, profile: &Profile) {
        let limits = profile.limits.usable();
        (self.header_bytes, self.message_bytes) = (limits.header_bytes, limits.message_bytes);
    }

    /// Returns `true` if only WebSockets are served.
    pub(super) fn serves_web_sockets_alone(&self) -> bool {
        !matches!(self.protocols, Protocols::Both | Protocols::Http)
    }

    pub(super) fn header_bytes(&self) -> usize {
        self.header_bytes
    }

    pub(super) fn message_bytes(&self) -> usize {
        self.message_bytes
    }

    /// Returns the purpose of the request, or the refusal. The caller has already checked the head.
    pub(super) fn judge(&self, parts: &Parts) -> Result<(Admitted, Asked), HttpRefusal> {
        let admitted = self.access.check(parts, self.is_secure)?;
        if self.path.as_deref().is_some_and(|path| path != parts.uri.path()) {
            return Err(HttpRefusal::NO_SUCH_PATH);
        }
        #[cfg(feature = "websocket")]
        if self.protocols == Protocols::WebSocket
            || (self.protocols == Protocols::Both && super::handshake::is_asked_for(parts))
        {
            let accept = super::handshake::accept(parts)?;
            return Ok((admitted, Asked::WebSocket(accept)));
        }
        if admitted.is_preflight {
            return Ok((admitted, Asked::Preflight));
        }
        if parts.method != Method::POST {
            return Err(METHOD.with_headers(match self.access.has_origins() {
                true => &[("allow", "POST, OPTIONS")],
                false => &[("allow", "POST")],
            }));
        }
        self.check_body(parts)?;
        Ok((admitted, Asked::Answer))
    }

    /// Refuses heads that a proxy may interpret differently, because it may then expect the next head at another
    /// position.
    pub(super) fn check_head(&self, parts: &Parts) -> Result<(), HttpRefusal> {
        let headers = &parts.headers;
        // Includes the colon, the space and the line end.
        let lines = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
        if lines.sum::<usize>() > self.header_bytes {
            return Err(TOO_LARGE);
        }
        if SINGLE.iter().any(|name| headers.get_all(name).iter().nth(1).is_some()) {
            return Err(TWICE);
        }
        let is_number =
            |it: &HeaderValue| !it.is_empty() && it.as_bytes().iter().all(u8::is_ascii_digit);
        match (headers.get(CONTENT_LENGTH), headers.get(TRANSFER_ENCODING)) {
            (Some(_), Some(_)) => Err(LENGTH),
            (Some(length), None) if !is_number(length) => Err(LENGTH),
            // Chunks came with HTTP/1.1; a program that speaks 1.0 may not know where they end.
            (None, Some(_)) if parts.version < Version::HTTP_11 => Err(LENGTH),
            (None, Some(encoding)) if !encoding.as_bytes().eq_ignore_ascii_case(b"chunked") => {
                Err(ENCODING)
            }
            _ => Ok(()),
        }
    }

    /// Refuses a body before it arrives.
    fn check_body(&self, parts: &Parts) -> Result<(), HttpRefusal> {
        if expectation(parts).is_some_and(|it| !it.eq_ignore_ascii_case(b"100-continue")) {
            return Err(UNKNOWN_EXPECTATION);
        }
        match content_length(parts) {
            Some(length) if length > self.message_bytes as u64 => Err(HttpRefusal::OVERSIZE),
            None if parts.version <= Version::HTTP_11
                && !parts.headers.contains_key(TRANSFER_ENCODING) =>
            {
                Err(NO_LENGTH)
            }
            _ => Ok(()),
        }
    }

    /// The refusal of a head that hyper cannot read.
    pub(super) fn refusal_of(error: &hyper::Error) -> HttpRefusal {
        if error.is_parse_too_large() {
            return TOO_LARGE;
        }
        HttpRefusal::malformed("This is not an HTTP request, or its head is malformed.")
    }
}

/// The confirmation that the client waits for before it sends the body. An HTTP/1.0 client waits for none.
pub(super) fn expectation(parts: &Parts) -> Option<&[u8]> {
    let expect = parts.headers.get(EXPECT).filter(|_| parts.version > Version::HTTP_10);
    expect.map(HeaderValue::as_bytes)
}

/// The announced length of the body. A number that is too large for `u64` counts as `u64::MAX`.
pub(super) fn content_length(parts: &Parts) -> Option<u64> {
    let length = parts.headers.get(CONTENT_LENGTH)?.to_str().ok()?;
    Some(length.parse().unwrap_or(u64::MAX))
}
