//! Bad input for every framing, each with its exact answers (F2).

use super::prelude::*;

/// Bad bytes, and the answers to them. The next good frame after them is served.
pub(super) struct Bad {
    pub(super) kind: &'static str,
    pub(super) bytes: Vec<u8>,
    /// True for a text, which still needs a frame.
    pub(super) is_text: bool,
    pub(super) answers: Vec<Due>,
}

impl Bad {
    fn new(kind: &'static str, bytes: impl Into<Vec<u8>>, outcome: Outcome) -> Self {
        Bad { kind, bytes: bytes.into(), is_text: false, answers: vec![Due::refusal(outcome)] }
    }

    fn unreadable(kind: &'static str, bytes: impl Into<Vec<u8>>) -> Self {
        Bad::new(kind, bytes, Outcome::parse_error())
    }

    /// Marks the bytes as a text for a good frame.
    fn in_frame(self) -> Self {
        Bad { is_text: true, ..self }
    }

    /// Sets the id of the answer.
    fn answered_with(mut self, id: String) -> Self {
        self.answers[0].id = id;
        self
    }
}

/// Makes any bad input. `request` is a good request to corrupt, with this id.
pub(super) fn any(random: &mut Random, config: Config, request: &str, id: &str) -> Bad {
    let framing = config.framing;
    // A broken WebSocket frame or HTTP head ends its connection, so `disconnects` covers those.
    let is_web = matches!(config.over, Transport::Ws | Transport::Http);
    match random.below(if is_web { 5 } else { 10 }) {
        0..=2 => {
            let (text, outcome, id) = bad_message(random, config, id);
            Bad::new("invalid requests", text, outcome).in_frame().answered_with(id)
        }
        3 | 4 => {
            let (kind, text) = bad_text(random, request.trim(), framing);
            Bad::unreadable(kind, text).in_frame()
        }
        5 => oversize(random, framing),
        _ => match framing {
            Framing::Lsp => bad_lsp(random, request.trim(), id),
            Framing::Length => bad_length(random, request.trim().as_bytes()),
            _ => bad_lines(random),
        },
    }
}

/// JSON that is not a request, its answer, and the id of the answer.
pub(super) fn bad_message(
    random: &mut Random,
    config: Config,
    id: &str,
) -> (String, Outcome, String) {
    let (invalid, no_id) = (Outcome::invalid(), Outcome::invalid_because("invalid-id-type"));
    let empty_batch = match config.has_batches() {
        true => Outcome::invalid(),
        false => Outcome::invalid_because("batch-not-supported"),
    };
    // `ID` stands for the id. The last column is true if the answer has it.
    let rows = [
        ("7", &invalid, false),
        ("\"text\"", &invalid, false),
        ("null", &invalid, false),
        ("{}", &invalid, false),
        (r#"{"jsonrpc":"2.0","id":ID}"#, &invalid, true),
        (r#"{"id":ID,"method":"version"}"#, &invalid, true),
        (r#"{"jsonrpc":"1.0","id":ID,"method":"version"}"#, &invalid, true),
        (r#"{"jsonrpc":"2.0","id":ID,"method":7}"#, &invalid, true),
        (r#"{"jsonrpc":"2.0","id":ID,"method":"version","params":"b"}"#, &invalid, true),
        (r#"{"jsonrpc":"2.0","method":"version","params":7}"#, &invalid, false),
        (r#"{"jsonrpc":"2.0","id":ID,"method":"version","method":"version"}"#, &invalid, true),
        (r#"{"jsonrpc":"2.0","id":ID,"id":ID,"method":"version"}"#, &invalid, false),
        (r#"{"jsonrpc":"2.0","id":{},"method":"version"}"#, &no_id, false),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"version"}"#, &no_id, false),
        (r#"{"jsonrpc":"2.0","id":true,"method":"version"}"#, &no_id, false),
        ("[]", &empty_batch, false),
    ];
    let (text, outcome, has_id) = *random.pick(&rows);
    let answered = if has_id { id } else { "null" };
    (text.replace("ID", id), outcome.clone(), answered.to_owned())
}

/// A text that is not JSON.
fn bad_text(random: &mut Random, request: &str, framing: Framing) -> (&'static str, Vec<u8>) {
    const NO_JSON: [&[u8]; 11] = [
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
    const NO_UTF8: [&[u8]; 6] =
        [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x82", b"\xf4\x90\x80\x80", b"\x80"];
    let line_end: &[u8] = if framing == Framing::Ndjson { b"\t" } else { b"\n" };
    let with = |params: &[u8]| {
        let begin = br#"{"jsonrpc":"2.0","id":1,"method":"version","params":"#;
        [begin, params, b"}"].concat()
    };
    match random.below(5) {
        0 => {
            // Part of a request, cut between characters.
            let end = 1 + random.below(request.len() - 1);
            let end = (1..=end).rev().find(|&end| request.is_char_boundary(end)).unwrap_or(1);
            ("not JSON", request.as_bytes()[..end].to_vec())
        }
        1 => ("not JSON", random.pick(&NO_JSON).to_vec()),
        2 => ("not UTF-8", with(&[b"[\"", *random.pick(&NO_UTF8), b"\"]"].concat())),
        3 => {
            let control: &[u8] = random.pick::<&[u8]>(&[b"\0", b"\x01", b"\x1f", line_end]);
            ("control characters in strings", with(&[b"[\"", control, b"\"]"].concat()))
        }
        _ => {
            let deep = DEPTH + random.below(3000);
            let closed = if random.once_in(3) { 0 } else { deep };
            let nest = ["[".repeat(deep), "]".repeat(closed)].concat();
            ("nested too deep", with(nest.as_bytes()))
        }
    }
}

/// A message over the size limit. It is refused immediately, even if the rest never comes.
fn oversize(random: &mut Random, framing: Framing) -> Bad {
    let length = MESSAGE_LIMIT + 1 + random.below(2000);
    let part = random.below(length);
    let comes = *random.pick(&[0, part, length]);
    let is_whole = comes == length || framing == Framing::Ndjson;
    let begin = match framing {
        Framing::Lsp if !is_whole && random.once_in(4) => {
            format!("Content-Length: 9{length:030}\r\n\r\n").into_bytes()
        }
        Framing::Lsp => format!("Content-Length: {length}\r\n\r\n").into_bytes(),
        Framing::Length => (length as u32).to_be_bytes().to_vec(),
        _ => Vec::new(),
    };
    let end: &[u8] = if is_whole && framing != Framing::Lsp { b"\n" } else { b"" };
    let body = vec![b'x'; if is_whole { length } else { comes }];
    let kind = if is_whole { "oversize, sent" } else { "oversize, not sent" };
    Bad::new(kind, [&begin, &body, end].concat(), Outcome::invalid_because("oversize"))
}

/// Random bytes, none of which could form a header or end a line.
fn noise(random: &mut Random, more: &[u8]) -> Vec<u8> {
    let letters = [b"abcXYZ 0123{}[]\"'<>/\\\t\xff\xc3\x28\x01\x7f", more].concat();
    let count = random.below(200);
    std::iter::once(b'#').chain((0..count).map(|_| *random.pick(&letters))).collect()
}

/// Lines that are not JSON.
fn bad_lines(random: &mut Random) -> Bad {
    const ENDS: [&[u8]; 4] = [b"\n", b"\r\n", b"\n\n", b"\n \t\r\n"];
    let count = 1 + random.below(4);
    let lines = (0..count).map(|_| [noise(random, b"\0:-"), random.pick(&ENDS).to_vec()].concat());
    let bytes: Vec<u8> = lines.flatten().collect();
    let answers = vec![Due::refusal(Outcome::parse_error()); count];
    Bad { answers, ..Bad::unreadable("stray lines", bytes) }
}

fn bad_length(random: &mut Random, text: &[u8]) -> Bad {
    let with_length = |length: usize| [&(length as u32).to_be_bytes(), text, b"\n"].concat();
    match random.below(6) {
        0 => Bad::unreadable("length 0", b"\0\0\0\0"),
        // Four printable characters are a stray line of text; other bytes are a length (F31).
        1 => Bad::unreadable("stray text", [b"text", &noise(random, b"\n\r:")[..]].concat()),
        2 => {
            let first = *random.pick(b"\x01\x7f\x80\xff");
            let bytes = [&[first, 1, 1, 1][..], &noise(random, b"\n\r:")].concat();
            Bad::new("length of 16 MiB or more", bytes, Outcome::invalid_because("oversize"))
        }
        3 => {
            let mut bytes = with_length(text.len());
            bytes.pop();
            bytes.push(*random.pick(b"x }\r"));
            Bad::unreadable("no newline", bytes)
        }
        4 => {
            let cut = 1 + random.below(text.len().min(40) - 1);
            Bad::unreadable("length too small", with_length(text.len() - cut))
        }
        _ => Bad::unreadable("length too large", with_length(text.len() + 1 + random.below(60))),
    }
}

fn bad_lsp(random: &mut Random, text: &str, id: &str) -> Bad {
    const ENDS: [&[u8]; 5] = [b"", b"\r\n", b"\n", b"\r\n\r\n", b" "];
    const LENGTHS: [&str; 11] =
        ["", " ", "+5", "-5", "abc", "5x", "0x5", "5.0", "5 5", "5,5", "\u{665}"];
    const HEADS: [&str; 6] = [
        "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n",
        "Content-Length: LENGTH\r\nno colon here\r\n",
        "Content-Length: LENGTH\r\nContent-Length: 1LENGTH\r\n",
        "Content-Length: LENGTH\n",
        "Content-Length LENGTH\r\n",
        "\u{e9}: 1\r\nContent Length: LENGTH\r\n",
    ];
    const TYPES: [(&str, &str); 5] = [
        ("text/plain", "unsupported-content-type"),
        ("application/json; charset=utf-8", "unsupported-content-type"),
        ("application/json; charset=latin1", "unsupported-content-type"),
        ("application/vscode-jsonrpc; charset=utf-16", "bad-charset"),
        ("Application/VSCode-JSONRPC;x=1; charset=\"ascii\"", "bad-charset"),
    ];
    let length = text.len();
    let with = |head: &str| format!("{head}\r\n{text}");
    match random.below(8) {
        0 => {
            let bytes = [&noise(random, b"\0")[..], *random.pick(&ENDS)].concat();
            Bad::unreadable("stray bytes", bytes)
        }
        1 => {
            let head = format!("Content-Length: {}\r\n", random.pick(&LENGTHS));
            Bad::unreadable("bad headers", with(&head))
        }
        2 => {
            let head = random.pick(&HEADS).replace("LENGTH", &length.to_string());
            Bad::unreadable("bad headers", with(&head))
        }
        3 => {
            let (name, reason) = *random.pick(&TYPES);
            let head = format!("Content-Type: {name}\r\nContent-Length: {length}\r\n");
            let outcome = Outcome::invalid_because(reason);
            Bad::new("content types", with(&head), outcome).answered_with(id.to_owned())
        }
        4 => {
            let padding = "p".repeat(HEADER_LIMIT / 2);
            let head = format!("X-A: {padding}\r\nx-b: {padding}\r\n");
            let head = match random.once_in(2) {
                true => with(&format!("{head}Content-Length: {length}\r\n")),
                false => format!("{head}\r\n"),
            };
            Bad::new("headers too large", head, Outcome::invalid_because("header-too-large"))
        }
        5 | 6 => {
            let cut = 1 + random.below(length.min(40) - 1);
            let head = format!("Content-Length: {}\r\n", length - cut);
            Bad::unreadable("length too small", with(&head))
        }
        _ => {
            let head = format!("content-length:{}\r\n", length + 1 + random.below(80));
            Bad::unreadable("length too large", with(&head))
        }
    }
}
