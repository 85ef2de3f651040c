//! HTTP heads and bodies. They are pure and private to the library, so this crate compiles their
//! files under the same name.

#[path = "../../crates/duet-rpc/src/net/web/mod.rs"]
mod web;

use std::net::{Ipv4Addr, Ipv6Addr};

use web::{AccessPolicy, Body, Flaw, HeadReader, HttpRefusal, HttpRequest, Length, Response};

const HEAD_LIMIT: usize = 1000;
const BODY_LIMIT: usize = 300;
const TOKEN: &str = "sesame";

/// Reads the bytes as a request and as a response, in pieces of this size.
pub fn check(bytes: &[u8], step: usize) {
    let whole = read_head(bytes, usize::MAX);
    assert_eq!(whole, read_head(bytes, step));
    let Ok(Some((head, used))) = whole else { return };
    assert!(bytes[..used].ends_with(&head) && head.ends_with(b"\r\n\r\n"));
    assert!(used <= HEAD_LIMIT);
    let rest = &bytes[used..];
    if let Ok(request) = HttpRequest::read(&head) {
        check_request(&head, &request);
        check_access(&head, &request);
        check_body(request.length.unwrap_or(Length::Fixed(0)), rest, step);
    }
    if let Ok(response) = Response::read(&head) {
        check_body(response.length, rest, step);
    }
}

/// The head, and the number of bytes consumed, including skipped ones; `None` if it is incomplete.
fn read_head(bytes: &[u8], step: usize) -> Result<Option<(Vec<u8>, usize)>, HttpRefusal> {
    let mut reader = HeadReader::new(HEAD_LIMIT);
    let mut before = 0;
    for piece in bytes.chunks(step.min(bytes.len().max(1))) {
        let taken = reader.take(piece);
        if let Some(head) = taken.head? {
            return Ok(Some((head.to_vec(), before + taken.used)));
        }
        before += taken.used;
    }
    Ok(None)
}

/// The header lines, as the simplest reader finds them.
fn lines(head: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(head);
    let lines = text.trim_end_matches("\r\n").split("\r\n").skip(1);
    let lines = lines.map(|line| {
        assert!(!line.contains(['\r', '\n', '\0']), "a line break inside a header line: {line:?}");
        let (name, value) = line.split_once(':').expect("every line has a name");
        assert!(!name.is_empty() && !name.contains([' ', '\t']), "{line:?}");
        (name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned())
    });
    lines.collect()
}

/// Checks that a proxy could not read this head differently.
fn check_request(head: &[u8], request: &HttpRequest<'_>) {
    let lines = lines(head);
    let all = |name: &str| -> Vec<&str> {
        lines.iter().filter(|(other, _)| other == name).map(|(_, value)| &**value).collect()
    };
    let host = all("host");
    assert!(host.len() <= 1 && (!request.is_1_1 || host.len() == 1));
    let length = match (&all("content-length")[..], &all("transfer-encoding")[..]) {
        ([], []) => None,
        ([digits], []) => {
            assert!(!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
            Some(Length::Fixed(digits.parse().unwrap_or(u64::MAX)))
        }
        ([], [encoding]) => {
            assert!(request.is_1_1 && encoding.eq_ignore_ascii_case("chunked"));
            Some(Length::Chunked)
        }
        both => panic!("two lengths, or lengths of two kinds: {both:?}"),
    };
    assert_eq!(request.length, length);
}

/// Checks that an accepted request names this machine, does not come from a foreign page, and
/// carries the token.
fn check_access(head: &[u8], request: &HttpRequest<'_>) {
    let access = AccessPolicy::default().token(TOKEN);
    let lines = lines(head);
    let first = |name: &str| {
        lines.iter().find(|(other, _)| other == name).map(|(_, value)| value.to_ascii_lowercase())
    };
    if access.check_origin(request).is_ok() {
        let host = first("host");
        for name in host.iter().map(String::as_str).chain(request.authority) {
            assert!(is_this_machine(name), "{name:?} was accepted");
        }
        if let Some(origin) = first("origin") {
            assert_eq!(Some(origin), host.map(|host| format!("http://{host}")));
        }
    }
    if access.check_token(request).is_ok() {
        let header = first("authorization");
        let header = header.as_deref().and_then(|value| value.split_once(' '));
        let is_in_header =
            header.map(|(scheme, token)| (scheme, token.trim())) == Some(("bearer", TOKEN));
        let has = |name: &str, text: String| {
            lines.iter().any(|(other, value)| other == name && value.contains(&text))
        };
        let is_offered = has("sec-websocket-protocol", format!("bearer.{TOKEN}"));
        let is_in_cookie =
            has("cookie", format!("duet_rpc_token={TOKEN}")) && first("origin").is_some();
        assert!(
            is_in_header || is_offered || is_in_cookie,
            "a request without the token was let in"
        );
    }
}

fn is_this_machine(name: &str) -> bool {
    if let Some((inside, _)) = name.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return inside.parse::<Ipv6Addr>().is_ok_and(|it| it.to_canonical().is_loopback());
    }
    let (name, _port) = name.split_once(':').unwrap_or((name, ""));
    let is_address = name.parse::<Ipv4Addr>().is_ok_and(|it| it.is_loopback());
    is_address || name.eq_ignore_ascii_case("localhost")
}

/// A body and the number of bytes consumed; `None` if it is incomplete.
type BodyResult = Result<Option<(Vec<u8>, usize)>, Flaw>;

fn check_body(length: Length, bytes: &[u8], step: usize) {
    let whole = read_body(length, bytes, usize::MAX);
    assert_eq!(whole, read_body(length, bytes, step));
    let expect = match length {
        Length::Fixed(count) if count > BODY_LIMIT as u64 => Err(Flaw::TooLarge),
        Length::Fixed(count) => {
            let count = count as usize;
            Ok(bytes.get(..count).map(|body| (body.to_vec(), count)))
        }
        Length::UntilEnd if bytes.len() > BODY_LIMIT => Err(Flaw::TooLarge),
        Length::UntilEnd => Ok(None),
        Length::Chunked => {
            // A whole body equals the chunks that the simplest reader finds.
            if let Ok(Some(found)) = &whole {
                assert_eq!(*found, chunks(bytes), "{}", bytes.escape_ascii());
                assert!(found.0.len() <= BODY_LIMIT);
            }
            return;
        }
    };
    assert_eq!(whole, expect);
}

fn read_body(length: Length, bytes: &[u8], step: usize) -> BodyResult {
    let mut body = Body::new(length, BODY_LIMIT)?;
    let (mut found, mut used) = (Vec::new(), 0);
    for piece in bytes.chunks(step.min(bytes.len().max(1))) {
        if body.is_whole() {
            break;
        }
        used += body.take(piece, &mut found)?;
        assert!(found.len() <= BODY_LIMIT);
    }
    Ok(body.is_whole().then_some((found, used)))
}

/// The content of whole and well-formed chunks, and their end.
fn chunks(bytes: &[u8]) -> (Vec<u8>, usize) {
    let line = |from: usize| {
        let length = bytes[from..].windows(2).position(|two| two == b"\r\n").expect("a line end");
        (std::str::from_utf8(&bytes[from..from + length]).ok(), from + length + 2)
    };
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let end = bytes[at..].iter().position(|byte| !byte.is_ascii_hexdigit()).expect("digits");
        let size = std::str::from_utf8(&bytes[at..at + end]).expect("digits");
        let size = usize::from_str_radix(size, 16).expect("a size");
        at = line(at).1;
        if size == 0 {
            break;
        }
        body.extend_from_slice(&bytes[at..at + size]);
        assert_eq!(bytes[at + size..at + size + 2], *b"\r\n");
        at += size + 2;
    }
    loop {
        let (trailer, next) = line(at);
        at = next;
        if trailer == Some("") {
            return (body, at);
        }
    }
}
