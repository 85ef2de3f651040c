//! HTTP/1.1 heads: what follows them, and the credentials in them.

use std::borrow::Cow;

/// The methods with which a request may begin.
const METHODS: [&[u8]; 7] =
    [b"GET ", b"POST ", b"PUT ", b"HEAD ", b"OPTIONS ", b"DELETE ", b"PATCH "];

/// The first bytes of a response.
const VERSION: &[u8] = b"HTTP/1.";

/// Headers whose value is secret.
const SECRET_HEADERS: [&str; 7] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "x-api-key",
    "api-key",
    "sec-websocket-protocol",
];

/// Parameters of a URL whose value is secret.
const SECRET_PARAMETERS: [&str; 7] =
    ["token", "access_token", "api_key", "apikey", "key", "secret", "password"];

const REDACTED: &str = "[redacted]";

/// What follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// A body of this length.
    Body(u64),
    /// WebSocket frames.
    Frames,
    /// A body whose end is marked in another way.
    Other,
}

/// A head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HttpHead {
    pub(crate) follows: Follows,
}

impl HttpHead {
    /// Parses a head, with the empty line at its end. `None` if it is not one.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut lines = text.strip_suffix("\r\n\r\n")?.split("\r\n");
        let first = lines.next()?;
        let status: Option<u16> = match is_response_start(first.as_bytes()) {
            true => Some(first.split(' ').nth(1)?.parse().ok()?),
            false => {
                first.rsplit_once(' ').filter(|(_, version)| version.starts_with("HTTP/1."))?;
                None
            }
        };
        let (mut length, mut is_upgrade, mut is_encoded) = (None, false, false);
        for line in lines {
            let (name, value) = line.split_once(':')?;
            let value = value.trim_matches([' ', '\t']);
            if name.eq_ignore_ascii_case("content-length") {
                let size = value.parse::<u64>().ok()?;
                if length.replace(size).is_some_and(|other| other != size) {
                    return None;
                }
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                is_encoded = true;
            } else if name.eq_ignore_ascii_case("upgrade") {
                is_upgrade |= value.eq_ignore_ascii_case("websocket");
            }
        }
        let follows = match status {
            Some(101) if is_upgrade => Follows::Frames,
            Some(101) => Follows::Other,
            Some(100..=199 | 204 | 304) => Follows::Body(0),
            _ if is_encoded => Follows::Other,
            None if is_upgrade && length.is_none() => Follows::Frames,
            None => Follows::Body(length.unwrap_or(0)),
            Some(_) => length.map_or(Follows::Other, Follows::Body),
        };
        Some(HttpHead { follows })
    }
}

/// The end of a head, if it is not in the first `seen` bytes.
pub(crate) fn find_head_end(bytes: &[u8], seen: usize) -> Option<usize> {
    memchr::memmem::find(&bytes[seen..], b"\r\n\r\n").map(|place| seen + place + 4)
}

pub(crate) fn is_request_start(bytes: &[u8]) -> bool {
    METHODS.iter().any(|method| bytes.starts_with(method))
}

pub(crate) fn is_response_start(bytes: &[u8]) -> bool {
    bytes.starts_with(VERSION)
}

/// Returns `true` if a line is the first of a request or of a response.
pub(crate) fn is_first_line(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r\n");
    line.is_some_and(|line| {
        let version = line.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
        is_response_start(line) || is_request_start(line) && version.starts_with(VERSION)
    })
}

/// Replaces the credentials in lines of a head. `None` if there are none. `in_secret` is true if the bytes
/// before these ended inside of a secret line, and is set for the bytes after them.
pub(crate) fn redact(bytes: &[u8], in_secret: &mut bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut is_changed = false;
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let (text, end) = line.split_at(line.trim_ascii_end().len());
        let was_secret = *in_secret;
        let changed = match was_secret {
            true => Some(Cow::Borrowed(REDACTED.as_bytes())).filter(|_| !text.is_empty()),
            false => redact_line(text).map(|(line, is_secret)| {
                *in_secret = is_secret;
                Cow::Owned(line)
            }),
        };
        is_changed |= changed.is_some();
        out.extend_from_slice(changed.as_deref().unwrap_or(text));
        out.extend_from_slice(end);
        if line.ends_with(b"\n") {
            *in_secret = false;
        }
    }
    is_changed.then_some(out)
}

/// Replaces the credentials of one line. Also returns whether all that follows in this line is secret.
fn redact_line(line: &[u8]) -> Option<(Vec<u8>, bool)> {
    let colon = line.iter().position(|&byte| byte == b':');
    let name = colon.map(|colon| &line[..colon]);
    let is_secret = |name: &[u8]| {
        SECRET_HEADERS.iter().any(|it| name.trim_ascii().eq_ignore_ascii_case(it.as_bytes()))
    };
    if let (Some(colon), Some(true)) = (colon, name.map(is_secret)) {
        let value = line[colon + 1..].trim_ascii();
        let is_protocol = name.is_some_and(|name| name.len() == "sec-websocket-protocol".len());
        let value = match std::str::from_utf8(value) {
            Ok(value) if is_protocol => redact_protocols(value)?,
            _ => REDACTED.to_owned(),
        };
        let line = [&line[..=colon], b" ", value.as_bytes()].concat();
        return Some((line, true));
    }
    let is_target =
        is_request_start(line) || name.is_some_and(|it| it.eq_ignore_ascii_case(b"referer"));
    if !is_target {
        return None;
    }
    let (before, query) = std::str::from_utf8(line).ok()?.split_once('?')?;
    let (query, after) = query.split_at(query.find(' ').unwrap_or(query.len()));
    let mut is_changed = false;
    let parameters: Vec<_> =
        query.split('&').map(|it| redact_parameter(it, &mut is_changed)).collect();
    let line = format!("{before}?{}{after}", parameters.join("&"));
    // The end of a line that is not whole may be the rest of a value.
    is_changed.then(|| (line.into_bytes(), after.is_empty()))
}

fn redact_parameter<'a>(parameter: &'a str, is_changed: &mut bool) -> Cow<'a, str> {
    match parameter.split_once('=') {
        Some((name, _)) if SECRET_PARAMETERS.iter().any(|it| name.eq_ignore_ascii_case(it)) => {
            *is_changed = true;
            Cow::Owned(format!("{name}={REDACTED}"))
        }
        _ => Cow::Borrowed(parameter),
    }
}

/// Replaces `bearer.TOKEN` in a list of subprotocols, and keeps the others. `None` if there is none.
fn redact_protocols(list: &str) -> Option<String> {
    const BEARER: &str = "bearer.";
    let is_token =
        |it: &str| it.get(..BEARER.len()).is_some_and(|it| it.eq_ignore_ascii_case(BEARER));
    let names: Vec<_> = list.split(',').map(str::trim).collect();
    let redacted =
        |it: &&str| if is_token(it) { format!("{BEARER}{REDACTED}") } else { (*it).to_owned() };
    let changed = names.iter().any(|it| is_token(it));
    changed.then(|| names.iter().map(redacted).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_tell_what_follows_them() {
        let rows: [(&str, Option<Follows>); 14] = [
            ("POST / HTTP/1.1\r\nContent-Length: 7\r\n\r\n", Some(Follows::Body(7))),
            (
                "POST / HTTP/1.1\r\ncontent-length:7\r\ncontent-length:7\r\n\r\n",
                Some(Follows::Body(7)),
            ),
            ("POST / HTTP/1.1\r\ncontent-length:7\r\ncontent-length:8\r\n\r\n", None),
            ("POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", None),
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", Some(Follows::Body(0))),
            ("GET / HTTP/1.1\r\nUpgrade: WebSocket\r\n\r\n", Some(Follows::Frames)),
            (
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
                Some(Follows::Frames),
            ),
            ("HTTP/1.1 100 Continue\r\n\r\n", Some(Follows::Body(0))),
            ("HTTP/1.1 204 No Content\r\n\r\n", Some(Follows::Body(0))),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", Some(Follows::Body(2))),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Some(Follows::Other)),
            ("HTTP/1.1 200 OK\r\n\r\n", Some(Follows::Other)),
            ("hello\r\n\r\n", None),
            ("GET / HTTP/1.1\r\nno header\r\n\r\n", None),
        ];
        for (head, expected) in rows {
            assert_eq!(HttpHead::parse(head.as_bytes()).map(|it| it.follows), expected, "{head}");
        }
    }

    #[test]
    fn w8_credentials_in_heads_are_replaced() {
        let rows = [
            (
                "Authorization: Bearer s3\r\nHost: a\r\n",
                Some("Authorization: [redacted]\r\nHost: a\r\n"),
            ),
            ("cookie:a=s3", Some("cookie: [redacted]")),
            (
                "Sec-WebSocket-Protocol: bearer.s3, mcp\r\n",
                Some("Sec-WebSocket-Protocol: bearer.[redacted], mcp\r\n"),
            ),
            ("Sec-WebSocket-Protocol: mcp\r\n", None),
            ("GET /a?token=s3&b=1 HTTP/1.1\r\n", Some("GET /a?token=[redacted]&b=1 HTTP/1.1\r\n")),
            ("GET /a?b=1 HTTP/1.1\r\n", None),
            ("X: Authorization\r\n", None),
            ("{\"token\":1}\n", None),
        ];
        for (head, expected) in rows {
            let redacted = redact(head.as_bytes(), &mut false);
            let redacted = redacted.map(|it| String::from_utf8(it).expect("text"));
            assert_eq!(redacted.as_deref(), expected, "{head}");
        }
    }

    #[test]
    fn w8_credentials_that_are_cut_by_two_parts_are_replaced() {
        for (first, second) in [
            ("Cookie: a=", "s3; b=4\r\nHost: a\r\n"),
            ("GET /?token=s", "3&b=1 HTTP/1.1\r\nHost: a\r\n"),
        ] {
            let mut in_secret = false;
            redact(first.as_bytes(), &mut in_secret).expect("it has a secret");
            let second = redact(second.as_bytes(), &mut in_secret).expect("it has a secret");
            assert_eq!(second, b"[redacted]\r\nHost: a\r\n", "{first}");
        }
    }
}
