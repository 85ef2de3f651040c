//! Access policy on the head of a request that hyper has read.

use std::sync::Arc;

use http::HeaderValue;
use http::request::Parts;

use super::access::AccessPolicy;
use super::head::HttpRequest;
use super::headers::Headers;
use super::status::HttpRefusal;
use crate::remote::Identity;

/// The rights and choices of a request that the access policy accepts.
pub(in crate::net) struct Admitted {
    /// The identity that the client has proved.
    pub(in crate::net) identity: Option<Arc<Identity>>,
    /// The WebSocket subprotocol that was chosen.
    pub(in crate::net) subprotocol: Option<HeaderValue>,
    /// The origin of the web page, if it was allowed by name.
    pub(in crate::net) origin: Option<HeaderValue>,
}

const NO_TEXT: HttpRefusal = HttpRefusal::malformed("The head is malformed: a header is no text.");

impl AccessPolicy {
    /// Checks a request, and says what it may do.
    pub(in crate::net) fn check(
        &self,
        parts: &Parts,
        _is_secure: bool,
    ) -> Result<Admitted, HttpRefusal> {
        let request = request_of(parts)?;
        self.check_origin(&request)?;
        let origin = self.cors_origin(parts);
        let is_preflight = request.method == "OPTIONS" && request.headers.asks_for_method.is_some();
        let identity = match is_preflight && origin.is_some() {
            // A page cannot show a token before it was told that it may.
            true => None,
            false => self.check_token(&request)?,
        };
        Ok(Admitted { identity, subprotocol: None, origin })
    }

    /// The origin of the web page that may read the response, even if the request is refused.
    pub(in crate::net) fn cors_origin(&self, parts: &Parts) -> Option<HeaderValue> {
        let request = request_of(parts).ok()?;
        self.allowed_origin(&request).and_then(|origin| HeaderValue::from_str(origin).ok())
    }
}

fn request_of(parts: &Parts) -> Result<HttpRequest<'_>, HttpRefusal> {
    let text = |name: &str| parts.headers.get(name).map(HeaderValue::to_str).transpose();
    let text = |name: &str| text(name).map_err(|_| NO_TEXT);
    let mut headers = Headers::default();
    headers.host = text("host")?;
    headers.origin = text("origin")?;
    headers.authorization = text("authorization")?;
    headers.asks_for_method = text("access-control-request-method")?;
    Ok(HttpRequest {
        method: parts.method.as_str(),
        authority: parts.uri.authority().map(|it| it.as_str()),
        headers,
    })
}
