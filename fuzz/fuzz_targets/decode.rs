//! Invariants, for any bytes, however cut: the same events come out; there are no more events than
//! bytes; memory stays within the limits; the next well-formed frame is served, whatever stands
//! before it and whenever a partial frame times out; and the events of `ndjson` and `length` agree
//! with the reference rules.

#![no_main]

use duet_rpc_fuzz::support::reference::against::check_stream;
use duet_rpc_fuzz::support::reference::framing::Sizes;
use duet_rpc_proto::Limits;
use duet_rpc_proto::frame::{Decoder, Event, Framing, FramingChoice};
use duet_rpc_proto::message::Reply;
use libfuzzer_sys::fuzz_target;

const LARGEST: usize = 300_000;
const SENTINEL: &str = r#"{"sentinel":1}"#;

fuzz_target!(|bytes: &[u8]| {
    let [how, step, bytes @ ..] = bytes else { return };
    let framing = match how % 4 {
        0 => FramingChoice::Fixed(Framing::Lsp),
        1 => FramingChoice::Fixed(Framing::Ndjson),
        2 => FramingChoice::Fixed(Framing::Length),
        _ => FramingChoice::Auto,
    };
    let message_bytes = [100, 5000, LARGEST, 1000][usize::from(how >> 4) % 4];
    let header_bytes = if how & 8 == 0 { 48 } else { 200 };
    let limits = Limits::default().with(|it| {
        it.message_bytes = message_bytes;
        it.header_bytes = header_bytes;
        it.depth = 8;
    });

    let whole = events(framing, &limits, bytes, usize::MAX);
    assert!(whole.len() <= bytes.len());
    let pieces = events(framing, &limits, bytes, usize::from(*step) % 40 + 1);
    assert_eq!(whole, pieces);

    if framing == FramingChoice::Auto {
        check_auto(&limits, bytes, &whole);
    }

    // A connection's memory may be lent, and taken back between reads.
    let lent = events_in_lent_memory(framing, &limits, bytes, usize::from(*step) % 40 + 1);
    assert_eq!(whole, lent);

    let mut decoder = Decoder::new(framing, &limits);
    let found = feed(&mut decoder, bytes, usize::MAX);
    check_sentinel(decoder, found);

    // A timeout (F6) follows some of the pieces.
    let mut decoder = Decoder::new(framing, &limits);
    let mut found = Vec::new();
    let often = usize::from(how >> 6) + 1;
    for (number, piece) in bytes.chunks(usize::from(*step) % 40 + 1).enumerate() {
        found.extend(feed(&mut decoder, piece, usize::MAX));
        if number % often == 0 {
            time_out(&mut decoder, &mut found);
        }
    }
    assert!(found.len() <= bytes.len());
    check_sentinel(decoder, found);

    if let FramingChoice::Fixed(framing @ (Framing::Ndjson | Framing::Length)) = framing {
        let sizes = Sizes { bytes: message_bytes, depth: limits.depth };
        check_stream(framing, bytes, sizes, usize::MAX);
    }
});

/// The first byte that is not white space decides, and the events are those of its framing.
fn check_auto(limits: &Limits, bytes: &[u8], whole: &[String]) {
    let start = bytes.iter().position(|byte| !b" \t\r\n".contains(byte));
    let bytes = &bytes[start.unwrap_or(bytes.len())..];
    let framing = match bytes.first() {
        Some(0) => Framing::Length,
        Some(b'{' | b'[') => Framing::Ndjson,
        _ => Framing::Lsp,
    };
    assert_eq!(whole, events(framing.into(), limits, bytes, usize::MAX));
}

/// Checks that the next well-formed frame is served.
fn check_sentinel(mut decoder: Decoder, mut found: Vec<String>) {
    let sentinel = match decoder.framing() {
        // Nothing has decided yet, so the sentinel decides.
        Some(Framing::Lsp) | None => {
            format!("\r\n\r\nContent-Length: {}\r\n\r\n{SENTINEL}", SENTINEL.len()).into_bytes()
        }
        Some(Framing::Ndjson) => format!("\n{SENTINEL}\n").into_bytes(),
        Some(Framing::Length) => {
            [&[0, 0, 0, SENTINEL.len() as u8], SENTINEL.as_bytes(), b"\n"].concat()
        }
    };
    found.extend(feed(&mut decoder, &sentinel, usize::MAX));
    assert_eq!(found.last().map(String::as_str), Some(SENTINEL), "{found:?}");
}

/// Times out partial frames until none is left.
fn time_out(decoder: &mut Decoder, found: &mut Vec<String>) {
    let at_hand = decoder.at_hand().len();
    // A header may be consumed while its body is still to come.
    for _ in 0..at_hand + 2 {
        let Some(partial) = decoder.partial() else { return };
        assert_eq!(decoder.handle_timeout().map(|dropped| dropped.serial), Some(partial.serial));
        drain(decoder, found);
    }
    panic!("timeouts never end: {:?}", decoder.partial());
}

fn events_in_lent_memory(
    framing: FramingChoice,
    limits: &Limits,
    bytes: &[u8],
    step: usize,
) -> Vec<String> {
    let mut decoder = Decoder::new(framing, limits);
    let (mut found, mut memory) = (Vec::new(), Some(Vec::with_capacity(1000)));
    for (number, piece) in bytes.chunks(step).enumerate() {
        if let Some(lent) = memory.take() {
            memory = decoder.lend(lent);
        }
        found.extend(feed(&mut decoder, piece, usize::MAX));
        match number % 3 {
            0 => memory = decoder.give_back().or(memory),
            1 => decoder.shrink(),
            _ => {}
        }
    }
    decoder.finish();
    drain(&mut decoder, &mut found);
    found
}

fn events(framing: FramingChoice, limits: &Limits, bytes: &[u8], step: usize) -> Vec<String> {
    let mut decoder = Decoder::new(framing, limits);
    let mut found = feed(&mut decoder, bytes, step);
    decoder.finish();
    drain(&mut decoder, &mut found);
    found
}

fn feed(decoder: &mut Decoder, bytes: &[u8], step: usize) -> Vec<String> {
    let mut found = Vec::new();
    for mut chunk in bytes.chunks(step.min(bytes.len().max(1))) {
        while !chunk.is_empty() {
            let count = decoder.feed(chunk);
            chunk = &chunk[count..];
            drain(decoder, &mut found);
            // The limit, a read beyond it, and the room of the first read.
            assert!(decoder.space().capacity() <= LARGEST + 2 * 65536);
        }
    }
    found
}

fn drain(decoder: &mut Decoder, found: &mut Vec<String>) {
    while let Some(event) = decoder.next_event() {
        found.push(match event {
            Event::Frame(text) => text.as_str().to_owned(),
            Event::Fault(fault) => {
                let mut out = Vec::new();
                Reply::to_fault(&fault).write(&mut out);
                String::from_utf8(out).expect("answers are UTF-8")
            }
        });
    }
}
