//! Differential tests: our code against the reference rules (`support/reference`), on texts that
//! are nearly messages and streams that are nearly frames (F10 to F32, M1 to M9).

mod support;

use duet_rpc_proto::Limits;
use duet_rpc_proto::frame::{Decoder, Framing};
use support::nearly::{self, pick};
use support::reference::against::{check_stream, check_text};
use support::reference::framing::Sizes;
use support::reference::{Rules, Verdict};
use support::{Random, drain, feed, framed};

const RULES: Rules = Rules { allow_batch: true, depth: 8, batch_entries: 4 };

/// Every member of the envelope: missing, doubled, and with a value of each type that matters.
#[test]
fn m1_m2_m3_m4_m5_m7_m8_every_combination_of_members_agrees_with_the_reference() {
    const CHOICES: [&[&[&str]]; 6] = [
        &[&["\"2.0\""], &[], &[r#""\u0032.0""#], &["\"1.0\""], &["2.0"], &["\"2.0\"", "\"2.0\""]],
        &[
            &["7"],
            &[],
            &["\"7\""],
            &["null"],
            &["true"],
            &["{}"],
            &["[7]"],
            &["7", "7"],
            &["{}", "7"],
        ],
        &[&["\"a\""], &[], &["1"], &["null"], &["\"a\"", "\"a\""]],
        &[&["{}"], &[], &["[]"], &["null"], &["\"a\""], &["0"], &["false"], &["[]", "[]"]],
        &[&[], &["null"], &["1", "1"]],
        &[&[], &[r#"{"code":1,"message":""}"#], &["null"], &["{}", "{}"]],
    ];
    const NAMES: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
    let total: usize = CHOICES.iter().map(|choices| choices.len()).product();
    let mut kinds = [0usize; 5];
    for number in 0..total {
        let mut rest = number;
        let mut members = Vec::new();
        for (name, choices) in NAMES.iter().zip(CHOICES) {
            for value in choices[rest % choices.len()] {
                members.push(format!("\"{name}\":{value}"));
            }
            rest /= choices.len();
        }
        // The order of members has no meaning, so it differs from combination to combination.
        let by = number % members.len().max(1);
        members.rotate_left(by);
        let text = format!("{{{}}}", members.join(","));
        kinds[match check_text(text.as_bytes(), RULES) {
            Verdict::Request { .. } => 0,
            Verdict::Notification { .. } => 1,
            Verdict::Response { .. } => 2,
            Verdict::InvalidResponse => 3,
            _ => 4,
        }] += 1;
    }
    assert!(kinds.iter().all(|&count| count > 10), "{kinds:?}");
}

#[test]
fn m1_m2_m3_m4_m5_m6_m7_m8_m9_texts_that_are_nearly_messages_agree_with_the_reference() {
    let mut random = Random(0xd1ff);
    let mut valid = 0;
    for round in 0..30_000 {
        let text = nearly::text(&mut random);
        let rules = Rules { allow_batch: round % 4 != 0, ..RULES };
        valid += usize::from(!matches!(check_text(&text, rules), Verdict::Error(_)));
    }
    assert!((5_000..20_000).contains(&valid), "{valid} of 30,000 are messages");
}

#[test]
fn m6_m9_the_limits_of_depth_and_of_entries_are_exact() {
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"a","params":P}"#;
    for depth in [1, 2, 3, 127, 128, 129, 1024] {
        for levels in [depth - 1, depth, depth + 1] {
            let nested = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            for text in [nested.clone(), request.replace('P', &nested), format!("[{nested}]")] {
                for allow_batch in [false, true] {
                    let rules = Rules { allow_batch, depth, ..RULES };
                    check_text(text.as_bytes(), rules);
                }
            }
        }
    }
    for entries in 0..=6 {
        for entry in ["1", "[]", r#"{"jsonrpc":"2.0","method":"a"}"#] {
            let text = format!("[{}]", vec![entry; entries].join(" , "));
            check_text(text.as_bytes(), RULES);
        }
    }
}

#[test]
fn f20_f21_lines_agree_with_the_reference() {
    let mut random = Random(0x11e5);
    for _ in 0..6_000 {
        let mut stream = Vec::new();
        for _ in 0..random.below(6) {
            match random.below(8) {
                0 => stream.extend(pieces_of_lines(&mut random)),
                1 => stream.extend(around_the_limit(&mut random)),
                _ => stream.extend(nearly::text(&mut random)),
            }
            stream.extend_from_slice(pick(
                &[&b"\n"[..], b"\r\n", b"\n\n", b" \r\n", b"\r", b""],
                &mut random,
            ));
        }
        check_streams(Framing::Ndjson, &stream, &mut random);
    }
}

#[test]
fn f30_f31_f32_length_prefixed_streams_agree_with_the_reference() {
    let mut random = Random(0x1e57);
    for _ in 0..6_000 {
        let mut stream = Vec::new();
        for _ in 0..random.below(6) {
            let text = match random.below(4) {
                0 => around_the_limit(&mut random),
                _ => nearly::text(&mut random),
            };
            let mut frame = framed(Framing::Length, text);
            match random.below(12) {
                // A wrong length, a byte too many or too few, or bytes that are not a frame.
                0 => frame[3] = frame[3].wrapping_add(random.below(7) as u8).wrapping_sub(3),
                1 => frame[random.below(4)] = random.below(256) as u8,
                2 => drop(frame.pop()),
                3 => frame.truncate(random.below(frame.len())),
                4 => frame.insert(random.below(frame.len()), random.below(3) as u8),
                5 => frame = vec![0; random.below(6)],
                6 => frame = pieces_of_lines(&mut random),
                _ => {}
            }
            stream.extend(frame);
        }
        check_streams(Framing::Length, &stream, &mut random);
    }
}

/// A limit of a hundred bytes: many texts are over it, most are not.
fn check_streams(framing: Framing, stream: &[u8], random: &mut Random) {
    let sizes = Sizes { bytes: pick(&[20, 100, 300], random), depth: 8 };
    let piece = pick(&[usize::MAX, 1, 2, 3, 7, 64], random);
    check_stream(framing, stream, sizes, piece);
}

fn around_the_limit(random: &mut Random) -> Vec<u8> {
    let bytes = pick(&[20, 100, 300], random) - 3 + random.below(6);
    format!("{:<bytes$}", format!("\"{}\"", "x".repeat(bytes - 2 - random.below(3)))).into_bytes()
}

fn pieces_of_lines(random: &mut Random) -> Vec<u8> {
    let pieces: [&[u8]; 12] = [
        b"\0",
        b"\0\0\0\x02{}\n",
        b"\0\0\0\x02",
        b"\0\0\x01\0",
        b"{",
        b"}",
        b"\"",
        b"12",
        b"\t \r",
        b"\xff",
        b"\0\0\0\0",
        b"null",
    ];
    (0..random.below(5)).flat_map(|_| pick(&pieces, random).to_vec()).collect()
}

/// A header section or a whole frame, and the events if it stands before a good frame.
const LSP: [(&str, &[&str]); 36] = [
    // F10: valid spellings of a frame. `<n>` is the length of the `<body>`.
    ("Content-Length: <n>\r\n\r\n<body>", &["<body>"]),
    ("content-LENGTH:<n>\r\n\r\n<body>", &["<body>"]),
    ("Content-Length: \t <n>  \r\n\r\n<body>", &["<body>"]),
    ("Other: x:y\r\nContent-Length: <n>\r\n\r\n<body>", &["<body>"]),
    ("Content-Length: <n>\r\nX-Content-Length: 3\r\n\r\n<body>", &["<body>"]),
    ("Content-Length: <n>\r\nContent-Length: <n>\r\n\r\n<body>", &["<body>"]),
    ("Content-Length: 0000<n>\r\n\r\n<body>", &["<body>"]),
    (" \r\n\t\nContent-Length: <n>\r\n\r\n<body>\n\n", &["<body>"]),
    // F11: the length.
    ("Other: x\r\n\r\n", &["!-32700"]),
    ("Content-Length: \r\n\r\n", &["!-32700"]),
    ("Content-Length: +2\r\n\r\n", &["!-32700"]),
    ("Content-Length: -2\r\n\r\n", &["!-32700"]),
    ("Content-Length: 0x2\r\n\r\n", &["!-32700"]),
    ("Content-Length: 2 2\r\n\r\n", &["!-32700"]),
    ("Content-Length: 3\r\nContent-Length: 4\r\n\r\n", &["!-32700"]),
    ("no colon\r\n\r\n", &["!-32700"]),
    ("Other: x\nContent-Length: <n>\n\n", &["!-32700"]),
    ("a stray line\n", &["!-32700"]),
    ("a stray line\r\n", &["!-32700"]),
    // F12: the content type.
    (
        "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: <n>\r\n\r\n<body>",
        &["<body>"],
    ),
    (
        "Content-Length: <n>\r\ncontent-type: Application/VSCode-JSONRPC;charset=\"UTF8\"\r\n\r\n<body>",
        &["<body>"],
    ),
    ("Content-Type: application/vscode-jsonrpc\r\nContent-Length: <n>\r\n\r\n<body>", &["<body>"]),
    (
        "Content-Type: application/json\r\nContent-Length: <n>\r\n\r\n<body>",
        &["!-32600 unsupported-content-type id=<id>"],
    ),
    (
        "Content-Length: <n>\r\nContent-Type: application/vscode-jsonrpc; charset=latin1\r\n\r\n<body>",
        &["!-32600 bad-charset id=<id>"],
    ),
    (
        "Content-Type: text/plain; charset=latin1\r\nContent-Length: 3\r\n\r\n[1]",
        &["!-32600 unsupported-content-type"],
    ),
    (
        "Content-Type: text/plain\r\nContent-Length: 3\r\n\r\n[1,",
        &["!-32600 unsupported-content-type"],
    ),
    // F13, F14: sizes, with and without the body.
    ("Other: <pad>\r\nContent-Length: <n>\r\n\r\n<body>", &["!-32600 header-too-large"]),
    ("Content-Length: 301\r\n\r\n", &["!-32600 oversize"]),
    ("Content-Length: 301\r\n\r\n\"<pad>\"", &["!-32600 oversize"]),
    ("Content-Length: 301\r\n\r\n[1,2,", &["!-32600 oversize"]),
    ("Content-Length: 99999999999999999999999999\r\n\r\n", &["!-32600 oversize"]),
    // F4, F15, M9: bodies.
    ("Content-Length: 3\r\n\r\n[1,", &["!-32700"]),
    ("Content-Length: 3\r\n\r\n[1,2,3]", &["!-32700"]),
    ("Content-Length: 18\r\n\r\n[[[[[[[[[]]]]]]]]]", &["!-32700"]),
    ("Content-Length: 20\r\n\r\n[1]", &["!-32700"]),
    ("Content-Length: 0\r\n\r\n", &["!-32700"]),
];

#[test]
fn f10_f11_f12_f13_f14_f15_headers_and_their_faults_in_any_order() {
    let limits = Limits::default().with(|it| {
        it.message_bytes = 300;
        it.header_bytes = 150;
        it.depth = 8;
    });
    let mut random = Random(0x15b);
    for round in 0..4_000 {
        let (mut stream, mut expect) = (String::new(), Vec::new());
        for place in 0..1 + random.below(6) {
            let (pattern, comes) = pick(&LSP, &mut random);
            let id = round * 10 + place;
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a"}}"#);
            let filled = |text: &str| {
                text.replace("<n>", &body.len().to_string())
                    .replace("<body>", &body)
                    .replace("<id>", &id.to_string())
                    .replace("<pad>", &"x".repeat(299))
            };
            stream.push_str(&filled(pattern));
            expect.extend(comes.iter().map(|event| filled(event)));
            if comes[0].starts_with('!') {
                let good = format!("[{id}]");
                stream.push_str(&format!("Content-Length: {}\r\n\r\n{good}", good.len()));
                expect.push(good);
            }
        }
        let piece = pick(&[usize::MAX, 1, 2, 3, 7, 64], &mut random);
        let mut decoder = Decoder::new(Framing::Lsp, &limits);
        let pieces: Vec<_> = stream.as_bytes().chunks(piece.min(stream.len())).collect();
        let mut found = feed(&mut decoder, &pieces);
        decoder.finish();
        found.extend(drain(&mut decoder));
        assert_eq!(found, expect, "{stream:?} in pieces of {piece}");
    }
}
