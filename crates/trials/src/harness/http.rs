//! HTTP from the client's side: a POST and a response.

use super::wire::Parsed;
use crate::harness::prelude::*;

/// A POST with this body.
pub(crate) fn post(host: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n");
    [head.as_bytes(), b"Content-Type: application/json\r\n\r\n", body].concat()
}

/// The head of a request or response without the final empty line, and its length with that line.
pub(crate) fn head(bytes: &[u8]) -> Parsed<&str> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| "a head is not UTF-8")?;
    Ok(Some((head, end + 4)))
}

/// The first response. A response with a status below 200 has no body.
pub(crate) fn next(bytes: &[u8]) -> Parsed<Event> {
    let Some((head, begin)) = head(bytes)? else { return Ok(None) };
    let malformed = |line: &str| format!("a malformed head: {line:?}");
    let (first, lines) = head.split_once("\r\n").unwrap_or((head, ""));
    let status = first.strip_prefix("HTTP/1.1 ").and_then(|it| it.split(' ').next()?.parse().ok());
    let status: u16 = status.ok_or_else(|| malformed(first))?;
    let mut length = 0;
    for line in lines.split("\r\n").filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(": ").ok_or_else(|| malformed(line))?;
        if name.eq_ignore_ascii_case("content-length") && status >= 200 {
            length = value.parse().map_err(|_| malformed(line))?;
        }
    }
    let Some(body) = bytes.get(begin..begin + length) else { return Ok(None) };
    let body = String::from_utf8(body.to_vec()).map_err(|_| "a body is not UTF-8")?;
    Ok(Some((Event::Response(status, body), begin + length)))
}
