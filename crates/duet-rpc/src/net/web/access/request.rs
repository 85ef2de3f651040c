//! Parts of a request head that the access policy reads, independent of the HTTP parser.

use std::str;

use http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN, SEC_WEBSOCKET_PROTOCOL};
use http::request::Parts;
use http::{HeaderValue, Version};

use super::host::Authority;
use crate::net::web::status::HttpRefusal;

/// A borrowed view of a request. A header that may occur once occurs at most once.
#[derive(Default)]
pub(super) struct AccessHead<'a> {
    /// The server that the target names, if the target is a whole URL or the request is HTTP/2.
    pub(super) authority: Option<&'a str>,
    pub(super) host: Option<&'a str>,
    pub(super) origin: Option<&'a str>,
    pub(super) authorization: Option<&'a str>,
    /// The lines of `Cookie`: HTTP/2 may split one into several.
    pub(super) cookies: Vec<&'a str>,
    /// The lines of `Sec-WebSocket-Protocol`.
    pub(super) subprotocols: Vec<&'a str>,
    pub(super) query: Option<&'a str>,
    /// `true` if the request came over TLS.
    pub(super) is_secure: bool,
}

const TARGET: HttpRefusal = HttpRefusal::malformed("The target of the request is malformed.");
const NO_HOST: HttpRefusal = HttpRefusal::malformed("The request has to have one Host header.");
const NO_TEXT: HttpRefusal = HttpRefusal::malformed("The head is malformed: a header is not text.");
const DIFFERENT: HttpRefusal =
    HttpRefusal::malformed("The target of the request and its Host header name different servers.");

impl<'a> AccessHead<'a> {
    /// The view of a request that hyper has parsed. hyper leaves the checks made here to the application.
    pub(super) fn from_parts(parts: &'a Parts, is_secure: bool) -> Result<Self, HttpRefusal> {
        let uri = &parts.uri;
        let authority = uri.authority().map(http::uri::Authority::as_str);
        // A target that names a server without a scheme asks for a tunnel.
        if authority.is_some() && !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(TARGET);
        }
        let query = uri.query();
        let mut head = AccessHead { authority, query, is_secure, ..AccessHead::default() };
        // One pass, because a look-up of each header would cost more.
        for (name, value) in &parts.headers {
            let single = match name {
                name if name == HOST => &mut head.host,
                name if name == ORIGIN => &mut head.origin,
                name if name == AUTHORIZATION => &mut head.authorization,
                name if name == COOKIE => {
                    head.cookies.push(text(value)?);
                    continue;
                }
                name if name == SEC_WEBSOCKET_PROTOCOL => {
                    head.subprotocols.push(text(value)?);
                    continue;
                }
                _ => continue,
            };
            if single.replace(text(value)?).is_some() {
                return Err(HttpRefusal::TWICE);
            }
        }
        let needs_host = match parts.version {
            // HTTP/1.0 programs do not name the server; browsers do.
            Version::HTTP_09 | Version::HTTP_10 => false,
            Version::HTTP_11 => head.host.is_none(),
            _ => head.server().is_none(),
        };
        if needs_host {
            return Err(NO_HOST);
        }
        head.check_agreement()?;
        Ok(head)
    }

    /// The server that the client wants to reach, as the origin of its own pages would name it.
    pub(super) fn server(&self) -> Option<&'a str> {
        self.host.or(self.authority)
    }

    /// The names and addresses of the server that the request contains.
    pub(super) fn servers(&self) -> impl Iterator<Item = &'a str> {
        [self.authority, self.host].into_iter().flatten()
    }

    /// The subprotocols that the client offers, best first.
    pub(super) fn offered_subprotocols(&self) -> impl Iterator<Item = &'a str> {
        self.subprotocols.iter().flat_map(|line| line.split(',')).map(str::trim)
    }

    /// The values of a cookie.
    pub(super) fn cookies(&self, name: &str) -> impl Iterator<Item = &'a str> {
        let pairs = self.cookies.iter().flat_map(|line| line.split(';'));
        pairs.filter_map(move |pair| {
            let (found, value) = pair.split_once('=')?;
            (found.trim() == name).then_some(value.trim())
        })
    }

    /// The values of a query parameter, still percent-encoded.
    pub(super) fn query_values(&self, name: &str) -> impl Iterator<Item = &'a str> {
        let pairs = self.query.unwrap_or_default().split('&');
        pairs.filter_map(move |pair| {
            let (found, value) = pair.split_once('=')?;
            (found == name).then_some(value)
        })
    }

    /// A proxy may route by one of two names while we check the other, so both have to be the same.
    fn check_agreement(&self) -> Result<(), HttpRefusal> {
        let (Some(authority), Some(host)) = (self.authority, self.host) else { return Ok(()) };
        let default_port = if self.is_secure { 443 } else { 80 };
        let [authority, host] = [Authority::read(authority)?, Authority::read(host)?];
        if authority.is_same(&host, default_port) { Ok(()) } else { Err(DIFFERENT) }
    }
}

fn text(value: &HeaderValue) -> Result<&str, HttpRefusal> {
    str::from_utf8(value.as_bytes().trim_ascii()).map_err(|_| NO_TEXT)
}
