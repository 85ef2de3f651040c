//! W8: a secret that a rule names is not in the file, wherever it passes and however it is cut by reads and losses.

use duet_rpc_proto::frame::Framing;
use duet_rpc_trace::{Dir, Entry, Options, Reader, Record, Session, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

/// The rule `sk-[0-9]{8}` finds it.
const SECRET: &str = "sk-12345678";

/// Parts of it that tell too much.
const FRAGMENTS: [&str; 3] = ["sk-1234", "345678", "sk-12345678"];

/// Pieces with the secret, and pieces between them.
const PIECES: [&str; 32] = [
    "Content-Length: 33\r\n\r\n{\"id\":1,\"method\":\"m\",\"p\":\"$\"}   ",
    "Content-Length: 24\r\n\r\n{\"$\":1,\"params\":[\"$\"]}  ",
    "X-Token: $\r\nContent-Length: 2\r\n\r\n{}",
    "Content-Length: 2\r\nX-Token: $\r\n\r\n{}",
    "Content-Length: 99\r\n\r\n{\"a\":\"$\"",
    "Content-Length: 13\r\n\r\n\"$\"",
    "Content-Length: 5\r\n\r\n$",
    "Content-Length: $\r\n\r\n",
    "Content-$\r\n",
    "{\"id\":\"$\",\"method\":\"$\"}\n",
    "{\"id\":\"$\",\"result\":{\"$\":\"$\"}}\r\n",
    "{\"id\":1,\"method\":\"\\u0073k-12345678\",\"params\":{\"a\":\"\\u0073k-12345678\"}}\n",
    "{\"id\":1,\"method\":\"m\",\"params\":\"{\\\"a\\\":\\\"$\\\"}\"}\n",
    "[{\"id\":\"$\",\"method\":\"a\"},{\"id\":1,\"error\":{\"code\":1,\"message\":\"$\"}}]\n",
    "{\"id\":\"$\",\n",
    " {\"a\":\"$\"} \n",
    "\"$\"\n",
    "\0\0\0\x0d\"$\"\n",
    "\0\0\0\x63\"$\"\n",
    "stray $ print\n",
    "stray $",
    "$$\n",
    "\x00$\x00",
    "\n",
    "x",
    "Content-Length: 2\r\n\r\n{}",
    "{\"id\":1,\"result\":0}\n",
    "GET /$?token=$ HTTP/1.1\r\nUpgrade: websocket\r\nX-Other: $\r\nAuthorization: Bearer $\r\n\r\n",
    "HTTP/1.1 101 $\r\nUpgrade: websocket\r\nX-Other: $\r\n\r\n",
    "POST / HTTP/1.1\r\nContent-Length: 24\r\nX-Other: $\r\n\r\n{\"id\":1,\"method\":\"$\"}   ",
    "HTTP/1.1 200 OK\r\ncontent-length:13\r\n\r\n\"$\"",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n\"$\"\r\n0\r\n\r\n",
];

#[derive(Clone)]
enum Happens {
    Bytes(Dir, Vec<u8>),
    Loss(Dir),
}

impl std::fmt::Debug for Happens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Happens::Bytes(dir, bytes) => write!(f, "{} {}", dir.name(), bytes.escape_ascii()),
            Happens::Loss(dir) => write!(f, "{} loss", dir.name()),
        }
    }
}

fn happenings() -> impl Strategy<Value = Vec<Happens>> {
    let piece = (0..PIECES.len()).prop_map(|place| PIECES[place].replace('$', SECRET).into_bytes());
    let dir = prop_oneof![2 => Just(Dir::C2s), 2 => Just(Dir::S2c), 1 => Just(Dir::Err)];
    let frame = prop_oneof![8 => Just(None), 1 => (0..4_usize).prop_map(Some)];
    let happens = (dir, piece, 0..80_usize, prop::bool::weighted(0.1), frame);
    vec(happens, 0..12).prop_map(|all| {
        let make =
            |(dir, piece, cut, is_lost, frame): (Dir, Vec<u8>, usize, bool, Option<usize>)| {
                let piece = frame
                    .filter(|_| piece.len() < 126)
                    .map_or(piece.clone(), |how| websocket(&piece, how));
                let (left, right) = piece.split_at(cut.min(piece.len()));
                let mut made = vec![Happens::Bytes(dir, left.to_vec())];
                made.extend(is_lost.then_some(Happens::Loss(dir)));
                made.push(Happens::Bytes(dir, right.to_vec()));
                made
            };
        all.into_iter().flat_map(make).collect()
    })
}

/// Text frames: whole, masked, in two fragments, with a reserved bit.
fn websocket(body: &[u8], how: usize) -> Vec<u8> {
    let length = body.len() as u8;
    match how {
        0 => [&[0x81, length], body].concat(),
        1 => {
            let key = [7, 0, 9, 1];
            let masked: Vec<u8> = body.iter().zip(key.iter().cycle()).map(|(a, b)| a ^ b).collect();
            [&[0x81, 0x80 | length][..], &key, &masked].concat()
        }
        2 => {
            let (left, right) = body.split_at(body.len() / 2);
            [&[1, left.len() as u8], left, &[0x80, right.len() as u8], right].concat()
        }
        _ => [&[0xc1, length], body].concat(),
    }
}

/// Records with the rule, and returns everything that a reader can find in the file.
fn recorded(framing: Option<Framing>, all: &[Happens]) -> (String, Vec<u8>) {
    let mut options = Options::default();
    options.framing = framing;
    options.redact.add_value("sk-[0-9]{8}").expect("an expression");
    let mut writer = Writer::new(Vec::new());
    let sink = |record: &Record<'_>| {
        writer.record(record).expect("memory can be written");
    };
    let mut session = Session::new(options, sink);
    for (at, happens) in all.iter().enumerate() {
        match happens {
            Happens::Bytes(dir, bytes) => session.handle_bytes(*dir, at as u64, bytes),
            Happens::Loss(dir) => session.handle_loss(*dir, at as u64, 7),
        }
    }
    let _ = session.handle_end(all.len() as u64);
    let file = writer.into_inner();
    let (mut reader, mut bytes) = (Reader::new(&file[..]), Vec::new());
    while let Some(entry) = reader.next_entry().expect("memory can be read") {
        let Entry::Record(record) = entry else { panic!("{entry:?}") };
        for dir in Dir::STREAMS {
            // Records of one direction may continue each other.
            if record.dir == dir && record.write_wire(&mut bytes).is_err() {
                bytes.push(b'|');
            }
        }
        for part in [record.head, record.tail, record.raw].into_iter().flatten() {
            bytes.extend_from_slice(&part.0);
        }
        if let Some(body) = record.body {
            bytes.extend_from_slice(b"|");
            bytes.extend_from_slice(body.as_bytes());
        }
        bytes.push(b'|');
    }
    (String::from_utf8(file).expect("a trace is text"), bytes)
}

fn check(framing: Option<Framing>, all: &[Happens]) {
    let (file, bytes) = recorded(framing, all);
    for fragment in FRAGMENTS {
        let is_there = memchr::memmem::find(&bytes, fragment.as_bytes()).is_some();
        assert!(!file.contains(fragment) && !is_there, "{fragment}\n{all:?}\n{file}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn w8_secret_is_nowhere_in_the_file(all in happenings()) {
        for framing in [None, Some(Framing::Lsp), Some(Framing::Ndjson), Some(Framing::Length)] {
            check(framing, &all);
        }
    }
}

#[test]
fn w8_every_piece_with_a_secret_cut_everywhere_has_none_in_the_file() {
    for piece in PIECES.map(|piece| piece.replace('$', SECRET).into_bytes()) {
        for dir in Dir::STREAMS {
            for cut in 0..piece.len() {
                for framing in
                    [None, Some(Framing::Lsp), Some(Framing::Ndjson), Some(Framing::Length)]
                {
                    let parts = || piece.split_at(cut);
                    let (left, right) = (parts().0.to_vec(), parts().1.to_vec());
                    let (left, right) = (Happens::Bytes(dir, left), Happens::Bytes(dir, right));
                    check(framing, &[left.clone(), right.clone()]);
                    check(framing, &[left, Happens::Loss(dir), right]);
                }
            }
        }
    }
}
