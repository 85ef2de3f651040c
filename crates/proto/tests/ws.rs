//! WebSocket frames: decoding in every way, and writing.

#[path = "support/cases.rs"]
mod cases;

use std::collections::HashSet;
use std::convert::Infallible;
use std::hash::Hasher;

use allocation_counter::measure;
use cases::{config, pieces};
use duet_rpc_proto::ws::{
    Control, ControlKind, Problem, Role, WsDecoder, WsEvent, WsFrameWriter, close_code,
};
use proptest::prelude::*;

const LIMIT: usize = 300;
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
const ROLES: [Role; 2] = [Role::Client, Role::Server];

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const FIN: u8 = 0x80;

/// A header that announces this length in the shortest form; masked if `mask` is given.
fn header(first: u8, length: u64, mask: Option<[u8; 4]>) -> Vec<u8> {
    let masked = if mask.is_some() { 0x80 } else { 0 };
    let mut header = vec![first];
    match length {
        0..=125 => header.push(masked | length as u8),
        126..=0xffff => {
            header.push(masked | 126);
            header.extend((length as u16).to_be_bytes());
        }
        _ => {
            header.push(masked | 127);
            header.extend(length.to_be_bytes());
        }
    }
    header.extend(mask.into_iter().flatten());
    header
}

/// A frame, built here byte by byte so that the encoder does not test itself.
fn frame(first: u8, payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
    let mut frame = header(first, payload.len() as u64, mask);
    let mask = mask.unwrap_or_default();
    frame.extend(payload.iter().enumerate().map(|(place, byte)| byte ^ mask[place % 4]));
    frame
}

/// A mask for frames that this end receives.
fn mask_for(role: Role) -> Option<[u8; 4]> {
    (role == Role::Server).then_some(MASK)
}

/// Short form of an event and the message that it ends.
fn short(decoder: &WsDecoder, event: WsEvent, message: &mut Vec<u8>) -> String {
    match event {
        WsEvent::Message => {
            let text = message.escape_ascii().to_string();
            message.clear();
            text
        }
        WsEvent::Ping => format!("ping {}", decoder.ping().as_bytes().escape_ascii()),
        WsEvent::Pong => "pong".to_owned(),
        WsEvent::Close(code) => format!("close {code:?}"),
        WsEvent::Failed(Problem::TooLarge(size)) => format!("!1009 {size}"),
        WsEvent::Failed(problem) => {
            if problem == Problem::NotUtf8 {
                // The length of this rest depends on the pieces of the input.
                message.clear();
            }
            format!("!{} {}", problem.code(), problem.reason())
        }
    }
}

/// Feeds pieces. The flag is true inside an unfinished message.
fn decode(role: Role, limit: usize, pieces: &[&[u8]]) -> (Vec<String>, bool) {
    let mut decoder = WsDecoder::new(role, limit);
    let (mut found, mut message) = (Vec::new(), Vec::new());
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let (count, event) = decoder.decode(rest, &mut message);
            assert!(count > 0, "the decoder consumes at least one byte");
            assert!(event.is_some() || count == rest.len(), "bytes are left only after an event");
            rest = &rest[count..];
            found.extend(event.map(|event| short(&decoder, event, &mut message)));
        }
        assert_eq!(decoder.decode(&[], &mut message), (0, None));
    }
    if !message.is_empty() {
        found.push(format!("... {}", message.escape_ascii()));
    }
    (found, decoder.is_inside())
}

/// Feeds the input whole, byte by byte, and cut in two at every position.
fn check(role: Role, input: &[u8], expect: &[&str]) {
    let whole = decode(role, LIMIT, &[input]);
    assert_eq!(whole.0, expect, "{role:?} {}", input.escape_ascii());
    assert_eq!(decode(role, LIMIT, &input.chunks(1).collect::<Vec<_>>()), whole);
    for cut in 0..input.len() {
        assert_eq!(decode(role, LIMIT, &[&input[..cut], &input[cut..]]), whole, "cut at {cut}");
    }
}

/// Checks frames, given as first byte and payload, in both roles.
fn check_frames(frames: &[(u8, &[u8])], expect: &[&str]) {
    for role in ROLES {
        let frames: Vec<_> =
            frames.iter().map(|(first, payload)| frame(*first, payload, mask_for(role))).collect();
        check(role, &frames.concat(), expect);
    }
}

/// Checks that a frame is refused, alone and after others, and that bytes after it are ignored.
fn check_refused(frames: &[(u8, &[u8])], expect: &str) {
    let tail: (u8, &[u8]) = (FIN | TEXT, b"tail");
    check_frames(&[frames, &[tail]].concat(), &[expect]);
    check_frames(
        &[&[(FIN | PING, &b"p"[..]), tail], frames, &[tail]].concat(),
        &["ping p", "tail", expect],
    );
}

#[test]
fn t2_the_examples_of_the_specification_are_read() {
    let rows: [(Role, &[u8], &[&str]); 6] = [
        (Role::Client, b"\x81\x05Hello", &["Hello"]),
        (Role::Server, b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", &["Hello"]),
        (Role::Client, b"\x01\x03Hel\x80\x02lo", &["Hello"]),
        (Role::Client, b"\x89\x05Hello", &["ping Hello"]),
        (Role::Server, b"\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", &["pong"]),
        (Role::Client, b"\x82\x7e\x01\x00", &[]),
    ];
    for (role, input, expect) in rows {
        check(role, input, expect);
    }
    let binary = "x".repeat(256);
    check(Role::Client, &[b"\x82\x7e\x01\x00", binary.as_bytes()].concat(), &[&binary]);
    let large = "x".repeat(65536);
    let input = [b"\x82\x7f\0\0\0\0\0\x01\0\0", large.as_bytes()].concat();
    assert_eq!(decode(Role::Client, 65536, &[&input]), (vec![large], false));
}

#[test]
fn t2_f1_messages_come_out_whole_in_any_pieces() {
    check_frames(&[(FIN | TEXT, b"{}")], &["{}"]);
    check_frames(&[(FIN | BINARY, b"{}")], &["{}"]);
    check_frames(&[(FIN | TEXT, b"")], &[""]);
    check_frames(
        &[(FIN | TEXT, b"one"), (FIN | BINARY, b"two"), (FIN | TEXT, b"")],
        &["one", "two", ""],
    );
    for length in [1, 7, 63, 64, 65, 125, 126, 127, 200, LIMIT] {
        let text = String::from_utf8(digits(length)).expect("digits");
        check_frames(&[(FIN | TEXT, text.as_bytes())], &[&text]);
    }
}

#[test]
fn t2_f1_fragments_are_joined_and_control_frames_may_stand_between_them() {
    let fragments: &[(u8, &[u8])] = &[
        (TEXT, b"one"),
        (FIN | PING, b"are you there"),
        (CONTINUATION, b""),
        (CONTINUATION, b", two"),
        (FIN | PONG, b"unasked"),
        (FIN | CONTINUATION, b", three"),
        (FIN | TEXT, b"four"),
    ];
    check_frames(fragments, &["ping are you there", "pong", "one, two, three", "four"]);
    check_frames(&[(BINARY, b""), (FIN | CONTINUATION, b"")], &[""]);
    check_frames(&[(TEXT, b"never ends"), (FIN | CLOSE, b"")], &["close None", "... never ends"]);
}

#[test]
fn f4_t2_a_text_message_that_is_not_utf8_fails_with_1007_and_a_binary_one_does_not() {
    // Bytes that can never become UTF-8, and bytes that are incomplete.
    let wrong: [&[u8]; 9] = [
        b"\xff",
        b"\x80",
        b"\xc0\x80",
        b"\xc3(",
        b"\xe0\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
    ];
    let cut: [&[u8]; 4] = [b"\xc3", b"\xe2\x82", b"\xf0\x9f", b"\xf0\x9f\x98"];
    for bytes in wrong.iter().chain(&cut) {
        for text in [bytes.to_vec(), [b"[\"", *bytes, b"\"]"].concat(), [b"a", *bytes].concat()] {
            check_refused(&[(FIN | TEXT, &text)], "!1007 invalid UTF-8");
            check_frames(&[(FIN | BINARY, &text)], &[&text.escape_ascii().to_string()]);
            for cut in 0..=text.len() {
                let (first, rest) = text.split_at(cut);
                let fragments = |kind| [(kind, first), (CONTINUATION, b""), (FIN, rest)];
                check_refused(&fragments(TEXT), "!1007 invalid UTF-8");
                check_frames(&fragments(BINARY), &[&text.escape_ascii().to_string()]);
            }
        }
    }
    // It fails at the first byte that is not UTF-8: before the announced bytes arrive, and before
    // the control frame between two fragments.
    for bytes in wrong {
        let first = [header(TEXT, 200, Some(MASK)), frame(0, bytes, Some(MASK))[6..].to_vec()];
        check(Role::Server, &first.concat(), &["!1007 invalid UTF-8"]);
        check_frames(&[(TEXT, bytes), (FIN | PING, b"p"), (FIN, b"")], &["!1007 invalid UTF-8"]);
    }
    // Characters may be cut anywhere.
    for cut in 0..=9 {
        let (first, rest) = "é€😀".as_bytes().split_at(cut);
        let frames = [(TEXT, first), (FIN | PING, &b"p"[..]), (FIN, rest)];
        let text = "é€😀".as_bytes().escape_ascii().to_string();
        check_frames(&frames, &["ping p", &text]);
    }
    // A text after a binary message, and the reverse.
    check_frames(
        &[(FIN | BINARY, b"\xff"), (FIN | TEXT, b"a"), (BINARY, b"\xff"), (FIN, b"\xc3")],
        &["\\xff", "a", "\\xff\\xc3"],
    );
}

#[test]
fn t2_control_frames_carry_up_to_125_bytes() {
    let largest = [b'x'; 125];
    let text = format!("ping {}", "x".repeat(125));
    check_frames(&[(FIN | PING, &largest), (FIN | PONG, &largest)], &[&text, "pong"]);
    check_frames(&[(FIN | PING, b""), (FIN | PING, b"b")], &["ping ", "ping b"]);
    let close = [&b"\x03\xe8"[..], &[b'x'; 123]].concat();
    check_frames(&[(FIN | CLOSE, &close)], &["close Some(1000)"]);
}

#[test]
fn t2_frames_that_break_the_rules_are_protocol_errors() {
    for bit in [0x40, 0x20, 0x10] {
        check_refused(&[(FIN | bit | TEXT, b"x")], "!1002 a reserved bit is set");
        check_refused(&[(FIN | bit | PING, b"x")], "!1002 a reserved bit is set");
    }
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        check_refused(&[(FIN | opcode, b"x")], "!1002 an unknown opcode");
    }
    for opcode in [CLOSE, PING, PONG] {
        check_refused(&[(opcode, b"")], "!1002 a fragmented control frame");
        check_refused(&[(FIN | opcode, &[b'x'; 126])], "!1002 a control frame that is too long");
    }
    check_refused(&[(CONTINUATION, b"x")], "!1002 a continuation without a message");
    check_refused(&[(FIN | CONTINUATION, b"")], "!1002 a continuation without a message");
    for first in [TEXT, BINARY, FIN | TEXT, FIN | BINARY] {
        let expect = ["!1002 a message inside another", "... one"];
        check_frames(&[(TEXT, b"one"), (first, b"two")], &expect);
    }
}

#[test]
fn t2_clients_mask_and_servers_do_not() {
    for payload in [&b""[..], b"x"] {
        for first in [FIN | TEXT, FIN | PING, FIN | CLOSE] {
            let masked = frame(first, payload, Some(MASK));
            check(Role::Client, &masked, &["!1002 a frame with a mask"]);
            let clear = frame(first, payload, None);
            check(Role::Server, &clear, &["!1002 a frame without a mask"]);
        }
    }
}

#[test]
fn t2_lengths_are_written_in_the_shortest_way() {
    let rows: [&[u8]; 5] = [
        b"\x7e\x00\x00",
        b"\x7e\x00\x7d",
        b"\x7f\0\0\0\0\0\0\0\0",
        b"\x7f\0\0\0\0\0\0\0\x7e",
        b"\x7f\0\0\0\0\0\0\xff\xff",
    ];
    for length in rows {
        let input = [b"\x81", length, b"xxx"].concat();
        check(Role::Client, &input, &["!1002 a length that is not in its shortest form"]);
    }
    let negative = b"\x81\x7f\x80\0\0\0\0\0\0\x05";
    check(Role::Client, negative, &["!1002 a length with its highest bit set"]);
}

#[test]
fn t2_a_close_is_nothing_or_a_code_and_a_reason() {
    let close = |payload: &[u8], expect: &str| {
        check_frames(&[(FIN | CLOSE, payload), (FIN | TEXT, b"behind")], &[expect]);
    };
    close(b"", "close None");
    close(b"\x03", "!1002 an incomplete close code");
    close(b"\x03\xe9\xff", "!1007 invalid UTF-8");
    close(b"\x03\xe9caf\xc3\xa9", "close Some(1001)");
    close(b"\x03\xe9caf\xc3", "!1007 invalid UTF-8");
    for code in 0..=u16::MAX {
        let is_used = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
        let input = frame(FIN | CLOSE, &code.to_be_bytes(), None);
        let expect = match is_used {
            true => format!("close Some({code})"),
            false => "!1002 an invalid close code".to_owned(),
        };
        assert_eq!(decode(Role::Client, LIMIT, &[&input]).0, [expect]);
    }
}

#[test]
fn t2_f3_a_message_is_refused_when_its_header_announces_too_much() {
    let largest = vec![b'x'; LIMIT];
    let text = "x".repeat(LIMIT);
    check_frames(&[(FIN | TEXT, &largest), (FIN | TEXT, &largest)], &[&text, &text]);
    for role in ROLES {
        for (length, expect) in [
            (LIMIT as u64 + 1, "!1009 301"),
            (1 << 31, "!1009 2147483648"),
            (i64::MAX as u64, "!1009 9223372036854775807"),
        ] {
            // The header suffices: neither the payload nor the mask has to arrive.
            let header = header(FIN | TEXT, length, None);
            let masked = if role == Role::Server { 0x80 } else { 0 };
            check(role, &[&[header[0], header[1] | masked], &header[2..]].concat(), &[expect]);
        }
        // All fragments count together, and the next message starts again.
        let frames = |last: &[u8]| {
            [
                frame(TEXT, &largest[..200], mask_for(role)),
                frame(FIN | PING, &[b'p'; 125], mask_for(role)),
                frame(FIN | CONTINUATION, last, mask_for(role)),
                frame(FIN | TEXT, b"next", mask_for(role)),
            ]
            .concat()
        };
        let ping = format!("ping {}", "p".repeat(125));
        check(role, &frames(&largest[..100]), &[&ping, &text, "next"]);
        let start = format!("... {}", "x".repeat(200));
        check(role, &frames(&largest[..101]), &[&ping, "!1009 301", &start]);
    }
    assert_eq!(Problem::TooLarge(1).code(), close_code::TOO_LARGE);
    assert_eq!(Problem::NotUtf8.code(), close_code::INVALID_DATA);
    assert_eq!(Problem::Protocol("x").code(), close_code::PROTOCOL_ERROR);
}

#[test]
fn t2_f3_an_announced_length_reserves_no_memory() {
    for role in ROLES {
        for length in [1 << 31, 1 << 62] {
            let header = header(FIN | BINARY, length, mask_for(role));
            let measured = measure(|| {
                let mut decoder = WsDecoder::new(role, usize::MAX);
                let mut message = Vec::new();
                assert_eq!(decoder.decode(&header, &mut message), (header.len(), None));
                assert!(decoder.is_inside());
                assert_eq!(message.capacity(), 0);
                for _ in 0..100 {
                    assert_eq!(decoder.decode(&[b'x'; 1000], &mut message), (1000, None));
                    assert!(message.capacity() <= 2 * message.len());
                }
            });
            // The largest buffer, and the half from which it grew.
            assert!(measured.bytes_max < 300_000, "{} bytes", measured.bytes_max);
        }
    }
}

#[test]
fn t2_f3_decoding_itself_allocates_nothing() {
    let stream = [
        frame(TEXT, &[b'x'; 200], Some(MASK)),
        frame(FIN | PING, &[b'p'; 125], Some(MASK)),
        frame(FIN | CONTINUATION, &[b'x'; 50], Some(MASK)),
        frame(FIN | CLOSE, &[b'x'; 126], Some(MASK)),
    ]
    .concat();
    let mut message = Vec::with_capacity(LIMIT);
    let measured = measure(|| {
        let mut decoder = WsDecoder::new(Role::Server, LIMIT);
        let mut events = 0;
        for byte in stream.chunks(1) {
            events += usize::from(decoder.decode(byte, &mut message).1.is_some());
        }
        assert_eq!(events, 3);
    });
    assert_eq!(measured.count_total, 0);
    assert!(size_of::<WsDecoder>() <= 192, "{} bytes", size_of::<WsDecoder>());
}

#[test]
fn f3_endless_empty_fragments_are_read_without_memory() {
    let empty = frame(CONTINUATION, b"", None);
    let stream = [frame(TEXT, b"", None), empty.repeat(100_000)].concat();
    let measured = measure(|| {
        let mut decoder = WsDecoder::new(Role::Client, LIMIT);
        let mut message = Vec::new();
        assert_eq!(decoder.decode(&stream, &mut message), (stream.len(), None));
        assert!(decoder.is_inside());
    });
    assert_eq!(measured.count_total, 0);
}

#[test]
fn a_decoder_is_inside_from_the_first_byte_to_the_last() {
    let stream = [
        frame(TEXT, b"one", None),
        frame(FIN | PING, b"p", None),
        frame(FIN | CONTINUATION, b"", None),
    ]
    .concat();
    let mut decoder = WsDecoder::new(Role::Client, LIMIT);
    assert!(!decoder.is_inside());
    for (place, byte) in stream.chunks(1).enumerate() {
        decoder.decode(byte, &mut Vec::new());
        assert_eq!(decoder.is_inside(), place + 1 < stream.len(), "{place}");
    }
    for closing in [frame(FIN | CLOSE, b"", None), frame(0x7f, b"", None)] {
        decoder.decode(&closing, &mut Vec::new());
        assert!(!decoder.is_inside());
    }
}

/// A text of this size.
fn digits(size: usize) -> Vec<u8> {
    b"0123456789".iter().copied().cycle().take(size).collect()
}

fn write(writer: &mut WsFrameWriter, out: &mut Vec<u8>, text: &[u8]) {
    let Ok(()) = writer.write(out, |out| {
        out.extend_from_slice(text);
        Ok::<_, Infallible>(())
    });
}

#[test]
fn t2_a_server_writes_text_frames_in_the_shortest_way() {
    let mut writer = WsFrameWriter::new(Role::Server, 0);
    // Each size after each other size, so that every guess of the header's size is wrong once.
    let sizes = [0, 1, 125, 126, 125, 65535, 0, 65536, 126, 65536, 65537, 1, 1];
    for size in sizes {
        let mut out = b"before".to_vec();
        write(&mut writer, &mut out, &digits(size));
        let expect = frame(FIN | TEXT, &digits(size), None);
        assert_eq!(out, [b"before", &expect[..]].concat(), "{size}");
    }
}

#[test]
fn t2_wrap_and_write_make_the_same_frame() {
    for role in ROLES {
        let (mut writer, mut wrapper) = (WsFrameWriter::new(role, 7), WsFrameWriter::new(role, 7));
        for size in [0, 1, 125, 126, 65535, 65536, 1] {
            let (mut out, mut before) = (b"before".to_vec(), b"before".to_vec());
            let mut text = digits(size);
            write(&mut writer, &mut out, &text);
            wrapper.wrap(&mut before, &mut text);
            assert_eq!([before, text].concat(), out, "{role:?} {size}");
        }
    }
}

#[test]
fn t2_a_client_masks_each_frame_with_an_unpredictable_mask() {
    let mut writer = WsFrameWriter::new(Role::Client, (7 << 64) | 5);
    for (count, size) in [0, 1, 125, 126, 65535, 65536, 3, 0, 1000].into_iter().enumerate() {
        let mut out = b"before".to_vec();
        write(&mut writer, &mut out, &digits(size));
        #[allow(deprecated, reason = "its documentation promises SipHash-2-4")]
        let mut sip = std::hash::SipHasher::new_with_keys(5, 7);
        sip.write_u64(count as u64);
        let mask = (sip.finish() as u32).to_le_bytes();
        let expect = frame(FIN | TEXT, &digits(size), Some(mask));
        assert_eq!(out, [b"before", &expect[..]].concat());
    }
    let masks = (0..1000).map(|_| {
        let mut out = Vec::new();
        write(&mut writer, &mut out, b"");
        out.split_off(2)
    });
    assert!(masks.collect::<HashSet<_>>().len() > 990);
}

#[test]
fn t2_a_message_that_fails_to_serialise_leaves_nothing_behind() {
    for role in ROLES {
        let mut writer = WsFrameWriter::new(role, 1);
        let mut out = b"before".to_vec();
        let failed = writer.write(&mut out, |out| {
            out.extend_from_slice(b"half");
            Err("no")
        });
        assert_eq!(failed, Err("no"));
        assert_eq!(out, b"before");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = writer.write(&mut out, |out| -> Result<(), Infallible> {
                out.extend_from_slice(b"half");
                std::panic::resume_unwind(Box::new(()));
            });
        }));
        assert!(panicked.is_err());
        assert_eq!(out, b"before");
    }
}

#[test]
fn t2_control_frames_are_written_whole() {
    let rows = [
        (ControlKind::Ping, PING, Control::new(b"hello")),
        (ControlKind::Pong, PONG, Control::new(&[b'x'; 125])),
        (ControlKind::Close, CLOSE, Control::new(b"")),
        (ControlKind::Close, CLOSE, Control::close(close_code::POLICY, "too slow")),
    ];
    for (kind, opcode, control) in rows {
        let mut out = b"before".to_vec();
        WsFrameWriter::new(Role::Server, 0).write_control(&mut out, kind, &control);
        let expect = frame(FIN | opcode, control.as_bytes(), None);
        assert_eq!(out, [b"before", &expect[..]].concat());
        out.clear();
        WsFrameWriter::new(Role::Client, 0).write_control(&mut out, kind, &control);
        let mask = out[2..6].try_into().expect("four bytes");
        assert_eq!(out, frame(FIN | opcode, control.as_bytes(), Some(mask)));
    }
}

#[test]
fn a_control_payload_is_cut_to_125_bytes() {
    assert_eq!(Control::new(&[b'x'; 200]).as_bytes(), [b'x'; 125]);
    assert_eq!(Control::close(1000, "").as_bytes(), b"\x03\xe8");
    assert_eq!(Control::close(1001, "bye").as_bytes(), b"\x03\xe9bye");
    let whole = "x".repeat(123);
    assert_eq!(Control::close(1000, &whole).as_bytes()[2..], *whole.as_bytes());
    // The last letter does not fit whole into 123 bytes, and the letter after it must not take its
    // place.
    let long = Control::close(1000, &format!("{}x", "é".repeat(62)));
    assert_eq!(long.as_bytes()[2..], *"é".repeat(61).as_bytes());
}

#[test]
fn debug_output_shows_no_payload() {
    let mut decoder = WsDecoder::new(Role::Server, LIMIT);
    decoder.decode(&frame(FIN | PING, b"secret", Some(MASK)), &mut Vec::new());
    let writer = WsFrameWriter::new(Role::Client, 0x5345_4352_4554);
    let shown = format!("{decoder:?} {:?} {writer:?}", decoder.ping());
    assert_eq!(
        shown,
        "WsDecoder { role: Server, state: Header, left: 0, .. } \
         Control { length: 6, .. } WsFrameWriter { role: Client, .. }"
    );
}

/// A message in fragments, with control frames after each.
type Fragments = Vec<(Vec<u8>, Vec<(bool, Vec<u8>)>)>;

fn message() -> impl Strategy<Value = Fragments> {
    let payload = prop_oneof![
        2 => prop::collection::vec(any::<u8>(), 0..20),
        2 => ".{0,20}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 120..400),
    ];
    let control = (any::<bool>(), prop::collection::vec(any::<u8>(), 0..=125));
    let fragment = (payload, prop::collection::vec(control, 0..3));
    prop::collection::vec(fragment, 1..5)
}

proptest! {
    #![proptest_config(config(6))]

    #[test]
    fn t2_f1_any_messages_in_any_fragments_come_out_the_same_for_any_cuts(
        messages in prop::collection::vec((any::<bool>(), message()), 1..5),
        masks in any::<[u8; 4]>(),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
        is_server in any::<bool>(),
    ) {
        let role = if is_server { Role::Server } else { Role::Client };
        let mask = is_server.then_some(masks);
        let (mut stream, mut expect) = (Vec::new(), Vec::new());
        for (is_text, fragments) in &messages {
            let payloads: Vec<_> = fragments.iter().map(|(payload, _)| payload.as_slice()).collect();
            let is_text = &(*is_text && std::str::from_utf8(&payloads.concat()).is_ok());
            let mut whole = Vec::new();
            for (place, (payload, controls)) in fragments.iter().enumerate() {
                let first = match (place, is_text) {
                    (0, true) => TEXT,
                    (0, false) => BINARY,
                    _ => CONTINUATION,
                };
                let is_last = place + 1 == fragments.len();
                stream.extend(frame(if is_last { FIN | first } else { first }, payload, mask));
                whole.extend_from_slice(payload);
                if is_last {
                    expect.push(whole.escape_ascii().to_string());
                }
                for (is_ping, payload) in controls {
                    stream.extend(frame(FIN | if *is_ping { PING } else { PONG }, payload, mask));
                    expect.push(match is_ping {
                        true => format!("ping {}", payload.escape_ascii()),
                        false => "pong".to_owned(),
                    });
                }
            }
        }
        for pieces in [vec![&stream[..]], pieces(&stream, &cuts), stream.chunks(1).collect()] {
            prop_assert_eq!(decode(role, 2000, &pieces), (expect.clone(), false));
        }
    }

    #[test]
    fn t2_f1_any_bytes_give_the_same_events_however_they_are_cut(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0u8..4, 0x80u8..0x8c], 1..60),
        cuts in prop::collection::vec(any::<usize>(), 1..12),
    ) {
        for role in ROLES {
            let whole = decode(role, LIMIT, &[&bytes]);
            prop_assert_eq!(&whole, &decode(role, LIMIT, &pieces(&bytes, &cuts)));
            prop_assert_eq!(&whole, &decode(role, LIMIT, &bytes.chunks(1).collect::<Vec<_>>()));
        }
    }

    #[test]
    fn f4_t2_a_text_is_accepted_exactly_if_it_is_utf8_in_any_fragments_and_cuts(
        parts in prop::collection::vec(
            prop_oneof![
                3 => ".{1,3}".prop_map(String::into_bytes),
                1 => prop::collection::vec(prop_oneof![0x70u8..0xc8, 0xdeu8..=0xff], 1..4),
            ],
            1..5,
        ),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
        fragments in prop::collection::vec(any::<usize>(), 0..4),
    ) {
        let text = parts.concat();
        let expect = match std::str::from_utf8(&text) {
            Ok(_) => text.escape_ascii().to_string(),
            Err(_) => "!1007 invalid UTF-8".to_owned(),
        };
        for role in ROLES {
            let fragments = pieces(&text, &fragments);
            let last = fragments.len() - 1;
            let frames = fragments.iter().enumerate().map(|(place, payload)| {
                let fin = if place == last { FIN } else { 0 };
                let kind = if place == 0 { TEXT } else { CONTINUATION };
                frame(fin | kind, payload, mask_for(role))
            });
            let stream = frames.collect::<Vec<_>>().concat();
            let found = decode(role, LIMIT, &pieces(&stream, &cuts));
            prop_assert_eq!(found, (vec![expect.clone()], false));
        }
    }

    #[test]
    fn t2_one_end_reads_the_frames_of_the_other(
        texts in prop::collection::vec(prop::collection::vec(".{0,60}", 0..3), 1..8),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
        seed in any::<u128>(),
    ) {
        for (from, to) in [(Role::Client, Role::Server), (Role::Server, Role::Client)] {
            let mut writer = WsFrameWriter::new(from, seed);
            let mut stream = Vec::new();
            let texts: Vec<_> = texts.iter().map(|parts| parts.concat().into_bytes()).collect();
            for text in &texts {
                write(&mut writer, &mut stream, text);
            }
            let expect: Vec<_> = texts.iter().map(|text| text.escape_ascii().to_string()).collect();
            prop_assert_eq!(decode(to, 700, &pieces(&stream, &cuts)), (expect, false));
        }
    }
}
