//! Invariants, for any bytes, however cut: the same events and messages come out; no message is
//! over the limit; a text message is UTF-8; nothing follows the end; and written messages, with
//! control frames in between, are read back.

#![no_main]

use duet_rpc_proto::ws::{Control, ControlKind, Role, WsDecoder, WsEvent, WsFrameWriter};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [how, step, bytes @ ..] = bytes else { return };
    let (role, remote) = match how & 1 {
        0 => (Role::Client, Role::Server),
        _ => (Role::Server, Role::Client),
    };
    let limit = [0, 10, 300, 100_000][usize::from(how >> 1) % 4];
    let step = usize::from(*step) % 40 + 1;

    let (whole, is_inside) = events(role, limit, bytes, usize::MAX);
    assert!(whole.len() <= bytes.len());
    let pieces = events(role, limit, bytes, step);
    assert_eq!((&whole, is_inside), (&pieces.0, pieces.1));
    let ends = whole.iter().position(|(event, _)| is_end(event));
    assert!(ends.is_none_or(|place| place + 1 == whole.len()));

    let mut writer = WsFrameWriter::new(remote, u128::from(*how));
    let mut stream = Vec::new();
    let mut expect = Vec::new();
    for text in bytes.chunks(step * 8) {
        let text = String::from_utf8_lossy(text);
        let text = text.as_bytes();
        let written = writer.write(&mut stream, |out| {
            out.extend_from_slice(text);
            Ok::<_, ()>(())
        });
        assert_eq!(written, Ok(()));
        let control = Control::new(text);
        writer.write_control(&mut stream, ControlKind::Ping, &control);
        expect.push((WsEvent::Message, text.to_vec()));
        expect.push((WsEvent::Ping, control.as_bytes().to_vec()));
    }
    assert_eq!(events(role, 4096, &stream, step), (expect, false));
});

fn is_end(event: &WsEvent) -> bool {
    matches!(event, WsEvent::Close(_) | WsEvent::Failed(_))
}

/// The events, each with its payload, and whether something is unfinished.
fn events(role: Role, limit: usize, bytes: &[u8], step: usize) -> (Vec<(WsEvent, Vec<u8>)>, bool) {
    let mut decoder = WsDecoder::new(role, limit);
    let (mut found, mut message) = (Vec::new(), Vec::new());
    for mut chunk in bytes.chunks(step.min(bytes.len().max(1))) {
        while !chunk.is_empty() {
            let (count, event) = decoder.decode(chunk, &mut message);
            assert!(count > 0 && count <= chunk.len());
            assert!(event.is_some() || count == chunk.len());
            chunk = &chunk[count..];
            assert!(message.len() <= limit);
            if let Some(event) = event {
                let carried = match event {
                    WsEvent::Message => std::mem::take(&mut message),
                    WsEvent::Ping => decoder.ping().as_bytes().to_vec(),
                    _ => Vec::new(),
                };
                found.push((event, carried));
            }
        }
    }
    (found, decoder.is_inside())
}
