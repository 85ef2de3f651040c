//! R0: a trace that is marked lossless gives back every byte that passed, whatever the bytes are and
//! however they are cut.

use duet_rpc_trace::{Dir, Entry, Options, Reader, Record, Session, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

/// Records chunks, reads the trace, and puts the streams together.
fn check(chunks: &[(Dir, Vec<u8>)]) -> Vec<String> {
    let mut writer = Writer::new(Vec::new());
    let sink = |record: &Record<'_>| {
        writer.record(record).expect("memory can be written");
    };
    let mut options = Options::default();
    options.keep_credentials = true;
    let mut session = Session::new(options, sink);
    for (at, (dir, chunk)) in chunks.iter().enumerate() {
        session.handle_bytes(*dir, at as u64, chunk);
    }
    session.handle_eof(Dir::C2s, chunks.len() as u64, None);
    let _ = session.handle_end(chunks.len() as u64);
    let file = writer.into_inner();

    let (mut reader, mut kinds, mut end) = (Reader::new(&file[..]), Vec::new(), None);
    let mut streams = Dir::STREAMS.map(|dir| (dir, Vec::new()));
    while let Some(entry) = reader.next_entry().expect("memory can be read") {
        let Entry::Record(record) = entry else { panic!("{entry:?}") };
        assert_eq!(record.seq, kinds.len() as u64 + 1);
        kinds.push(format!("{} {}", record.dir.name(), record.kind.name()));
        end = record.end.or(end);
        if let Some((_, stream)) = streams.iter_mut().find(|(dir, _)| *dir == record.dir) {
            record.write_wire(stream).expect("every byte is there");
        }
    }
    let end = end.expect("the trace ends");
    assert!(end.lossless);
    for ((dir, stream), total) in streams.into_iter().zip([end.c2s, end.s2c, end.err]) {
        let passed: Vec<_> = chunks.iter().filter(|(it, _)| *it == dir).collect();
        let passed: Vec<u8> = passed.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
        assert_eq!(stream.escape_ascii().to_string(), passed.escape_ascii().to_string());
        assert_eq!(total, passed.len() as u64);
    }
    kinds
}

/// Pieces of which streams are made: frames, their parts, and bytes that break them.
const PIECES: [&[u8]; 40] = [
    b"Content-Length: 2\r\n\r\n{}",
    b"Content-Length: 24\r\n\r\n{\"id\":1,\"method\":\"ping\"}",
    b"content-length:2\r\n\r\n[]",
    b"Content-Length: 2\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n{}",
    b"Content-Type: text/html\r\nContent-Length: 2\r\n\r\n{}",
    b"Content-Length: 99\r\n\r\n{}",
    b"Content-Length: 4\r\n\r\n{\r\n}",
    b"Content-Length: 5\r\n\r\n oops",
    b"Content-Length: 99999999999\r\n\r\n",
    b"Content-Length: x\r\n\r\n",
    b"{\"id\":1,\"result\":null}\n",
    b"{\"id\":1,\"error\":{\"code\":1}}\r\n",
    b"[{\"id\":\"a\",\"method\":\"b\"},{\"id\":1,\"result\":0}]\n",
    b" null \n",
    b"{ \"method\" : \"\\u0061\" }  \r\n",
    b"\0\0\0\x02{}\n",
    b"\0\0\0\x02{}",
    b"\0\0\0\0",
    b"\0\x01\0\0",
    b"stray print\n",
    b"\r\n\r\n",
    b"\n",
    b"\xff\xfe",
    b"{",
    b" ",
    b"\t",
    b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nAuthorization: Bearer s3\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 24\r\n\r\n{\"id\":1,\"method\":\"ping\"}",
    b"HTTP/1.1 200 OK\r\ncontent-length:2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"\x81\x02{}",
    b"\x81\x82abcd\x1a\x1f",
    b"\x01\x01{\x89\x01x\x80\x01}",
    b"\x82\x7e\0\x02{}",
    b"\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xc1\x03abc",
    b"\x88\x02\x03\xe8",
    b"\x88\x80abcd",
];

fn streams() -> impl Strategy<Value = Vec<(Dir, Vec<u8>)>> {
    let piece = prop_oneof![
        8 => (0..PIECES.len()).prop_map(|place| PIECES[place].to_vec()),
        1 => vec(any::<u8>(), 0..40),
        1 => (0..70_000_usize).prop_map(|length| vec![b'x'; length]),
    ];
    let dir = prop_oneof![Just(Dir::C2s), Just(Dir::S2c), Just(Dir::Err)];
    // Each piece is split, so that chunks and pieces do not agree.
    vec((dir, piece, 0..64_usize), 0..24).prop_map(|pieces| {
        let cut = |(dir, piece, cut): (Dir, Vec<u8>, usize)| {
            let (left, right) = piece.split_at(cut.min(piece.len()));
            [(dir, left.to_vec()), (dir, right.to_vec())]
        };
        pieces.into_iter().flat_map(cut).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn r0_lossless_trace_has_every_byte(chunks in streams()) {
        check(&chunks);
    }

    #[test]
    fn r0_lossless_trace_has_every_byte_of_noise(bytes in vec(any::<u8>(), 0..300), size in 1..50_usize) {
        let chunks: Vec<_> = bytes.chunks(size).map(|chunk| (Dir::S2c, chunk.to_vec())).collect();
        check(&chunks);
    }
}

#[test]
fn r0_all_pieces_in_all_pairs_byte_by_byte() {
    for first in PIECES {
        for second in PIECES {
            let bytes = [first, second, b"stray\n", first].concat();
            let whole = check(&[(Dir::C2s, bytes.clone())]);
            let single: Vec<_> = bytes.iter().map(|&byte| (Dir::C2s, vec![byte])).collect();
            let single = check(&single);
            let messages = |kinds: &[String]| {
                let is_message = |kind: &&String| !kind.contains("noise") && !kind.contains("more");
                kinds.iter().filter(is_message).filter(|it| !it.contains("blank")).count()
            };
            assert_eq!(
                messages(&whole),
                messages(&single),
                "{}\n{whole:?}\n{single:?}",
                bytes.escape_ascii()
            );
        }
    }
}
