//! Sessions of MCP over HTTP: names that tell clients apart.
//!
//! All clients count their requests from the same number, so a cancellation that comes in another request could match
//! requests of several clients. A client that begins with `initialize` gets a session name, and sends it with each
//! later request. The server stores nothing for a session, and the name proves nothing: a client that sends the
//! session name of another client also needs that client's token.

use http::HeaderValue;
use serde::Deserialize;

use crate::random;

/// The header with the name of the session.
pub(super) const SESSION: &str = "mcp-session-id";

/// The name of a new session, if this message of a client without a session begins one.
pub(super) fn begin(message: &[u8]) -> Option<HeaderValue> {
    #[derive(Deserialize)]
    struct FirstMessage<'a> {
        #[serde(borrow)]
        method: std::borrow::Cow<'a, str>,
    }

    let first: FirstMessage<'_> = serde_json::from_slice(message).ok()?;
    if first.method != "initialize" {
        return None;
    }
    HeaderValue::from_str(&format!("{:032x}", random::seed())).ok()
}
