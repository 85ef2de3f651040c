//! WebSocket handshake of a server: the rules for the request, and the response.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, CONTENT_LENGTH, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, TRANSFER_ENCODING,
    UPGRADE,
};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, Version};

use crate::net::web::{HttpRefusal, answer_to, lists, only};

pub(super) const NO_UPGRADE: HttpRefusal = HttpRefusal::new(
    StatusCode::UPGRADE_REQUIRED,
    "WebSockets are served here. Connect with a client of WebSockets.",
)
.with_headers(&[("connection", "Upgrade"), ("upgrade", "websocket")]);
const VERSION: HttpRefusal = HttpRefusal::new(
    StatusCode::UPGRADE_REQUIRED,
    "This version of WebSockets is not served. Use 13.",
)
.with_headers(&[
    ("connection", "Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
]);
const METHOD: HttpRefusal = HttpRefusal::new(
    StatusCode::METHOD_NOT_ALLOWED,
    "WebSockets are served here. Begin them with GET.",
)
.with_headers(&[("allow", "GET")]);
const KEY: HttpRefusal = HttpRefusal::malformed(
    "The head is malformed: Sec-WebSocket-Key has to be 16 bytes in base64.",
);
const BODY: HttpRefusal = HttpRefusal::malformed("A request that begins a WebSocket has no body.");

/// Returns `true` if the request asks for a WebSocket.
pub(super) fn is_asked_for(parts: &Parts) -> bool {
    parts.method == Method::GET && lists(&parts.headers, &UPGRADE, "websocket")
}

/// The value of `Sec-WebSocket-Accept` for a request that begins a WebSocket. The server chooses no extension, even
/// if the client offers some.
pub(super) fn accept(parts: &Parts) -> Result<HeaderValue, HttpRefusal> {
    let headers = &parts.headers;
    if parts.method != Method::GET {
        return Err(METHOD);
    }
    let is_upgrade = parts.version == Version::HTTP_11
        && lists(headers, &UPGRADE, "websocket")
        && lists(headers, &CONNECTION, "upgrade");
    if !is_upgrade {
        return Err(NO_UPGRADE);
    }
    if only(headers, &SEC_WEBSOCKET_VERSION) != Some("13") {
        return Err(VERSION);
    }
    let has_no_body = headers.get(CONTENT_LENGTH).is_none_or(|length| length == "0")
        && !headers.contains_key(TRANSFER_ENCODING);
    if !has_no_body {
        return Err(BODY);
    }
    let key = only(headers, &SEC_WEBSOCKET_KEY).ok_or(KEY)?;
    if STANDARD.decode(key).map_or(true, |bytes| bytes.len() != 16) {
        return Err(KEY);
    }
    HeaderValue::try_from(answer_to(key)).map_err(|_| KEY)
}
