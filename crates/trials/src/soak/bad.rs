//! Bad input of every framing, each with exactly what must be said to it (F2).

use super::config::{Config, DEPTH, HEADER_LIMIT, MESSAGE_LIMIT, Over};
use super::expect::{Due, Outcome};
use crate::random::Random;
use crate::wire::Framing;

/// Bytes that are bad, and the answers to them. Behind them the next good frame is served.
pub(super) struct Bad {
    pub(super) kind: &'static str,
    pub(super) bytes: Vec<u8>,
    /// Whether they are a text, and still to be put in a frame.
    pub(super) is_text: bool,
    pub(super) answers: Vec<Due>,
}

impl Bad {
    fn new(kind: &'static str, bytes: impl Into<Vec<u8>>, outcome: Outcome) -> Self {
        let answers = vec![Due::refusal(outcome)];
        Bad { kind, bytes: bytes.into(), is_text: false, answers }
    }

    /// A text that is bad in a frame that is right.
    fn text(kind: &'static str, text: impl Into<Vec<u8>>, outcome: Outcome) -> Self {
        Bad { is_text: true, ..Bad::new(kind, text, outcome) }
    }
}

/// Anything bad. The request is a good one, to be spoiled; its id stands in it as it is given.
pub(super) fn any(random: &mut Random, config: Config, request: &str, id: &str) -> Bad {
    let framing = config.framing;
    // What breaks the frames of a WebSocket, or the heads of HTTP, ends it, so that is for its end.
    let most = if matches!(config.over, Over::Ws | Over::Http) { 5 } else { 10 };
    match random.below(most) {
        0..=2 => {
            let (text, outcome, id) = bad_message(random, config, id);
            let mut bad = Bad::text("invalid requests", text, outcome);
            bad.answers[0].id = id;
            bad
        }
        3 | 4 => {
            let (kind, text) = bad_text(random, request, framing);
            Bad::text(kind, text, Outcome::parse_error())
        }
        5 => oversize(random, framing),
        _ => match framing {
            Framing::Lsp => bad_lsp(random, request, id),
            Framing::Ndjson => bad_line(random),
            Framing::Length => bad_length(random, request),
        },
    }
}

/// JSON that is no request, what is said to it, and the id that is said with it.
pub(super) fn bad_message(
    random: &mut Random,
    config: Config,
    id: &str,
) -> (String, Outcome, String) {
    let invalid_id = || Outcome::invalid_because("invalid-id-type");
    let null = || "null".to_owned();
    let rows = [
        ("7".to_owned(), Outcome::invalid(), null()),
        ("\"text\"".to_owned(), Outcome::invalid(), null()),
        ("null".to_owned(), Outcome::invalid(), null()),
        ("{}".to_owned(), Outcome::invalid(), null()),
        (format!(r#"{{"jsonrpc":"2.0","id":{id}}}"#), Outcome::invalid(), id.to_owned()),
        (format!(r#"{{"id":{id},"method":"version"}}"#), Outcome::invalid(), id.to_owned()),
        (
            format!(r#"{{"jsonrpc":"1.0","id":{id},"method":"version"}}"#),
            Outcome::invalid(),
            id.to_owned(),
        ),
        (format!(r#"{{"jsonrpc":"2.0","id":{id},"method":7}}"#), Outcome::invalid(), id.to_owned()),
        (
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"version","params":"b"}}"#),
            Outcome::invalid(),
            id.to_owned(),
        ),
        (
            r#"{"jsonrpc":"2.0","method":"version","params":7}"#.to_owned(),
            Outcome::invalid(),
            null(),
        ),
        (
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"version","method":"version"}}"#),
            Outcome::invalid(),
            id.to_owned(),
        ),
        (
            format!(r#"{{"jsonrpc":"2.0","id":{id},"id":{id},"method":"version"}}"#),
            Outcome::invalid(),
            null(),
        ),
        (r#"{"jsonrpc":"2.0","id":{},"method":"version"}"#.to_owned(), invalid_id(), null()),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"version"}"#.to_owned(), invalid_id(), null()),
        (r#"{"jsonrpc":"2.0","id":true,"method":"version"}"#.to_owned(), invalid_id(), null()),
        ("[]".to_owned(), empty_batch(config), null()),
    ];
    let (text, outcome, id) = random.pick(&rows);
    (text.clone(), outcome.clone(), id.clone())
}

fn empty_batch(config: Config) -> Outcome {
    match config.has_batches() {
        true => Outcome::invalid(),
        false => Outcome::invalid_because("batch-not-supported"),
    }
}

/// What is no JSON, in a frame that is right.
fn bad_text(random: &mut Random, request: &str, framing: Framing) -> (&'static str, Vec<u8>) {
    let with = |at: &[u8]| {
        [br#"{"jsonrpc":"2.0","id":1,"method":"version","params":[""#, at, br#""]}"#].concat()
    };
    let line_ends: &[u8] = if framing == Framing::Ndjson { b"\t" } else { b"\n" };
    match random.below(5) {
        0 => {
            let end = 1 + random.below(request.trim().len() - 1);
            // A piece of a request is no JSON. It is cut between characters.
            let end = (0..=end).rev().find(|&end| request.trim().is_char_boundary(end));
            let text = &request.trim()[..end.unwrap_or(1)];
            ("no JSON", if text.is_empty() { b"{".to_vec() } else { text.as_bytes().to_vec() })
        }
        1 => {
            let texts: [&[u8]; 11] = [
                b"}",
                b"{}}",
                b"{'a':1}",
                b"{\"a\":1,}",
                b"[01]",
                b"[NaN]",
                b"[1,]",
                b"[1 2]",
                b"{\"a\" 1}",
                b"[\"\\x\"]",
                b"\xef\xbb\xbf{}",
            ];
            ("no JSON", random.pick(&texts).to_vec())
        }
        2 => {
            let bytes: [&[u8]; 6] =
                [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x82", b"\xf4\x90\x80\x80", b"\x80"];
            ("no UTF-8", with(random.pick::<&[u8]>(&bytes)))
        }
        3 => {
            let bytes: [&[u8]; 4] = [b"\0", b"\x01", b"\x1f", line_ends];
            ("control characters in strings", with(random.pick::<&[u8]>(&bytes)))
        }
        _ => {
            let deep = DEPTH + random.below(3000);
            let closed = if random.once_in(3) { 0 } else { deep };
            let nest = format!("{}{}", "[".repeat(deep), "]".repeat(closed));
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"version","params":{nest}}}"#);
            ("nested too deep", text.into_bytes())
        }
    }
}

/// More than a message may have. It is refused at once, whether the rest comes or not.
fn oversize(random: &mut Random, framing: Framing) -> Bad {
    let outcome = Outcome::invalid_because("oversize");
    let length = MESSAGE_LIMIT + 1 + random.below(2000);
    let comes = match random.below(3) {
        0 => 0,
        1 => random.below(length),
        _ => length,
    };
    let is_whole = comes == length;
    let kind = if is_whole { "oversize, sent" } else { "oversize, not sent" };
    let mut bytes = match framing {
        Framing::Lsp if !is_whole && random.once_in(4) => {
            format!("Content-Length: 9{length:030}\r\n\r\n").into_bytes()
        }
        Framing::Lsp => format!("Content-Length: {length}\r\n\r\n").into_bytes(),
        Framing::Length => (length as u32).to_be_bytes().to_vec(),
        Framing::Ndjson => {
            let line = [vec![b'x'; length], b"\n".to_vec()].concat();
            return Bad::new("oversize, sent", line, outcome);
        }
    };
    bytes.extend(std::iter::repeat_n(b'x', comes));
    if framing == Framing::Length && is_whole {
        bytes.push(b'\n');
    }
    Bad::new(kind, bytes, outcome)
}

/// Letters and worse, but nothing that could be a header or the end of a line.
fn noise(random: &mut Random, more: &[u8]) -> Vec<u8> {
    const LETTERS: &[u8] = b"abcXYZ 0123{}[]\"'<>/\\\t\xff\xc3\x28\x01\x7f";
    let letters = [LETTERS, more].concat();
    let count = random.below(200);
    let mut noise = vec![b'#'];
    noise.extend((0..count).map(|_| *random.pick(&letters)));
    noise
}

/// A line that is no JSON.
fn bad_line(random: &mut Random) -> Bad {
    let count = 1 + random.below(4);
    let mut bytes = Vec::new();
    for _ in 0..count {
        bytes.extend(noise(random, b"\0:-"));
        bytes.extend_from_slice(random.pick::<&[u8]>(&[
            &b"\n"[..],
            b"\r\n",
            b"\n\n",
            b"\n \t\r\n",
        ]));
    }
    let answers = vec![Due::refusal(Outcome::parse_error()); count];
    Bad { kind: "stray lines", bytes, is_text: false, answers }
}

fn bad_length(random: &mut Random, request: &str) -> Bad {
    let (text, parse_error) = (request.trim().as_bytes(), Outcome::parse_error);
    let with_length = |length: usize| [&(length as u32).to_be_bytes(), text, &b"\n"[..]].concat();
    match random.below(6) {
        0 => Bad::new("length 0", b"\0\0\0\0", parse_error()),
        // Four printable characters are a stray line of text, other bytes a length (F31).
        1 => {
            let bytes = [&b"text"[..], &noise(random, b"\n\r:")].concat();
            Bad::new("stray text", bytes, parse_error())
        }
        2 => {
            let first = *random.pick(b"\x01\x7f\x80\xff");
            let bytes = [&[first, 1, 1, 1][..], &noise(random, b"\n\r:")].concat();
            Bad::new("length of 16 MiB or more", bytes, Outcome::invalid_because("oversize"))
        }
        3 => {
            let mut bytes = with_length(text.len());
            if let Some(last) = bytes.last_mut() {
                *last = *random.pick(b"x }\r");
            }
            Bad::new("no newline", bytes, parse_error())
        }
        4 => {
            let cut = 1 + random.below(text.len().min(40) - 1);
            Bad::new("length too small", with_length(text.len() - cut), parse_error())
        }
        _ => {
            let bytes = with_length(text.len() + 1 + random.below(60));
            Bad::new("length too large", bytes, parse_error())
        }
    }
}

fn bad_lsp(random: &mut Random, request: &str, id: &str) -> Bad {
    let text = request.trim();
    let length = text.len();
    let with = |head: String| [head.as_bytes(), b"\r\n", text.as_bytes()].concat();
    let parse_error = Outcome::parse_error;
    match random.below(8) {
        0 => {
            let mut bytes = noise(random, b"\0");
            bytes.extend_from_slice(random.pick::<&[u8]>(&[
                &b""[..],
                b"\r\n",
                b"\n",
                b"\r\n\r\n",
                b" ",
            ]));
            Bad::new("stray bytes", bytes, parse_error())
        }
        1 => {
            let values = ["", " ", "+5", "-5", "abc", "5x", "0x5", "5.0", "5 5", "5,5", "\u{665}"];
            let head = format!("Content-Length: {}\r\n", random.pick(&values));
            Bad::new("bad headers", with(head), parse_error())
        }
        2 => {
            let heads = [
                "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n".to_owned(),
                format!("Content-Length: {length}\r\nno colon here\r\n"),
                format!("Content-Length: {length}\r\nContent-Length: {}\r\n", length + 1),
                format!("Content-Length: {length}\n"),
                format!("Content-Length {length}\r\n"),
                format!("\u{e9}: 1\r\nContent Length: {length}\r\n"),
            ];
            Bad::new("bad headers", with(random.pick(&heads).clone()), parse_error())
        }
        3 => {
            let types = [
                ("text/plain", "unsupported-content-type"),
                ("application/json; charset=utf-8", "unsupported-content-type"),
                ("application/json; charset=latin1", "unsupported-content-type"),
                ("application/vscode-jsonrpc; charset=utf-16", "bad-charset"),
                ("Application/VSCode-JSONRPC;x=1; charset=\"ascii\"", "bad-charset"),
            ];
            let (name, reason) = *random.pick(&types);
            let head = format!("Content-Type: {name}\r\nContent-Length: {length}\r\n");
            let mut bad = Bad::new("content types", with(head), Outcome::invalid_because(reason));
            bad.answers[0].id = id.to_owned();
            bad
        }
        4 => {
            let padding = "p".repeat(HEADER_LIMIT / 2);
            let head = format!("X-A: {padding}\r\nx-b: {padding}\r\n");
            let head = match random.once_in(2) {
                true => with(format!("{head}Content-Length: {length}\r\n")),
                false => format!("{head}\r\n").into_bytes(),
            };
            Bad::new("headers too large", head, Outcome::invalid_because("header-too-large"))
        }
        5 | 6 => {
            let cut = 1 + random.below(length.min(40) - 1);
            let bytes = with(format!("Content-Length: {}\r\n", length - cut));
            Bad::new("length too small", bytes, parse_error())
        }
        _ => {
            let more = 1 + random.below(80);
            let bytes = with(format!("content-length:{}\r\n", length + more));
            Bad::new("length too large", bytes, parse_error())
        }
    }
}
