//! Heads, bodies, the access policy and handshakes, as rows of data.

use std::net::IpAddr;

use super::access::AccessPolicy;
use super::body::{Body, Flaw};
use super::handshake::accept;
use super::head::{Expect, HeadReader, HttpRequest, Length, Response};
use super::response::OutgoingResponse;
use super::status::{HttpRefusal, Refused, Status};
use crate::remote::Identity;

const LIMIT: usize = 8 * 1024;

/// All ways to cut bytes that are tried: not at all, in two at each place, and one by one.
fn cuts(bytes: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut ways = vec![vec![bytes], bytes.chunks(1).collect(), bytes.chunks(7).collect()];
    ways.extend((1..bytes.len()).map(|at| {
        let (one, two) = bytes.split_at(at);
        vec![one, two]
    }));
    ways
}

/// The head, and how many bytes it took; `None` if it is not whole.
fn read_head(pieces: &[&[u8]], limit: usize) -> Result<Option<(Vec<u8>, usize)>, HttpRefusal> {
    let mut reader = HeadReader::new(limit);
    let mut before = 0;
    for piece in pieces {
        let taken = reader.take(piece);
        if let Some(head) = taken.head? {
            return Ok(Some((head.to_vec(), before + taken.used)));
        }
        assert_eq!(taken.used, piece.len(), "all of a piece is taken before the end");
        before += taken.used;
    }
    Ok(None)
}

/// What becomes of a request in all ways to cut it: the status of its refusal, or nothing.
fn status_of(bytes: &[u8]) -> Option<u16> {
    let mut outcomes = cuts(bytes).into_iter().map(|pieces| {
        let head = read_head(&pieces, LIMIT).map_err(|refusal| refusal.status.0)?;
        let (head, _) = head.expect("whole");
        HttpRequest::read(&head).map(drop).map_err(|refusal| refusal.status.0)
    });
    let first: Result<(), u16> = outcomes.next().expect("one way at least");
    assert!(outcomes.all(|outcome| outcome == first), "{:?}", String::from_utf8_lossy(bytes));
    first.err()
}

#[test]
fn t2_a_head_is_found_however_it_is_cut() {
    let head = "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n";
    let bytes = format!("\r\n\r\n{head}{{}}");
    for pieces in cuts(bytes.as_bytes()) {
        let (found, used) = read_head(&pieces, LIMIT).expect("good").expect("whole");
        assert_eq!(found, head.as_bytes());
        assert_eq!(used, head.len() + 4);
    }
    for end in 0..head.len() {
        assert_eq!(read_head(&[&head.as_bytes()[..end]], LIMIT), Ok(None), "{end}");
    }
}

#[test]
fn f3_a_head_is_refused_where_it_passes_the_limit() {
    let head = format!("GET / HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "a".repeat(100));
    assert!(read_head(&[head.as_bytes()], head.len()).expect("fits").is_some());
    for pieces in cuts(head.as_bytes()) {
        let refusal = read_head(&pieces, head.len() - 1).expect_err("too long");
        assert_eq!(refusal.status, Status::HEAD_TOO_LARGE);
    }
    // An endless line, endless empty lines, and too many headers.
    let endless = "a".repeat(LIMIT + 1);
    assert_eq!(read_head(&[endless.as_bytes()], LIMIT).unwrap_err().status.0, 431);
    let empty = "\r\n".repeat(LIMIT);
    assert_eq!(read_head(&[empty.as_bytes()], LIMIT).unwrap_err().status.0, 431);
    let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "a:\r\n".repeat(100));
    assert_eq!(HttpRequest::read(many.as_bytes()).err().expect("too many").status.0, 431);
}

#[test]
fn t2_doubtful_heads_are_refused() {
    let rows: [(&str, u16); 34] = [
        // Line ends and lines.
        ("POST / HTTP/1.1\nHost: x\n\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\rA: b\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\n\rA\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\n Host: x\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost x\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nA: \0\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nB\u{e9}: \r\n\r\n", 400),
        // The first line.
        ("\nPOST / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("{\"jsonrpc\":\"2.0\"}\r\n\r\n", 400),
        ("\u{16}\u{3}\u{1}\r\n\r\n", 400),
        ("POST /\r\n\r\n", 400),
        ("POST / a HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("POST / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        ("PRI * HTTP/2.0\r\n\r\n", 505),
        ("POST / SPDY/3\r\nHost: x\r\n\r\n", 400),
        ("POST ftp://x/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        // Host, and others that stand there once.
        ("POST / HTTP/1.1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nOrigin: a\r\nOrigin: a\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nAuthorization: a\r\nauthorization: a\r\n\r\n", 400),
        // The length of the body.
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\n", 400),
        (
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n", 501),
    ];
    for (bytes, status) in rows {
        assert_eq!(status_of(bytes.as_bytes()), Some(status), "{bytes:?}");
    }
}

#[test]
fn t2_what_matters_of_a_request_is_read() {
    let bytes = b"POST /rpc?a=b HTTP/1.1\r\nhOST:  Localhost:80 \r\nORIGIN:http://a\r\n\
        content-length: 007\r\nExpect: 100-Continue\r\nconnection: x, Close\r\nX: \xff\r\n\r\n";
    let request = HttpRequest::read(bytes).expect("good");
    assert_eq!((request.method, request.path, request.is_1_1), ("POST", "/rpc", true));
    assert_eq!(request.headers.host, Some("Localhost:80"));
    assert_eq!(request.headers.origin, Some("http://a"));
    assert_eq!(request.length, Some(Length::Fixed(7)));
    assert_eq!(request.expect(), Some(Expect::Continue));
    assert!(!request.keeps_alive());

    let rows = [
        (
            "POST http://LOCALHOST:1/a?b HTTP/1.1\r\nHost: x\r\n\r\n",
            Some("LOCALHOST:1"),
            "/a",
            true,
        ),
        ("POST HTTP://x HTTP/1.1\r\nHost: x\r\n\r\n", Some("x"), "/", true),
        ("POST http://x?a/b HTTP/1.1\r\nHost: x\r\n\r\n", Some("x"), "/", true),
        ("OPTIONS * HTTP/1.0\r\n\r\n", None, "*", false),
        ("POST / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", None, "/", true),
        ("POST / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", None, "/", false),
    ];
    for (bytes, authority, path, keeps_alive) in rows {
        let request = HttpRequest::read(bytes.as_bytes()).expect("good");
        assert_eq!((request.authority, request.path), (authority, path), "{bytes:?}");
        assert_eq!(request.keeps_alive(), keeps_alive, "{bytes:?}");
        assert_eq!(request.length, None);
    }
    let huge = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n";
    let huge = HttpRequest::read(huge.as_bytes()).expect("well-formed");
    assert_eq!(huge.length, Some(Length::Fixed(u64::MAX)));
    let expect = "POST / HTTP/1.1\r\nHost: x\r\nExpect: tea\r\n\r\n";
    assert_eq!(HttpRequest::read(expect.as_bytes()).expect("good").expect(), Some(Expect::Unknown));
}

#[test]
fn t2_what_matters_of_a_response_is_read() {
    let rows = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", 200, Length::Fixed(3), true),
        ("HTTP/1.1 200\r\nTransfer-Encoding: Chunked\r\n\r\n", 200, Length::Chunked, true),
        ("HTTP/1.1 200 OK\r\n\r\n", 200, Length::UntilEnd, false),
        (
            "HTTP/1.1 202 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            202,
            Length::Fixed(0),
            false,
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n", 204, Length::Fixed(0), true),
        ("HTTP/1.1 100 Continue\r\n\r\n", 100, Length::Fixed(0), true),
        ("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n", 200, Length::Fixed(3), false),
    ];
    for (bytes, status, length, keeps_alive) in rows {
        let response = Response::read(bytes.as_bytes()).expect("good");
        assert_eq!((response.status.0, response.length), (status, length), "{bytes:?}");
        assert_eq!(response.keeps_alive(), keeps_alive, "{bytes:?}");
    }
    let bad = [
        "HTTP/2 200 OK\r\n\r\n",
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    ];
    for bytes in bad {
        assert!(Response::read(bytes.as_bytes()).is_err(), "{bytes:?}");
    }
}

/// The body, and how many bytes it took; `None` if it is not whole.
fn read_body(
    pieces: &[&[u8]],
    length: Length,
    limit: usize,
) -> Result<Option<(Vec<u8>, usize)>, Flaw> {
    let (mut body, mut into, mut used) = (Body::new(length, limit)?, b"kept".to_vec(), 0);
    for piece in pieces {
        if body.is_whole() {
            break;
        }
        used += body.take(piece, &mut into)?;
        assert!(into.len() <= limit + 4);
    }
    assert!(into.starts_with(b"kept"));
    Ok(body.is_whole().then(|| (into.split_off(4), used)))
}

#[test]
fn t2_bodies_come_whole_however_they_are_cut() {
    let rows: [(&str, Length, &str, &str); 7] = [
        ("hello, world", Length::Fixed(5), "hello", ", world"),
        ("5\r\nhello\r\n0\r\n\r\nnext", Length::Chunked, "hello", "next"),
        ("1\r\nh\r\n04\r\nello\r\n000\r\n\r\n", Length::Chunked, "hello", ""),
        ("A;name=\"x;\"\r\n0123456789\r\n0;end\r\n\r\n", Length::Chunked, "0123456789", ""),
        (
            "a \t; x\r\n\r\n\r\n\r\n\r\n\r\n\r\n0\r\n\r\n0",
            Length::Chunked,
            "\r\n\r\n\r\n\r\n\r\n",
            "0",
        ),
        ("1\r\nh\r\n0\r\nA: b\r\nC: d\r\n\r\nx", Length::Chunked, "h", "x"),
        ("0\r\n\r\nx", Length::Chunked, "", "x"),
    ];
    for (bytes, length, expected, behind) in rows {
        for pieces in cuts(bytes.as_bytes()) {
            let (body, used) = read_body(&pieces, length, 10).expect("good").expect("whole");
            assert_eq!(body, expected.as_bytes(), "{bytes:?}");
            assert_eq!(&bytes[used..], behind, "{bytes:?}");
        }
        for end in 0..bytes.len() - behind.len() {
            assert_eq!(read_body(&[&bytes.as_bytes()[..end]], length, 10), Ok(None), "{bytes:?}");
        }
    }
    assert_eq!(read_body(&[], Length::Fixed(0), 10), Ok(Some((Vec::new(), 0))));
    let mut body = Body::new(Length::UntilEnd, 10).expect("good");
    let mut into = Vec::new();
    assert_eq!(body.take(b"0123456789", &mut into), Ok(10));
    assert!(!body.is_whole() && body.may_end());
    assert_eq!(body.take(b"0", &mut into), Err(Flaw::TooLarge));
}

#[test]
fn f3_bodies_over_the_limit_are_refused_before_they_come() {
    assert_eq!(Body::new(Length::Fixed(11), 10).err(), Some(Flaw::TooLarge));
    assert_eq!(Body::new(Length::Fixed(u64::MAX), 10).err(), Some(Flaw::TooLarge));
    let rows = ["b\r\n", "80000000\r\n", "ffffffffffffffff\r\n", "5\r\nhello\r\n6;x\r\n"];
    for bytes in rows {
        for pieces in cuts(bytes.as_bytes()) {
            assert_eq!(read_body(&pieces, Length::Chunked, 10), Err(Flaw::TooLarge), "{bytes:?}");
        }
    }
}

#[test]
fn t2_malformed_chunks_are_refused() {
    let extension = format!("1;{}", "x".repeat(LIMIT));
    let many = "1;xxxxxxxx\r\nh\r\n".repeat(LIMIT / 8);
    let trailer = format!("0\r\nA: {}", "x".repeat(LIMIT));
    let rows = [
        "\r\n",
        "x\r\n",
        "-1\r\n",
        "0x1\r\n",
        " 1\r\n",
        "1\n",
        "1\r1",
        "1\r\nhe",
        "1\r\nh\n",
        "1\r\nh\rx",
        "0\r\nA: b\n",
        "0\r\n\n",
        "0\r\nA\0",
        "1;\0",
        "1;a\n",
        "00000000000000001\r\n",
        "ffffffffffffffff1\r\n",
        &extension,
        &many,
        &trailer,
    ];
    for bytes in rows {
        let mut ways = vec![vec![bytes.as_bytes()], bytes.as_bytes().chunks(1).collect()];
        if bytes.len() < 100 {
            ways = cuts(bytes.as_bytes());
        }
        for pieces in ways {
            let limit = 100 * LIMIT;
            assert_eq!(
                read_body(&pieces, Length::Chunked, limit),
                Err(Flaw::Malformed),
                "{bytes:?}"
            );
        }
    }
}

/// The status of the refusal of a request with these headers, or 0.
fn knock(access: &AccessPolicy, headers: &str) -> u16 {
    let head = format!("POST / HTTP/1.1\r\n{headers}\r\n");
    let passed = HttpRequest::read(head.as_bytes()).and_then(|request| {
        access.check_origin(&request)?;
        access.check_token(&request)
    });
    passed.err().map_or(0, |refusal| refusal.status.0)
}

fn access(bound: &str) -> AccessPolicy {
    AccessPolicy::new(bound.parse::<IpAddr>().expect("an address"))
}

#[test]
fn t3_only_requests_to_this_server_pass() {
    let rows = [
        ("localhost", 0),
        ("LocalHost:8080", 0),
        ("localhost:", 0),
        ("127.0.0.1:8080", 0),
        ("127.8.9.1", 0),
        ("[::1]:8080", 0),
        ("[::1]", 0),
        ("[::ffff:127.0.0.1]", 0),
        ("", 403),
        (":80", 403),
        ("localhost.", 403),
        ("a.localhost", 403),
        ("localhost.evil.example", 403),
        ("evil.example:8080", 403),
        ("127.0.0.1.evil.example", 403),
        ("127.1", 403),
        ("2130706433", 403),
        ("0x7f.0.0.1", 403),
        ("0177.0.0.1", 403),
        ("0.0.0.0", 403),
        ("192.168.0.1", 403),
        ("[::]", 403),
        ("user@localhost", 400),
        ("localhost@evil.example", 400),
        ("localhost/evil", 400),
        ("localhost, evil", 400),
        ("local host", 400),
        ("localhost:80:80", 400),
        ("localhost:http", 400),
        ("localhost:123456", 400),
        ("[::1", 400),
        ("[::1]x", 400),
        ("[localhost]", 400),
        ("::1", 400),
        ("localh\u{f6}st", 400),
    ];
    for bound in ["127.0.0.1", "::1"] {
        for (host, status) in rows {
            assert_eq!(knock(&access(bound), &format!("Host: {host}\r\n")), status, "{host}");
        }
    }
}

#[test]
fn t3_a_target_that_is_a_url_is_checked_like_host() {
    for (url, host, passes) in [
        ("http://localhost/", "localhost", true),
        ("http://evil.example/", "localhost", false),
        ("http://localhost/", "evil.example", false),
        ("http:///", "localhost", false),
    ] {
        let head = format!("POST {url} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let request = HttpRequest::read(head.as_bytes()).expect("good");
        assert_eq!(access("::1").check_origin(&request).is_ok(), passes, "{url} {host}");
    }
    // A client of HTTP/1.0 need not name the server; no browser is one.
    let old = HttpRequest::read(b"POST / HTTP/1.0\r\n\r\n").expect("good");
    assert_eq!(access("::1").check_origin(&old), Ok(()));
    let page = HttpRequest::read(b"POST / HTTP/1.0\r\nOrigin: http://\r\n\r\n").expect("good");
    assert!(access("::1").check_origin(&page).is_err());
}

#[test]
fn t3_beyond_loopback_any_address_and_the_names_that_were_allowed_pass() {
    for bound in ["0.0.0.0", "::", "192.168.0.1", "fd00::1"] {
        let access = access(bound).allow_host("DevBox").allow_host("devbox.example:80");
        for host in
            ["localhost", "127.0.0.1", "10.0.0.1:80", "[fd00::2]", "devbox:8080", "Devbox.Example"]
        {
            assert_eq!(knock(&access, &format!("Host: {host}\r\n")), 0, "{bound} {host}");
        }
        for host in ["evil.example", "devbox.evil.example", "", "devbox."] {
            assert_eq!(knock(&access, &format!("Host: {host}\r\n")), 403, "{bound} {host}");
        }
    }
    let allowed = access("127.0.0.1").allow_host("10.0.0.1").allow_host("fd00::1").allow_host("");
    for (host, status) in [("10.0.0.1", 0), ("[fd00::1]", 0), ("10.0.0.2", 403), ("", 403)] {
        assert_eq!(knock(&allowed, &format!("Host: {host}\r\n")), status, "{host}");
    }
}

#[test]
fn t3_only_pages_of_this_server_and_of_allowed_origins_pass() {
    let access = access("127.0.0.1")
        .allow_origin("https://Editor.example/")
        .allow_origin("vscode-webview://abc")
        .allow_origin("null");
    let rows = [
        ("http://localhost:8080", 0),
        ("HTTP://LOCALHOST:8080", 0),
        ("https://editor.example", 0),
        ("vscode-webview://abc", 0),
        ("https://localhost:8080", 403),
        ("http://localhost", 403),
        ("http://localhost:80801", 403),
        ("http://localhost:3000", 403),
        ("http://127.0.0.1:8080", 403),
        ("http://evil.example", 403),
        ("http://editor.example", 403),
        ("https://editor.example.evil", 403),
        ("https://editor.example:444", 403),
        ("null", 403),
        ("NULL", 403),
        ("", 403),
        ("*", 403),
        ("http://", 403),
    ];
    for (origin, status) in rows {
        let headers = format!("Host: localhost:8080\r\nOrigin: {origin}\r\n");
        assert_eq!(knock(&access, &headers), status, "{origin}");
    }
    assert_eq!(knock(&access, "Host: localhost:8080\r\n"), 0, "no page");
}

#[test]
fn t3_only_requests_with_a_token_pass() {
    let guarded = access("127.0.0.1").token("s3cret");
    let rows = [
        ("Authorization: Bearer s3cret\r\n", 0),
        ("authorization: bearer   s3cret  \r\n", 0),
        ("Authorization: BEARER s3cret\r\n", 0),
        ("", 401),
        ("Authorization:\r\n", 401),
        ("Authorization: Bearer\r\n", 401),
        ("Authorization: Bearer \r\n", 401),
        ("Authorization: Bearer s3cre\r\n", 401),
        ("Authorization: Bearer s3creT\r\n", 401),
        ("Authorization: Bearer s3crets\r\n", 401),
        ("Authorization: Bearer s3cret s3cret\r\n", 401),
        ("Authorization: Basic s3cret\r\n", 401),
        ("Authorization: s3cret\r\n", 401),
        ("X-Authorization: Bearer s3cret\r\n", 401),
    ];
    for (header, status) in rows {
        assert_eq!(knock(&guarded, &format!("Host: localhost\r\n{header}")), status, "{header:?}");
    }
    // The server is checked before the token, so that a page learns nothing of it.
    assert_eq!(knock(&guarded, "Host: evil.example\r\nAuthorization: Bearer x\r\n"), 403);
    let empty = access("127.0.0.1").token("");
    assert_eq!(knock(&empty, "Host: localhost\r\nAuthorization: Bearer \r\n"), 401);
    assert!(!format!("{guarded:?}").contains("s3cret"));
}

#[test]
fn t3_each_token_has_the_name_that_it_was_given() {
    let both = || access("127.0.0.1").named_token("ada", "s3cret").named_token("bob", "0ther");
    let twice = both().named_token("eve", "s3cret").named_token("nobody", "");
    let (ada, bob) = (Ok(Some("ada")), Ok(Some("bob")));
    let rows = [
        (both(), "s3cret", ada),
        (both(), "0ther", bob),
        (both(), "", Err(401)),
        (both(), "ada", Err(401)),
        (twice.clone(), "s3cret", ada),
        (twice, "", Err(401)),
        (both().token("unnamed"), "unnamed", Ok(None)),
        (both().token("unnamed"), "0ther", bob),
        (both().token("first").token("second"), "first", Err(401)),
        (access("127.0.0.1"), "anything", Ok(None)),
    ];
    for (access, token, expected) in rows {
        let head =
            format!("POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
        let request = HttpRequest::read(head.as_bytes()).expect("well-formed");
        let passed = access.check_token(&request).map_err(|refusal| refusal.status.0);
        let name = passed.as_ref().map(|it| it.as_deref().and_then(Identity::token_name));
        assert_eq!(name.map_err(|status| *status), expected, "{access:?} {token}");
    }
}

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

fn upgrade(line: &str, headers: &str) -> Result<String, HttpRefusal> {
    let head = format!("{line}\r\nHost: localhost\r\n{headers}\r\n");
    let request = HttpRequest::read(head.as_bytes())?;
    accept(&request).map(|bytes| String::from_utf8(bytes).expect("text"))
}

#[test]
fn t2_a_websocket_begins_as_its_specification_says() {
    let headers = format!(
        "Upgrade: h2c, WebSocket\r\nConnection: keep-alive, upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Protocol: chat\r\nSec-WebSocket-Protocol: b\r\n\
         Sec-WebSocket-Extensions: permessage-deflate\r\n"
    );
    let answer = upgrade("GET / HTTP/1.1", &headers).expect("taken");
    let expected = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
        Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    assert_eq!(answer, expected);

    let rows = [
        ("POST / HTTP/1.1", headers.clone(), 405),
        ("GET / HTTP/1.0", headers.clone(), 426),
        ("GET / HTTP/1.1", String::new(), 426),
        ("GET / HTTP/1.1", headers.replace("WebSocket\r\n", "x\r\n"), 426),
        ("GET / HTTP/1.1", headers.replace("upgrade", "x"), 426),
        ("GET / HTTP/1.1", headers.replace(": 13", ": 8"), 426),
        ("GET / HTTP/1.1", headers.replace("Sec-WebSocket-Version", "X"), 426),
        ("GET / HTTP/1.1", headers.replace("Sec-WebSocket-Key", "X"), 400),
        ("GET / HTTP/1.1", headers.replace(KEY, "short"), 400),
        ("GET / HTTP/1.1", headers.replace(KEY, "AAAA"), 400),
        ("GET / HTTP/1.1", headers.replace(KEY, &KEY.replace('=', "")), 400),
        ("GET / HTTP/1.1", format!("{headers}Sec-WebSocket-Key: {KEY}\r\n"), 400),
        ("GET / HTTP/1.1", format!("{headers}Content-Length: 1\r\n"), 400),
        ("GET / HTTP/1.1", format!("{headers}Transfer-Encoding: chunked\r\n"), 400),
    ];
    for (line, headers, status) in rows {
        let refusal = upgrade(line, &headers).expect_err("refused");
        assert_eq!(refusal.status.0, status, "{line} {headers}");
        assert_eq!(refusal.header.contains("Upgrade: websocket\r\n"), status == 426);
    }
    let wrong = upgrade("GET / HTTP/1.1", &headers.replace(": 13", ": 8")).expect_err("refused");
    assert!(wrong.header.contains("Sec-WebSocket-Version: 13\r\n"));
}

#[test]
fn e1_responses_are_written_as_they_are_read() {
    let refusal = HttpRefusal::NO_SUCH_PATH.with_header("Allow: POST\r\n");
    let mut reply = OutgoingResponse::to_refusal(&refusal);
    reply.closes = true;
    reply.origin = Some("https://a.example");
    let bytes = reply.write_refusal(&refusal, false);
    let text = String::from_utf8(bytes).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("two parts");
    let expected = "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\n\
        Content-Length: LENGTH\r\nAccess-Control-Allow-Origin: https://a.example\r\n\
        Vary: Origin\r\nAllow: POST\r\nConnection: close";
    assert_eq!(head, expected.replace("LENGTH", &body.len().to_string()));
    assert_eq!(body, format!("{}\n", refusal.why));
    let head_only = String::from_utf8(reply.write_refusal(&refusal, true)).expect("text");
    assert_eq!(head_only, format!("{head}\r\n\r\n"));

    let mut out = Vec::new();
    OutgoingResponse { keeps: true, ..OutgoingResponse::new(Status::NO_CONTENT) }
        .write_head(0, &mut out);
    assert_eq!(out, b"HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n");
}
