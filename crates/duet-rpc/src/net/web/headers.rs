//! HTTP headers that matter here.

use std::str;

use http::StatusCode;

use super::head::Length;
use super::status::HttpRefusal;

/// What the header lines of a head say, each as far as it matters here.
#[derive(Clone, Copy, Default)]
pub(in crate::net) struct Headers<'a> {
    pub(in crate::net) host: Option<&'a str>,
    pub(in crate::net) origin: Option<&'a str>,
    pub(in crate::net) authorization: Option<&'a str>,
    pub(in crate::net) cookie: Option<&'a str>,
    pub(in crate::net) expect: Option<&'a str>,
    /// A web page asks beforehand whether it may send a request of this method.
    pub(in crate::net) asks_for_method: Option<&'a str>,
    /// `Upgrade` lists `websocket`.
    pub(in crate::net) names_websocket: bool,
    /// `Connection` lists `upgrade`.
    pub(in crate::net) upgrades: bool,
    pub(in crate::net) key: Option<&'a str>,
    pub(in crate::net) version: Option<&'a str>,
    pub(in crate::net) accept: Option<&'a str>,
    pub(in crate::net) extensions: Option<&'a str>,
    pub(in crate::net) protocol: Option<&'a str>,
    closes: bool,
    keeps: bool,
    content_length: Option<&'a str>,
    transfer_encoding: Option<&'a str>,
}

const TWICE: HttpRefusal = HttpRefusal::malformed(
    "The head is malformed: a header that may stand there once stands twice.",
);
const NO_TEXT: HttpRefusal = HttpRefusal::malformed("The head is malformed: a header is no text.");
const LENGTH: HttpRefusal =
    HttpRefusal::malformed("The head is malformed: it does not give one length for the body.");
const ENCODING: HttpRefusal = HttpRefusal::new(
    StatusCode::NOT_IMPLEMENTED,
    "This transfer encoding is not served. Use Content-Length or chunked.",
);

impl<'a> Headers<'a> {
    pub(super) fn read(lines: &[httparse::Header<'a>]) -> Result<Self, HttpRefusal> {
        let mut headers = Headers::default();
        for line in lines {
            let is = |name: &str| line.name.eq_ignore_ascii_case(name);
            let place = match () {
                () if is("Host") => &mut headers.host,
                () if is("Content-Length") => &mut headers.content_length,
                () if is("Transfer-Encoding") => &mut headers.transfer_encoding,
                () if is("Origin") => &mut headers.origin,
                () if is("Authorization") => &mut headers.authorization,
                () if is("Cookie") => &mut headers.cookie,
                () if is("Expect") => &mut headers.expect,
                () if is("Access-Control-Request-Method") => &mut headers.asks_for_method,
                () if is("Sec-WebSocket-Key") => &mut headers.key,
                () if is("Sec-WebSocket-Version") => &mut headers.version,
                () if is("Sec-WebSocket-Accept") => &mut headers.accept,
                () if is("Sec-WebSocket-Extensions") || is("Sec-WebSocket-Protocol") => {
                    // These may stand there more than once; what matters is whether they do.
                    let is_protocol = is("Sec-WebSocket-Protocol");
                    let place =
                        if is_protocol { &mut headers.protocol } else { &mut headers.extensions };
                    *place = Some(text(line)?);
                    continue;
                }
                () if is("Connection") => {
                    for word in text(line)?.split(',').map(str::trim) {
                        headers.closes |= word.eq_ignore_ascii_case("close");
                        headers.keeps |= word.eq_ignore_ascii_case("keep-alive");
                        headers.upgrades |= word.eq_ignore_ascii_case("upgrade");
                    }
                    continue;
                }
                () if is("Upgrade") => {
                    let mut words = text(line)?.split(',').map(str::trim);
                    headers.names_websocket |= words.any(|it| it.eq_ignore_ascii_case("websocket"));
                    continue;
                }
                () => continue,
            };
            if place.replace(text(line)?).is_some() {
                return Err(TWICE);
            }
        }
        Ok(headers)
    }

    pub(super) fn keeps_alive(&self, is_1_1: bool) -> bool {
        !self.closes && (is_1_1 || self.keeps)
    }

    /// The length of the body, if one is given.
    pub(super) fn length(&self, is_1_1: bool) -> Result<Option<Length>, HttpRefusal> {
        match (self.content_length, self.transfer_encoding) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(LENGTH),
            (Some(digits), None) => {
                if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(LENGTH);
                }
                Ok(Some(Length::Fixed(digits.parse().unwrap_or(u64::MAX))))
            }
            // Chunks came with HTTP/1.1; who speaks 1.0 may not know where they end.
            (None, Some(_)) if !is_1_1 => Err(LENGTH),
            (None, Some(encoding)) if encoding.eq_ignore_ascii_case("chunked") => {
                Ok(Some(Length::Chunked))
            }
            (None, Some(_)) => Err(ENCODING),
        }
    }
}

fn text<'a>(line: &httparse::Header<'a>) -> Result<&'a str, HttpRefusal> {
    str::from_utf8(line.value.trim_ascii()).map_err(|_| NO_TEXT)
}
