//! Heads, bodies, the access policy and handshakes, as rows of data.

use http::StatusCode;

use super::body::{Body, Flaw};
use super::handshake::{check_answer, request_of};
use super::head::{HeadReader, Length, Response};
use super::status::{HttpRefusal, Refused};

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

#[test]
fn t2_both_ends_of_a_handshake_agree() {
    let nonce = *b"the sample nonce";
    let request = request_of("localhost:80", "/rpc", "Authorization: Bearer t0ken\r\n", nonce);
    let request = String::from_utf8(request).expect("text");
    assert!(request.contains(&format!("Sec-WebSocket-Key: {KEY}\r\n")), "{request}");
    let answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
        Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    let check = |answer: &str| check_answer(&Response::read(answer.as_bytes())?, nonce);
    check(answer).expect("it is the right one");

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
