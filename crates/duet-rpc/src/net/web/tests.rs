//! Heads, bodies, the access policy and handshakes, as rows of data.

use http::StatusCode;

use super::access::AccessPolicy;
use super::body::{Body, Flaw};
use super::handshake::{accept, check_answer, request_of};
use super::head::{Expect, HeadReader, HttpRequest, Length, Response};
use super::response::OutgoingResponse;
use super::status::{HttpRefusal, Refused, Status};

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
        let head = read_head(&pieces, LIMIT).map_err(|refusal| refusal.status.as_u16())?;
        let (head, _) = head.expect("whole");
        HttpRequest::read(&head).map(drop).map_err(|refusal| refusal.status.as_u16())
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
        assert_eq!(refusal.status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
    // An endless line, endless empty lines, and too many headers.
    let endless = "a".repeat(LIMIT + 1);
    assert_eq!(read_head(&[endless.as_bytes()], LIMIT).unwrap_err().status.as_u16(), 431);
    let empty = "\r\n".repeat(LIMIT);
    assert_eq!(read_head(&[empty.as_bytes()], LIMIT).unwrap_err().status.as_u16(), 431);
    let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "a:\r\n".repeat(100));
    assert_eq!(HttpRequest::read(many.as_bytes()).err().expect("too many").status.as_u16(), 431);
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

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

fn upgrade(line: &str, headers: &str) -> Result<String, HttpRefusal> {
    let head = format!("{line}\r\nHost: localhost\r\n{headers}\r\n");
    let request = HttpRequest::read(head.as_bytes())?;
    accept(&request, None).map(|bytes| String::from_utf8(bytes).expect("text"))
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
        assert_eq!(refusal.status.as_u16(), status, "{line} {headers}");
        assert_eq!(refusal.headers.contains(&("upgrade", "websocket")), status == 426);
    }
    let wrong = upgrade("GET / HTTP/1.1", &headers.replace(": 13", ": 8")).expect_err("refused");
    assert!(wrong.headers.contains(&("sec-websocket-version", "13")));
}

#[test]
fn t2_both_ends_of_a_handshake_agree() {
    let nonce = *b"the sample nonce";
    let request = request_of("localhost:80", "/rpc", "Authorization: Bearer t0ken\r\n", nonce);
    let request = HttpRequest::read(&request).expect("well-formed");
    assert_eq!((request.method, request.path), ("GET", "/rpc"));
    assert_eq!(request.headers.key, Some(KEY));
    assert_eq!(AccessPolicy::default().token("t0ken").check_token(&request), Ok(None));
    let answer = String::from_utf8(accept(&request, None).expect("taken")).expect("text");
    let check = |answer: &str| check_answer(&Response::read(answer.as_bytes())?, nonce);
    check(&answer).expect("it is the right one");

    let wrong = [
        answer.replace("s3pP", "S3pP"),
        answer.replace("Upgrade: websocket", "Upgrade: h2c"),
        answer.replace("Connection: Upgrade", "Connection: close"),
        answer.replace("Sec-WebSocket-Accept", "X"),
        answer.replace("\r\n\r\n", "\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"),
        answer.replace("\r\n\r\n", "\r\nSec-WebSocket-Protocol: chat\r\n\r\n"),
        answer.replace("HTTP/1.1", "HTTP/1.0"),
    ];
    for answer in wrong {
        let error = check(&answer).expect_err("wrong");
        assert_eq!(error.to_string(), "the server does not speak WebSocket", "{answer}");
    }
}

#[test]
fn t2_a_refusal_names_its_status_and_whether_to_try_again() {
    let rows = [
        ("401 Whatever", "the server refused: 401 Unauthorized", false),
        ("403 \u{1b}[31mred", "the server refused: 403 Forbidden", false),
        ("503 Busy", "the server refused: 503 Service Unavailable", true),
        ("200 OK", "the server refused: 200 OK", false),
        ("302 Found", "the server refused: 302 Found", false),
        ("599 x", "the server refused: 599 Server Error", false),
    ];
    for (status, text, is_temporary) in rows {
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        let Ok(response) = Response::read(head.as_bytes()) else {
            assert!(status.contains('\u{1b}'), "only control characters make it malformed");
            continue;
        };
        let error = check_answer(&response, [0; 16]).expect_err("refused");
        assert_eq!(error.to_string(), text);
        let refused = Refused::from_error(&error).expect("it is the cause");
        assert_eq!(refused.is_temporary(), is_temporary, "{status}");
    }
}

#[test]
fn e1_responses_are_written_as_they_are_read() {
    let refusal = HttpRefusal::NO_SUCH_PATH.with_headers(&[("allow", "POST")]);
    let mut reply = OutgoingResponse::to_refusal(&refusal);
    reply.closes = true;
    reply.origin = Some("https://a.example");
    let bytes = reply.write_refusal(&refusal, false);
    let text = String::from_utf8(bytes).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("two parts");
    let expected = "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\n\
        Content-Length: LENGTH\r\nAccess-Control-Allow-Origin: https://a.example\r\n\
        Vary: Origin\r\nallow: POST\r\nConnection: close";
    assert_eq!(head, expected.replace("LENGTH", &body.len().to_string()));
    assert_eq!(body, format!("{}\n", refusal.why));
    let head_only = String::from_utf8(reply.write_refusal(&refusal, true)).expect("text");
    assert_eq!(head_only, format!("{head}\r\n\r\n"));

    let mut out = Vec::new();
    OutgoingResponse { keeps: true, ..OutgoingResponse::new(Status::NO_CONTENT) }
        .write_head(0, &mut out);
    assert_eq!(out, b"HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n");
}
