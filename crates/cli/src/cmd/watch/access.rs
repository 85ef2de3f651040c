//! Access to the page: who may read it.
//!
//! | request | answer |
//! |---|---|
//! | a `Host` other than `127.0.0.1:PORT` and `localhost:PORT`, or several | 403: another name that resolves to this machine |
//! | an `Origin` other than that of the page | 403: another web page |
//! | `/?token=TOKEN` | the page, and the token as a cookie |
//! | the cookie | what it asks for |
//! | anything else | 401 |
//!
//! The cookie is `HttpOnly`, so that no script reads it, and `SameSite=Strict`, so that the browser sends it only for this
//! page. Its name contains the port, because browsers share the cookies of all ports of a host. The library checks
//! requests to `/rpc` again, with its own [`AccessPolicy`](duet_rpc::transport::AccessPolicy).

use std::io;

use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::{StatusCode, Uri};

use crate::sys::files;

/// The token of one run of the server.
#[derive(Clone)]
pub(super) struct PageAccess {
    token: String,
    port: u16,
}

/// A request that may be answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Granted {
    /// The token came in the URL: the answer sets the cookie.
    pub(super) sets_cookie: bool,
}

/// A request that is refused: the status and the reason.
pub(super) type Refused = (StatusCode, &'static str);

const WRONG_HOST: Refused = (StatusCode::FORBIDDEN, "The Host header names another server.");
const WRONG_ORIGIN: Refused =
    (StatusCode::FORBIDDEN, "Web pages of other servers may not use this one.");
const NO_TOKEN: Refused = (
    StatusCode::UNAUTHORIZED,
    "Open the address that duet-rpc watch has printed. It contains a token, which this request lacks.",
);

impl PageAccess {
    /// Makes a token of 128 random bits.
    pub(super) fn new(port: u16) -> io::Result<Self> {
        let mut bytes = [0; 16];
        files::fill_random(&mut bytes)?;
        let token = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(PageAccess { token, port })
    }

    /// The address for a person to open.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token)
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Checks a request.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<Granted, Refused> {
        let host = single(headers, &HOST).ok_or(WRONG_HOST)?;
        let names = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        if !names.iter().any(|name| name == host) {
            return Err(WRONG_HOST);
        }
        // A target that is a URL names a server, too.
        if uri.authority().is_some_and(|it| it.as_str() != host) {
            return Err(WRONG_HOST);
        }
        if headers.contains_key(ORIGIN) {
            let origin = single(headers, &ORIGIN).and_then(|it| it.strip_prefix("http://"));
            if origin != Some(host) {
                return Err(WRONG_ORIGIN);
            }
        }
        if uri.path() == "/" && self.is_in_query(uri) {
            return Ok(Granted { sets_cookie: true });
        }
        let bearer = single(headers, &AUTHORIZATION).and_then(|it| it.strip_prefix("Bearer "));
        let is_shown = self.is_in_cookie(headers) || bearer.is_some_and(|it| self.is_token(it));
        if is_shown { Ok(Granted { sets_cookie: false }) } else { Err(NO_TOKEN) }
    }

    /// The value of `Set-Cookie`.
    pub(super) fn cookie(&self) -> Option<HeaderValue> {
        let (name, token) = (self.cookie_name(), &self.token);
        let cookie = format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict");
        HeaderValue::try_from(cookie).ok()
    }

    /// The token for the library's own check, for a request that was granted.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        HeaderValue::try_from(format!("Bearer {}", self.token)).ok()
    }

    fn cookie_name(&self) -> String {
        format!("duet_rpc_watch_{}", self.port)
    }

    fn is_in_query(&self, uri: &Uri) -> bool {
        let pairs = uri.query().unwrap_or_default().split('&');
        pairs.filter_map(|pair| pair.strip_prefix("token=")).any(|it| self.is_token(it))
    }

    fn is_in_cookie(&self, headers: &HeaderMap) -> bool {
        let name = self.cookie_name();
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs =
            lines.flat_map(|line| line.split(';')).filter_map(|it| it.trim().split_once('='));
        pairs.filter(|(key, _)| *key == name).any(|(_, value)| self.is_token(value))
    }

    /// Compares in a time that depends only on the lengths.
    fn is_token(&self, shown: &str) -> bool {
        let differs = |(a, b): (u8, u8)| a ^ b;
        let pairs = shown.bytes().zip(self.token.bytes());
        shown.len() == self.token.len() && pairs.map(differs).fold(0, |all, it| all | it) == 0
    }
}

/// The value of a header that occurs exactly once.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Verdict = Result<Granted, StatusCode>;
    type Headers<'a> = &'a [(&'a str, &'a str)];

    const PAGE: Verdict = Ok(Granted { sets_cookie: false });
    const FIRST: Verdict = Ok(Granted { sets_cookie: true });
    const FORBIDDEN: Verdict = Err(StatusCode::FORBIDDEN);
    const UNAUTHORIZED: Verdict = Err(StatusCode::UNAUTHORIZED);

    #[test]
    fn t3_only_the_own_page_with_its_token_is_served() {
        let host = ("host", "127.0.0.1:4000");
        let cookie = ("cookie", "a=b; duet_rpc_watch_4000=k3q");
        let rows: &[(&str, Headers<'_>, Verdict)] = &[
            ("/?token=k3q", &[host], FIRST),
            ("/?x=1&token=k3q", &[("host", "localhost:4000")], FIRST),
            ("/", &[host, cookie], PAGE),
            ("/main.js", &[host, cookie], PAGE),
            ("/rpc", &[host, cookie, ("origin", "http://127.0.0.1:4000")], PAGE),
            ("/rpc", &[host, ("authorization", "Bearer k3q")], PAGE),
            // No token, a wrong one, or one in a place where it does not count.
            ("/", &[host], UNAUTHORIZED),
            ("/?token=", &[host], UNAUTHORIZED),
            ("/?token=k3", &[host], UNAUTHORIZED),
            ("/?token=k3qq", &[host], UNAUTHORIZED),
            ("/rpc?token=k3q", &[host], UNAUTHORIZED),
            ("/", &[host, ("cookie", "duet_rpc_watch_4001=k3q")], UNAUTHORIZED),
            ("/", &[host, ("cookie", "duet_rpc_watch_4000=other")], UNAUTHORIZED),
            ("/", &[host, ("authorization", "k3q")], UNAUTHORIZED),
            // Another name of this machine (DNS rebinding), another port, none, two.
            ("/?token=k3q", &[("host", "evil.example:4000")], FORBIDDEN),
            ("/", &[("host", "evil.example:4000"), cookie], FORBIDDEN),
            ("/?token=k3q", &[("host", "127.0.0.1:4001")], FORBIDDEN),
            ("/?token=k3q", &[("host", "127.0.0.1")], FORBIDDEN),
            ("/?token=k3q", &[], FORBIDDEN),
            ("/?token=k3q", &[host, ("host", "localhost:4000")], FORBIDDEN),
            ("http://evil.example/?token=k3q", &[host], FORBIDDEN),
            // Another page, even with the token.
            ("/rpc", &[host, cookie, ("origin", "http://evil.example")], FORBIDDEN),
            ("/rpc", &[host, cookie, ("origin", "http://127.0.0.1:4001")], FORBIDDEN),
            ("/rpc", &[host, cookie, ("origin", "http://localhost:4000")], FORBIDDEN),
            ("/rpc", &[host, cookie, ("origin", "https://127.0.0.1:4000")], FORBIDDEN),
            ("/rpc", &[host, cookie, ("origin", "null")], FORBIDDEN),
        ];
        let access = PageAccess { token: "k3q".to_owned(), port: 4000 };
        for (uri, headers, expect) in rows {
            let uri: Uri = uri.parse().expect("a target");
            let mut map = HeaderMap::new();
            for (name, value) in *headers {
                let name: HeaderName = name.parse().expect("a name");
                map.append(name, value.parse().expect("a value"));
            }
            let found = access.check(&uri, &map).map_err(|(status, _)| status);
            assert_eq!(&found, expect, "{uri} {headers:?}");
        }
    }

    #[test]
    fn t3_every_run_has_another_token() {
        let tokens = [0; 2].map(|_| PageAccess::new(1).expect("random bytes").token);
        assert!(tokens[0] != tokens[1] && tokens[0].len() == 32, "{tokens:?}");
    }
}
