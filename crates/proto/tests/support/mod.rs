//! Helpers that feed a decoder, so that tests are rows of data.
//!
//! Events are shown as text: a frame as its JSON, a fault as its answer, such as `!-32600 oversize`
//! or `!-32600 bad-charset id=7`.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part of this")]

pub mod game;
pub mod ledger;
pub mod nearly;
pub mod pair;
pub mod reference;
pub mod side;
pub mod words;

use duet_rpc_proto::Limits;
use duet_rpc_proto::frame::{Decoder, Event, Framing, FramingChoice};
use duet_rpc_proto::message::Reply;

/// A request after other input: it must be served.
pub const TAIL: &str = r#"{"jsonrpc":"2.0","id":"tail","method":"t"}"#;

/// A text in a frame.
pub fn framed(framing: Framing, text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref();
    match framing {
        Framing::Lsp => {
            [format!("Content-Length: {}\r\n\r\n", text.len()).as_bytes(), text].concat()
        }
        Framing::Ndjson => [text, b"\n"].concat(),
        Framing::Length => [&(text.len() as u32).to_be_bytes()[..], text, b"\n"].concat(),
    }
}

/// Feeds the input in every way, alone and with a frame after it. Checks that the events are the
/// same each time, and that the end of the input adds none.
pub fn check(framing: Framing, limits: &Limits, input: &[u8], expect: &[&str]) {
    check_to_the_end(framing.into(), limits, input, expect, &[]);
    let with_tail = [input, &framed(framing, TAIL)].concat();
    let expect_tail = [expect, &[TAIL]].concat();
    check_to_the_end(framing.into(), limits, &with_tail, &expect_tail, &[]);
}

/// Feeds the input whole, byte by byte, and cut in two at every position; then ends it.
pub fn check_to_the_end(
    framing: FramingChoice,
    limits: &Limits,
    input: &[u8],
    expect: &[&str],
    expect_at_end: &[&str],
) {
    let run = |pieces: &[&[u8]]| {
        let mut decoder = Decoder::new(framing, limits);
        let found = feed(&mut decoder, pieces);
        decoder.finish();
        let at_end = drain(&mut decoder);
        let shown = String::from_utf8_lossy(&input[..input.len().min(300)]);
        assert_eq!(found, expect, "{framing:?} {shown:?} in {} pieces", pieces.len());
        assert_eq!(at_end, expect_at_end, "{framing:?} {shown:?} at its end");
    };
    run(&[input]);
    run(&input.chunks(1).collect::<Vec<_>>());
    for cut in 0..input.len().min(2000) {
        run(&[&input[..cut], &input[cut..]]);
    }
}

/// Feeds pieces, and takes the events in between like a driver.
pub fn feed(decoder: &mut Decoder, pieces: &[&[u8]]) -> Vec<String> {
    let mut found = Vec::new();
    for &piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            let count = decoder.feed(rest);
            rest = &rest[count..];
            found.extend(drain(decoder));
        }
    }
    found
}

/// Takes all events.
pub fn drain(decoder: &mut Decoder) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(event) = decoder.next_event() {
        found.push(match event {
            Event::Frame(text) => text.as_str().to_owned(),
            Event::Fault(fault) => short(&Reply::to_fault(&fault)),
        });
    }
    found
}

/// Short form of an error answer.
pub fn short(reply: &Reply) -> String {
    let mut out = Vec::new();
    reply.write(&mut out);
    let answer: serde_json::Value = serde_json::from_slice(&out).expect("answers are JSON");
    let error = &answer["error"];
    let mut short = format!("!{}", error["code"]);
    if let Some(reason) = error["data"]["reason"].as_str() {
        short = format!("{short} {reason}");
    }
    if !answer["id"].is_null() {
        short = format!("{short} id={}", reply.id);
    }
    short
}

/// A generator of reproducible numbers: xorshift.
pub struct Random(pub u64);

impl Random {
    /// The next number below `below`.
    pub fn below(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}
