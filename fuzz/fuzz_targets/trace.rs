//! Invariants, for any bytes, however cut: a recorded session gives back every byte of each direction (R0);
//! a reader of a trace file never fails and finds the same lines in a file that grows; redaction keeps JSON
//! valid and leaves no value of a named member.

#![no_main]

use std::io::Read;

use duet_rpc_trace::{Dir, Entry, Options, Reader, Record, Redactions, Session, Writer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [how, step, bytes @ ..] = bytes else { return };
    let step = usize::from(*step) % 60 + 1;
    record(*how, step, bytes);
    read(step, bytes);
    redact(bytes);
});

/// Records the bytes, and puts the streams together from the trace.
fn record(how: u8, step: usize, bytes: &[u8]) {
    let dir = |number: usize| match (how >> (number % 4)) % 4 {
        0 => Dir::S2c,
        1 => Dir::Err,
        _ => Dir::C2s,
    };
    let chunks: Vec<_> = bytes.chunks(step).enumerate().map(|(at, it)| (dir(at), it)).collect();
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
    let _ = session.handle_end(chunks.len() as u64);

    let file = writer.into_inner();
    let (mut reader, mut lines) = (Reader::new(&file[..]), 0);
    let mut streams = Dir::STREAMS.map(|dir| (dir, Vec::new()));
    let mut last = 0;
    while let Some(entry) = reader.next_entry().expect("memory can be read") {
        let Entry::Record(record) = entry else { panic!("not a record: {entry:?}") };
        lines += 1;
        assert_eq!(record.seq, lines);
        assert!(record.of.is_none_or(|of| of < record.seq));
        last = last.max(record.at);
        if let Some((_, stream)) = streams.iter_mut().find(|(dir, _)| *dir == record.dir) {
            record.write_wire(stream).expect("every byte is there");
        }
    }
    assert!(last <= chunks.len() as u64);
    for (dir, stream) in streams {
        let passed = chunks.iter().filter(|(it, _)| *it == dir);
        let passed: Vec<u8> = passed.flat_map(|(_, bytes)| bytes.iter().copied()).collect();
        assert_eq!(stream, passed);
    }
}

/// Reads the bytes as a trace, whole and in pieces.
fn read(step: usize, bytes: &[u8]) {
    let whole = lines(Reader::new(bytes).with_limit(1000));
    let pieces = lines(Reader::new(Pieces(bytes, step)).with_limit(1000));
    assert_eq!(whole, pieces);
    assert!(whole.len() <= bytes.len());
}

/// The first bytes of the rest, in each call.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let (piece, rest) = self.0.split_at(self.1.min(self.0.len()));
        buffer[..piece.len()].copy_from_slice(piece);
        self.0 = rest;
        Ok(piece.len())
    }
}

fn lines(mut reader: Reader<impl Read>) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(entry) = reader.next_entry().expect("memory can be read") {
        found.push(format!("{entry:?}"));
    }
    found
}

fn redact(bytes: &[u8]) {
    let mut rules = Redactions::default();
    rules.add("a").expect("a name");
    rules.add("/b/0").expect("a pointer");
    rules.add_value("s[0-9]+").expect("an expression");
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some(redacted) = rules.apply_json(text) else { return };
    if serde_json::from_str::<serde_json::Value>(text).is_ok() {
        let value: serde_json::Value = serde_json::from_str(&redacted).expect("it stays JSON");
        check_redacted(&value);
    }
}

fn check_redacted(value: &serde_json::Value) {
    match value {
        serde_json::Value::Array(entries) => entries.iter().for_each(check_redacted),
        serde_json::Value::Object(members) => {
            assert!(members.get("a").is_none_or(|it| it == "[redacted]"), "{value}");
            members.values().for_each(check_redacted);
        }
        _ => {}
    }
}
