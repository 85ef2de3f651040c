//! The head that all requests of a client share: target, host, token and further headers.

use std::fmt;
use std::io;

use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};

use crate::net::{Place, Target};

/// The target of a client's requests, and the headers that the user chose.
#[derive(Clone)]
pub(in crate::net) struct RequestHead {
    target: Uri,
    headers: HeaderMap,
}

/// Headers that the client sets itself. A second value would contradict the first.
const RESERVED: [&str; 9] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
];

impl RequestHead {
    /// Fails if the token or a header is not valid in a request head.
    pub(in crate::net) fn new(
        place: &Place,
        target: &Target,
        token: Option<&str>,
        further: &[(String, String)],
    ) -> io::Result<Self> {
        let host = HeaderValue::try_from(place.to_string());
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.map_err(|_| invalid("the host cannot stand in a header"))?);
        if let Some(token) = token {
            headers.insert(AUTHORIZATION, bearer(token)?);
        }
        for (name, value) in further {
            let (name, value) = parse_header(name, value)?;
            if name == AUTHORIZATION && token.is_some() {
                return Err(invalid("a token and the header Authorization exclude each other"));
            }
            headers.append(name, value);
        }
        let target = Uri::try_from(target.as_str());
        Ok(RequestHead {
            target: target.map_err(|_| invalid("the path of the address is not that of a URL"))?,
            headers,
        })
    }

    /// A request with this head. Further headers can be added to it.
    pub(in crate::net) fn request<B>(&self, method: Method, body: B) -> Request<B> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = self.target.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

impl fmt::Debug for RequestHead {
    /// Shows the target, and not the headers, which may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHead").field("target", &self.target).finish_non_exhaustive()
    }
}

fn bearer(token: &str) -> io::Result<HeaderValue> {
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let value = is_token.then(|| HeaderValue::try_from(format!("Bearer {token}")).ok()).flatten();
    let mut value = value.ok_or_else(|| invalid("a token is made of visible ASCII characters"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn parse_header(name: &str, value: &str) -> io::Result<(HeaderName, HeaderValue)> {
    let parsed: HeaderName =
        name.parse().map_err(|_| invalid(format!("{name:?} is not the name of a header")))?;
    if RESERVED.contains(&parsed.as_str()) || parsed.as_str().starts_with("sec-websocket-") {
        return Err(invalid(format!("the header {name} is set by the client itself")));
    }
    // The value may be secret, so the error does not show it.
    let is_text = value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    let mut value = HeaderValue::try_from(value)
        .ok()
        .filter(|_| is_text)
        .ok_or_else(|| invalid(format!("the value of the header {name} is not ASCII text")))?;
    value.set_sensitive(true);
    Ok((parsed, value))
}

fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason.into())
}

#[cfg(test)]
mod tests {
    use super::{Method, RequestHead};
    use crate::net::address::Security;
    use crate::net::{Place, Target};

    fn head(token: Option<&str>, name: &str, value: &str) -> Result<RequestHead, String> {
        let place = Place { host: "::1".to_owned(), port: 80, security: Security::Plain };
        let further = [(name.to_owned(), value.to_owned())];
        let head = RequestHead::new(&place, &Target::default(), token, &further);
        head.map_err(|error| error.to_string())
    }

    #[test]
    fn t3_the_head_of_a_client_has_the_token_and_the_headers_of_the_user() {
        let head = head(Some("s3cret"), "X-Tenant", "a b").expect("good");
        assert!(!format!("{head:?}").contains("s3cret"));
        let request = head.request(Method::POST, ());
        assert_eq!(request.uri(), "/");
        for (name, value) in
            [("host", "[::1]:80"), ("authorization", "Bearer s3cret"), ("x-tenant", "a b")]
        {
            assert_eq!(request.headers()[name], value);
        }
    }

    #[test]
    fn t3_a_header_that_could_break_a_request_is_refused() {
        let rows = [
            ("a b", "x", "\"a b\" is not the name of a header"),
            ("", "x", "\"\" is not the name of a header"),
            ("a\r\nb", "x", "\"a\\r\\nb\" is not the name of a header"),
            ("X-Key", "s3cret\r\nX: y", "the value of the header X-Key is not ASCII text"),
            ("X-Key", "s3cret\0", "the value of the header X-Key is not ASCII text"),
            ("X-Key", "s3cret\u{e9}", "the value of the header X-Key is not ASCII text"),
            ("host", "x", "the header host is set by the client itself"),
            ("Content-Length", "1", "the header Content-Length is set by the client itself"),
            ("Transfer-Encoding", "x", "the header Transfer-Encoding is set by the client itself"),
            ("Sec-WebSocket-Key", "x", "the header Sec-WebSocket-Key is set by the client itself"),
            ("Authorization", "x", "a token and the header Authorization exclude each other"),
        ];
        for (name, value, why) in rows {
            assert_eq!(head(Some("token"), name, value).expect_err(why), why);
        }
        assert!(head(None, "Authorization", "Basic eDp5").is_ok());
        for token in ["", "a b", "a\r\nX: y", "\u{e9}"] {
            let why = head(Some(token), "X", "y").expect_err(token);
            assert_eq!(why, "a token is made of visible ASCII characters");
        }
    }
}
