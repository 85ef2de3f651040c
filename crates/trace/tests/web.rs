//! Messages in HTTP bodies and WebSocket frames (R0, W8).

use duet_rpc_trace::{Dir, Entry, Options, Reader, Record, Session, Writer};

const UPGRADE: &[u8] =
    b"GET /rpc?token=s3cret HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nAuthorization: Bearer s3cret\r\n\
      Cookie: id=s3cret\r\nSec-WebSocket-Protocol: bearer.s3cret, mcp\r\n\r\n";
const UPGRADED: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSet-Cookie: s3cret\r\n\r\n";

/// A frame with these first bits and an optional mask.
fn frame(first: u8, payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
    let bit = if mask.is_some() { 0x80 } else { 0 };
    let mut out = vec![first, bit | u8::try_from(payload.len()).expect("a short payload")];
    out.extend(mask.into_iter().flatten());
    let key = mask.unwrap_or_default();
    out.extend(payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
    out
}

/// Records chunks. Returns the lines of the file, and the bytes of both streams from it.
fn record(keep: bool, chunks: &[(Dir, Vec<u8>)]) -> (Vec<String>, [Vec<u8>; 2]) {
    let mut writer = Writer::new(Vec::new());
    let sink = |record: &Record<'_>| {
        writer.record(record).expect("memory can be written");
    };
    let mut options = Options::default();
    options.keep_credentials = keep;
    let mut session = Session::new(options, sink);
    for (at, (dir, chunk)) in chunks.iter().enumerate() {
        session.handle_bytes(*dir, at as u64, chunk);
    }
    let _ = session.handle_end(chunks.len() as u64);
    let file = writer.into_inner();
    let mut reader = Reader::new(&file[..]);
    let mut streams = [Vec::new(), Vec::new()];
    while let Some(Entry::Record(record)) = reader.next_entry().expect("memory can be read") {
        let bytes = match record.dir {
            Dir::C2s => &mut streams[0],
            Dir::S2c => &mut streams[1],
            _ => continue,
        };
        let whole = record.write_wire(bytes);
        assert!(whole.is_ok() || !keep, "{record:?}");
    }
    let lines = String::from_utf8(file).expect("a trace is text");
    (lines.lines().map(str::to_owned).collect(), streams)
}

/// The same bytes, byte by byte.
fn single(chunks: &[(Dir, Vec<u8>)]) -> Vec<(Dir, Vec<u8>)> {
    chunks.iter().flat_map(|(dir, chunk)| chunk.iter().map(|&byte| (*dir, vec![byte]))).collect()
}

/// `dir kind method` of each record.
fn summary(lines: &[String]) -> Vec<String> {
    let value = |line: &String| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let line = |it: serde_json::Value| {
        format!(
            "{} {} {}{}",
            text(&it["dir"]),
            text(&it["kind"]),
            text(&it["method"]),
            text(&it["why"])
        )
    };
    lines.iter().map(|it| line(value(it)).trim_end().to_owned()).collect()
}

/// Checks the records of chunks, whole and byte by byte, and that every byte is in the trace.
fn check(chunks: &[(Dir, Vec<u8>)], expected: &[&str]) {
    for chunks in [chunks.to_vec(), single(chunks)] {
        let (lines, streams) = record(true, &chunks);
        let found = summary(&lines);
        assert_eq!(found[..found.len() - 1], *expected, "{lines:#?}");
        assert!(lines.last().is_some_and(|it| it.contains(r#""lossless":true"#)), "{lines:#?}");
        for (dir, stream) in [Dir::C2s, Dir::S2c].into_iter().zip(streams) {
            let passed = chunks.iter().filter(|(it, _)| *it == dir);
            let passed: Vec<u8> = passed.flat_map(|(_, it)| it.iter().copied()).collect();
            assert_eq!(stream.escape_ascii().to_string(), passed.escape_ascii().to_string());
        }
    }
}

fn request(id: u32) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#).into_bytes()
}

fn answer(id: u32) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":1}}"#).into_bytes()
}

#[test]
fn r0_messages_in_websocket_frames_are_records() {
    let mask = Some([1, 0, 255, 42]);
    let chunks = [
        (Dir::C2s, UPGRADE.to_vec()),
        (Dir::S2c, UPGRADED.to_vec()),
        (Dir::C2s, frame(0x81, &request(1), mask)),
        (Dir::S2c, frame(0x81, &answer(1), None)),
        // Three fragments with a ping between them; a binary message; a compressed one.
        (Dir::C2s, frame(0x01, &request(2)[..5], mask)),
        (Dir::C2s, frame(0x89, b"ping", mask)),
        (Dir::C2s, frame(0x00, &request(2)[5..9], Some([9; 4]))),
        (Dir::C2s, frame(0x80, &request(2)[9..], mask)),
        (Dir::S2c, frame(0x8a, b"ping", None)),
        (Dir::S2c, frame(0x82, &answer(2), None)),
        (Dir::S2c, frame(0xc1, b"\xaa\xff", None)),
        (Dir::S2c, frame(0x81, b"hello", None)),
        (Dir::C2s, frame(0x88, &1001_u16.to_be_bytes(), mask)),
    ];
    let expected = [
        "c2s head",
        "s2c head",
        "c2s request m",
        "s2c response m",
        "c2s request m",
        "s2c control pong",
        "s2c response m",
        "s2c broken compressed",
        "s2c broken not JSON",
        "c2s control close 1001",
    ];
    check(&chunks, &expected);
}

#[test]
fn r0_messages_in_http_bodies_are_records() {
    let post = |body: &[u8]| {
        let head = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let ok = |body: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let chunks = [
        (Dir::C2s, post(&request(1))),
        (Dir::S2c, b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()),
        (Dir::S2c, ok(&answer(1))),
        (Dir::C2s, post(br#"{"jsonrpc":"2.0","method":"n"}"#)),
        (Dir::S2c, b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_vec()),
        (Dir::C2s, post(b"{")),
        (Dir::S2c, ok(b"<html>")),
        (Dir::C2s, post(&request(2))),
        (Dir::S2c, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec()),
        (Dir::S2c, b"2\r\n".to_vec()),
    ];
    let expected = [
        "c2s request m",
        "s2c head",
        "s2c response m",
        "c2s notification n",
        "s2c head",
        "c2s broken not JSON",
        "s2c broken not JSON",
        "c2s request m",
        "s2c head",
        "s2c noise",
    ];
    check(&chunks, &expected);
}

/// A server that refuses the upgrade, and a client that goes on with plain requests.
#[test]
fn r0_refused_upgrade_goes_on_as_http() {
    let chunks = [
        (Dir::C2s, UPGRADE.to_vec()),
        (Dir::S2c, b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_vec()),
        (Dir::C2s, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
        (Dir::S2c, b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
    ];
    check(&chunks, &["c2s head", "s2c head", "c2s head", "s2c head"]);
}

/// However the bytes are cut, and wherever the stream ends or breaks.
#[test]
fn w8_no_credential_of_a_head_is_in_the_file() {
    let broken =
        b"GET / HTTP/1.1\r\nno header line\r\nAuthorization: s3cret\r\n\r\nCookie: s3cret\r\n";
    let streams = [UPGRADE.to_vec(), broken.to_vec(), [UPGRADE, UPGRADE].concat()];
    for stream in streams {
        for length in 20..=stream.len() {
            let chunks = [(Dir::C2s, stream[..length].to_vec()), (Dir::S2c, UPGRADED.to_vec())];
            for chunks in [chunks.to_vec(), single(&chunks)] {
                let file = record(false, &chunks).0.join("\n");
                assert!(!file.contains("s3cre"), "{file}");
                assert!(
                    file.contains(r#""redacted":true"#) && file.contains(r#""lossless":false"#)
                );
            }
        }
    }
}
