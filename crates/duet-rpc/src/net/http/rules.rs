//! Rules for request heads: which requests are served, and which are refused.
//!
//! The rules are strict. A proxy between a client and this server may interpret an ambiguous head in another way.
//! Then the bytes that one of them takes for a body are a request for the other (request smuggling).

use std::sync::Arc;

use duet_rpc_proto::Profile;
use http::header::{ACCEPT, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Method, StatusCode, Version};

use super::events::EVENT_STREAM;
use super::session::SESSION;
use crate::net::web::{AccessPolicy, Admitted, HttpRefusal, lists_type};

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
    WebSocket(http::HeaderValue),
}

const TOO_LARGE: HttpRefusal = HttpRefusal::new(
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    "The headers are too long, or Content-Length is too large. Send fewer or shorter ones.",
);
const HTTP_2: HttpRefusal = HttpRefusal::new(
    StatusCode::HTTP_VERSION_NOT_SUPPORTED,
    "HTTP/2 is not served here. Use HTTP/1.1, or a proxy that translates.",
);
const LENGTH: HttpRefusal =
    HttpRefusal::malformed("The head is malformed: it does not give one length for the body.");
const NOT_A_LENGTH: HttpRefusal = HttpRefusal::malformed(
    "Content-Length is not one number, or it is too large. Send the length of the body in bytes.",
);
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

/// The headers of a request that describe its body and its response.
#[derive(Debug, Default)]
pub(super) struct BodyHeaders {
    /// The announced length. A number that is too large for `u64` counts as `u64::MAX`.
    pub(super) length: Option<u64>,
    pub(super) is_chunked: bool,
    /// The confirmation that the client waits for before it sends the body, and whether it is the known one. An
    /// HTTP/1.0 client waits for none.
    pub(super) expects_continue: Option<bool>,
    /// `true` if the client accepts an event stream.
    pub(super) takes_events: bool,
}

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

    /// Returns the purpose of the request, or the refusal.
    pub(super) fn judge(
        &self,
        parts: &Parts,
        body: &BodyHeaders,
    ) -> Result<(Admitted, Asked), HttpRefusal> {
        let admitted = self.access.check(parts, self.is_secure)?;
        // A preflight succeeds under every path: without it, the page could not read the reason of the refusal.
        if admitted.is_preflight && !self.serves_web_sockets_alone() {
            return Ok((admitted, Asked::Preflight));
        }
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
        if parts.method != Method::POST {
            return Err(METHOD.with_headers(match self.access.has_origins() {
                true => &[("allow", "POST, OPTIONS")],
                false => &[("allow", "POST")],
            }));
        }
        self.check_body(parts, body)?;
        Ok((admitted, Asked::Answer))
    }

    /// Refuses heads that a proxy may interpret differently, because it may then expect the next head at another
    /// position. One pass, because a look-up of each header would cost more than the rest of the check.
    pub(super) fn check_head(&self, parts: &Parts) -> Result<BodyHeaders, HttpRefusal> {
        let (mut length, mut encoding, mut expected, mut session) = (None, None, None, None);
        let (mut bytes, mut is_twice, mut takes_events) = (0, false, false);
        for (name, value) in &parts.headers {
            // Includes the colon, the space and the line end.
            bytes += name.as_str().len() + value.len() + 4;
            let single = match name {
                name if name == CONTENT_LENGTH => &mut length,
                name if name == TRANSFER_ENCODING => &mut encoding,
                name if name == EXPECT => &mut expected,
                name if name == SESSION => &mut session,
                name => {
                    takes_events |= name == ACCEPT && lists_type(value, EVENT_STREAM);
                    continue;
                }
            };
            is_twice |= single.replace(value.as_bytes()).is_some();
        }
        if bytes > self.header_bytes {
            return Err(TOO_LARGE);
        }
        // The access policy checks further headers.
        if is_twice {
            return Err(HttpRefusal::TWICE);
        }
        match (length, encoding) {
            (Some(_), Some(_)) => return Err(LENGTH),
            // Chunks came with HTTP/1.1; a program that speaks 1.0 may not know where they end.
            (None, Some(_)) if parts.version < Version::HTTP_11 => return Err(LENGTH),
            (None, Some(encoding)) if !encoding.eq_ignore_ascii_case(b"chunked") => {
                return Err(ENCODING);
            }
            _ => {}
        }
        let expected = expected.filter(|_| parts.version > Version::HTTP_10);
        Ok(BodyHeaders {
            length: length.map(|digits| read_length(digits).ok_or(LENGTH)).transpose()?,
            is_chunked: encoding.is_some(),
            expects_continue: expected.map(|it| it.eq_ignore_ascii_case(b"100-continue")),
            takes_events,
        })
    }

    /// Refuses a body before it arrives.
    fn check_body(&self, parts: &Parts, body: &BodyHeaders) -> Result<(), HttpRefusal> {
        if body.expects_continue == Some(false) {
            return Err(UNKNOWN_EXPECTATION);
        }
        match body.length {
            Some(length) if length > self.message_bytes as u64 => Err(HttpRefusal::OVERSIZE),
            None if parts.version <= Version::HTTP_11 && !body.is_chunked => Err(NO_LENGTH),
            _ => Ok(()),
        }
    }

    /// The refusal of a head that hyper cannot read.
    pub(super) fn refusal_of(error: &hyper::Error) -> HttpRefusal {
        match error {
            error if error.is_parse_too_large() => TOO_LARGE,
            error if error.is_parse_version_h2() => HTTP_2,
            // hyper shows the reason only here.
            error if error.to_string().contains("content-length") => NOT_A_LENGTH,
            _ => HttpRefusal::malformed("This is not an HTTP request, or its head is malformed."),
        }
    }
}

/// A number of bytes: digits alone.
fn read_length(digits: &[u8]) -> Option<u64> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    let add = |sum: u64, digit: u64| sum.saturating_mul(10).saturating_add(digit);
    let sum = digits.iter().try_fold(0, |sum, byte| digit(byte).map(|digit| add(sum, digit)));
    sum.filter(|_| !digits.is_empty())
}
