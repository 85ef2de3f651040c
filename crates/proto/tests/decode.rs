//! Rules for all framings (F1 to F5, F17), and the framings `ndjson` and `length` (F20 to F32).

mod support;

use duet_rpc_proto::Limits;
use duet_rpc_proto::frame::{Decoder, Event, FrameWriter, Framing, FramingChoice, write_frame};
use support::{check, check_to_the_end, feed, framed};

const A: &str = r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#;
const B: &str = r#"{"jsonrpc":"2.0","id":2,"method":"b"}"#;
const PARSE_ERROR: &str = "!-32700";

fn limits() -> Limits {
    Limits::default().with(|it| {
        it.message_bytes = 100;
        it.header_bytes = 64;
    })
}

fn ndjson(input: &str, expect: &[&str]) {
    check(Framing::Ndjson, &limits(), input.as_bytes(), expect);
}

fn length(input: &[u8], expect: &[&str]) {
    check(Framing::Length, &limits(), input, expect);
}

#[test]
fn f1_frames_come_out_whole_and_in_order_however_they_are_cut() {
    for framing in Framing::ALL {
        let input = [framed(framing, A), framed(framing, "[]"), framed(framing, B)].concat();
        check(framing, &limits(), &input, &[A, "[]", B]);
    }
}

#[test]
fn f2_a_bad_body_costs_one_fault_and_the_next_frame_is_served() {
    for framing in Framing::ALL {
        let input = [framed(framing, "nope"), framed(framing, B)].concat();
        check(framing, &limits(), &input, &[PARSE_ERROR, B]);
    }
}

#[test]
fn f4_invalid_utf8_is_a_parse_error() {
    for framing in Framing::ALL {
        for bad in [&b"\"\xff\""[..], b"\"\xc0\xaf\"", b"{\"ignored\":\"\xed\xa0\x80\"}"] {
            check(framing, &limits(), &framed(framing, bad), &[PARSE_ERROR]);
        }
    }
}

#[test]
fn f5_and_f17_written_frames_can_be_read_and_hold_nothing_else() {
    let write = |framing, text: &str| {
        let mut out = b"before".to_vec();
        write_frame(framing, &mut out, |out| {
            out.extend_from_slice(text.as_bytes());
            Ok::<_, ()>(())
        })
        .expect("nothing fails");
        out.split_off(6)
    };
    let wrap = |framing, text: &str| {
        let (mut before, mut text) = (b"before".to_vec(), text.as_bytes().to_vec());
        FrameWriter::new(framing).wrap(&mut before, &mut text);
        [before.split_off(6), text].concat()
    };
    // Lengths of one to five digits, each with the right header.
    for size in [2, 9, 10, 99, 100, 101, 999, 1000, 1001, 10_000] {
        let text = format!("\"{}\"", "x".repeat(size - 2));
        for framing in Framing::ALL {
            assert_eq!(write(framing, &text), framed(framing, &text), "{framing} {size}");
            assert_eq!(wrap(framing, &text), framed(framing, &text), "{framing} {size}");
        }
    }
    let pretty = "{\r\n  \"a\": [\n    1\n  ]\n}";
    let line = write(Framing::Ndjson, pretty);
    assert_eq!(line, b"{    \"a\": [     1   ] }\n");
    assert_eq!(wrap(Framing::Ndjson, pretty), line);
    assert_eq!(write(Framing::Lsp, pretty), framed(Framing::Lsp, pretty));
    assert_eq!(write(Framing::Ndjson, "\n\n[]\n"), b"  [] \n");
}

#[test]
fn f5_a_writer_reserves_as_much_room_for_a_header_as_the_last_one_took() {
    let mut writer = FrameWriter::new(Framing::Lsp);
    let mut write = |digits: u32| {
        let (mut out, mut room) = (b"before".to_vec(), 0);
        let body = vec![b'1'; 10_usize.pow(digits - 1)];
        let written = writer.write(&mut out, |out| {
            room = out.len() - 6;
            out.extend_from_slice(&body);
            Ok::<_, ()>(())
        });
        assert_eq!(written, Ok(()));
        assert_eq!(out[6..], framed(Framing::Lsp, &body));
        room - "Content-Length: \r\n\r\n".len()
    };
    assert_eq!(write(1), 3, "it starts with three digits");
    for digits in 1..=6 {
        write(digits);
        assert_eq!(write(digits), digits as usize);
    }
}

#[test]
fn f5_a_message_that_cannot_be_written_leaves_nothing_behind() {
    for framing in Framing::ALL {
        let mut out = b"before".to_vec();
        let written = write_frame(framing, &mut out, |out| {
            out.extend_from_slice(b"{\"half\":");
            Err("failed")
        });
        assert_eq!((written, &out[..]), (Err("failed"), &b"before"[..]));
    }
}

#[test]
fn f20_line_ends_blank_lines_and_a_last_line_without_line_end() {
    ndjson(&format!("{A}\r\n\r\n\n \t\n{B}\n"), &[A, B]);
    ndjson(&format!("  {A}  \n"), &[&format!("{A}  ")]);
    let choice = Framing::Ndjson.into();
    check_to_the_end(choice, &limits(), format!("{A}\n{B}").as_bytes(), &[A], &[B]);
    check_to_the_end(choice, &limits(), format!("{A}\nnope").as_bytes(), &[A], &[PARSE_ERROR]);
    check_to_the_end(choice, &limits(), b"  \r", &[], &[]);
}

#[test]
fn f2_ndjson_framing_each_bad_line_is_answered() {
    ndjson(
        &format!("a\nb\n{A}\n{{\n}}\n"),
        &[PARSE_ERROR, PARSE_ERROR, A, PARSE_ERROR, PARSE_ERROR],
    );
}

#[test]
fn f21_a_line_is_refused_as_soon_as_it_is_over_the_limit() {
    let text = |size: usize| format!("\"{}\"", "x".repeat(size - 2));
    ndjson(&format!("{}\n", text(100)), &[&text(100)]);
    ndjson(&format!("{}\r\n", text(100)), &[&text(100)]);
    ndjson(&format!("{}\n", text(101)), &["!-32600 oversize"]);
    ndjson(&format!("{}\n", text(1001)), &["!-32600 oversize"]);
    ndjson(&format!("{}\r\r\n", text(100)), &["!-32600 oversize"]);
    // White space before a text does not count, however much there is.
    ndjson(&format!("{}\n", " ".repeat(200)), &[]);
    ndjson(&format!("{}{}\n", " ".repeat(200), text(100)), &[&text(100)]);
    let (choice, long) = (Framing::Ndjson.into(), [b'x'; 101]);
    check_to_the_end(choice, &limits(), &long, &["!-32600 oversize"], &[]);
}

#[test]
fn f30_a_payload_without_its_newline_is_a_parse_error() {
    for end in ["x", "\r", " ", "\0", ""] {
        let mut frame = framed(Framing::Length, A);
        frame.pop();
        // Without the newline, the next frame's first byte stands in its place.
        let input = [&frame, end.as_bytes(), &framed(Framing::Length, B)].concat();
        length(&input, &[PARSE_ERROR, B]);
    }
}

#[test]
fn f2_length_framing_bytes_left_over_by_a_wrong_length_are_the_same_fault() {
    length(b"\0\0\0\x01{\n\"a\":1}\n", &[PARSE_ERROR]);
    length(b"\0\0\0\x03[1,\n2]\n", &[PARSE_ERROR]);
    // Another frame is another fault.
    length(b"\0\0\0\x01{\n\0\0\0\x01}\n", &[PARSE_ERROR, PARSE_ERROR]);
}

#[test]
fn f31_lengths_over_the_limit_and_of_zero() {
    let over = |payload: &[u8]| [&[0, 0, 0, 101], payload].concat();
    length(&over(&[b'x'; 102]), &["!-32600 oversize"]);
    length(&over(b""), &["!-32600 oversize"]);
    length(&over(b"{\"half\":"), &["!-32600 oversize"]);
    length(&[over(b""), over(b"")].concat(), &["!-32600 oversize"; 2]);
    length(b"\x00\xff\xff\xff", &["!-32600 oversize"]);
    length(b"\x00\x00\x00\x00\n", &[PARSE_ERROR]);
    length(b"\x00\x00\x00\x00", &[PARSE_ERROR]);
    let text = format!("\"{}\"", "x".repeat(98));
    length(&framed(Framing::Length, &text), &[&text]);
    // Exactly the refused payload is skipped: an error after it is a new fault.
    let skipped = over(format!("{}\n", "x".repeat(101)).as_bytes());
    length(&[&skipped, &b"stray"[..]].concat(), &["!-32600 oversize", PARSE_ERROR]);
    // A stray zero before a length of ten is not a length of zero with its newline.
    let ten = "[12345678]";
    let stray = [&b"\0"[..], &framed(Framing::Length, ten)].concat();
    length(&stray, &[PARSE_ERROR, ten]);
}

#[test]
fn f31_the_next_frame_is_served_even_if_the_refused_prefix_could_overlap_it() {
    // The zero inside the prefix and the bytes after it look like a length whose payload never
    // arrives in full.
    let text = format!("\"{}\"", "a".repeat(298));
    let next = framed(Framing::Length, &text);
    for prefix in [b"\x00\x10\x00\x01", b"\x00\xff\x00\x03", b"\x00\x20\x00\x00"] {
        for garbage in [&b""[..], b"stray"] {
            let input = [garbage, prefix, &next].concat();
            let fault = if garbage.is_empty() { "!-32600 oversize" } else { PARSE_ERROR };
            let limits = Limits::default();
            check_to_the_end(Framing::Length.into(), &limits, &input, &[fault, &text], &[]);
        }
    }
}

#[test]
fn f2_f31_from_16_mib_on_a_frame_after_a_bad_body_may_begin_with_any_byte() {
    let limits = limits().with(|it| it.message_bytes = 1 << 25);
    let text = format!("\"{}\"", "x".repeat((1 << 24) + 5));
    let input = [b"\0\0\0\x01{\n".to_vec(), framed(Framing::Length, &text)].concat();
    let mut decoder = Decoder::new(Framing::Length, &limits);
    let found = feed(&mut decoder, &[&input]);
    assert_eq!((found.len(), &*found[0], found[1] == text), (2, PARSE_ERROR, true));
}

#[test]
fn f31_a_length_over_the_limit_may_begin_with_any_byte_and_only_printable_text_is_a_parse_error() {
    const OVERSIZE: &str = "!-32600 oversize";
    let rows: [(&[u8], &str); 12] = [
        // 16 MiB and more; a length in little-endian; the largest.
        (b"\x01\0\0\0", OVERSIZE),
        (b"\x2a\0\0\0", OVERSIZE),
        (b"\x64\0\0\0[1]", OVERSIZE),
        (b"\xff\xff\xff\xffhello", OVERSIZE),
        (b"\x7f\x7f\x7f\x7f", OVERSIZE),
        // One byte that does not occur in a line of text.
        (b"ABC\x1f", OVERSIZE),
        (b"ABC\x7f", OVERSIZE),
        (b"\nABC", OVERSIZE),
        ("né!".as_bytes(), OVERSIZE),
        (b"    ", PARSE_ERROR),
        (b"~~~~", PARSE_ERROR),
        (b"Listening on port 80\n", PARSE_ERROR),
    ];
    let next = framed(Framing::Length, B);
    for (input, fault) in rows {
        length(input, &[fault]);
        length(&[input, &next, input, &next].concat(), &[fault, B, fault, B]);
    }
    // The input ends inside a prefix.
    for input in [&b"C"[..], b"\n", b"\xff\n", b"\x01\0\0"] {
        check_to_the_end(Framing::Length.into(), &limits(), input, &[], &[PARSE_ERROR]);
    }
    // A payload that arrives is skipped to its end, and an error after it is a new fault.
    let over = [&b"\x01\0\0\0"[..], &vec![b'x'; 1 << 24], b"\n"].concat();
    let mut decoder = Decoder::new(Framing::Length, &limits());
    let found = feed(&mut decoder, &[&over, &over, &framed(Framing::Length, "nope"), &next]);
    assert_eq!(found, [OVERSIZE, OVERSIZE, PARSE_ERROR, B]);
    // With a limit of 16 MiB or more it may be a length within the limit.
    let limits = limits().with(|it| it.message_bytes = 1 << 24);
    check(Framing::Length, &limits, b"\x01\x00\x00\x01", &["!-32600 oversize"]);
    check_to_the_end(Framing::Length.into(), &limits, b"\x01\x00\x00\x00", &[], &[PARSE_ERROR]);
}

#[test]
fn f32_the_next_frame_is_found_after_any_garbage() {
    let next = framed(Framing::Length, B);
    for garbage in [
        &b"hello"[..],
        b"\x00",
        b"\x00\x00",
        b"\x00\x00\x00",
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x00\x00\x00\x05hell",
        b"\x00\x00\x00\x05hello",
        b"\x00\x00\x00\x05[1,2]x",
        b"\x00\x00\x00\x09[1,2]\n",
        b"\x00\x00\x00\x03[1,2]\n",
        b"Content-Length: 5\r\n\r\n",
    ] {
        let input = [garbage, &next, garbage, &next].concat();
        length(&input, &[PARSE_ERROR, B, PARSE_ERROR, B]);
    }
    // While the position is lost, a frame that does not hold JSON proves nothing and is not another
    // fault.
    length(&[b"hello", &framed(Framing::Length, "nope")[..], &next].concat(), &[PARSE_ERROR, B]);
    // A length that is too large and ends with the frame that it swallows.
    let swallows = [&[0, 0, 0, B.len() as u8 + 5, b'x'], &next[..]].concat();
    length(&swallows, &[PARSE_ERROR, B]);
    // Bytes that look like a length over the limit and overlap the next frame's prefix.
    for garbage in [
        &b"\x00\x07"[..],
        b"\x00\x07\x00",
        b"\x00\x01\x00\x01",
        b"x",
        b"\n",
        b"a\x00\x00b\x00c\x00\x00\x00",
    ] {
        let input = [garbage, &next, garbage, &next].concat();
        length(&input, &["!-32600 oversize", B, "!-32600 oversize", B]);
    }
}

#[test]
fn f32_stray_zeros_and_the_last_byte_of_a_length_are_not_a_frame() {
    // The last byte of a length of 306 is an ASCII `2`, and the body begins with a newline.
    let text = format!("\n[\"{}\"]", "x".repeat(306 - 5));
    for garbage in [&b"\0\0"[..], b"\0\0\0", b"\0\0\0\0", b"stray\0", b"stray\0\0\0\0\0"] {
        let input = [garbage, &framed(Framing::Length, &text)].concat();
        check(Framing::Length, &Limits::default(), &input, &[PARSE_ERROR, &text]);
    }
    // In step, a number is a frame like any other.
    length(b"\0\0\0\x012\n", &["2"]);
}

#[test]
fn f15_and_f32_a_frame_cut_off_by_the_end_is_a_parse_error() {
    let frame = framed(Framing::Length, A);
    for cut in 1..frame.len() {
        let choice = Framing::Length.into();
        check_to_the_end(choice, &limits(), &frame[..cut], &[], &[PARSE_ERROR]);
    }
}

#[test]
fn auto_is_decided_by_the_first_byte_that_is_not_white_space() {
    for framing in Framing::ALL {
        for blanks in ["", " \r\n\t\n"] {
            let input = [blanks.as_bytes(), &framed(framing, A), &framed(framing, B)].concat();
            check_to_the_end(FramingChoice::Auto, &limits(), &input, &[A, B], &[]);
        }
    }
    let array = framed(Framing::Ndjson, "[1]");
    check_to_the_end(FramingChoice::Auto, &limits(), &array, &["[1]"], &[]);
    // Any other byte selects `lsp` and its errors.
    for odd in ["1\r\n", "\"a\"\r\n", "\u{1}\r\n", "é\r\n"] {
        let input = [odd.as_bytes(), &framed(Framing::Lsp, A)].concat();
        check_to_the_end(FramingChoice::Auto, &limits(), &input, &[PARSE_ERROR, A], &[]);
    }
    check_to_the_end(FramingChoice::Auto, &limits(), b" \n", &[], &[]);
}

#[test]
fn c3_framings_are_chosen_and_shown_by_their_names() {
    let fixed = Framing::ALL.map(FramingChoice::Fixed);
    let rows = [
        ("lsp", fixed[0]),
        ("ndjson", fixed[1]),
        ("length", fixed[2]),
        ("auto", FramingChoice::Auto),
    ];
    for (name, choice) in rows {
        assert_eq!(name.parse(), Ok(choice));
        assert_eq!(choice.to_string(), name);
    }
    assert_eq!(Framing::ALL.map(|framing| framing.to_string()), ["lsp", "ndjson", "length"]);
    for name in ["LSP", "", "automatic"] {
        let unknown = name.parse::<FramingChoice>().expect_err("no such framing");
        assert!(unknown.to_string().contains("lsp, ndjson, length or auto"));
    }
}

#[test]
fn auto_reports_the_framing_with_its_first_byte_and_keeps_no_white_space() {
    for (framing, first) in Framing::ALL.into_iter().zip(["C", "{", "\0"]) {
        assert_eq!(Decoder::new(framing, &limits()).framing(), Some(framing));
        let mut decoder = Decoder::new(FramingChoice::Auto, &limits());
        assert_eq!((decoder.framing(), decoder.at_hand()), (None, &b""[..]));
        assert_eq!(decoder.feed(b" \r\n"), 3);
        assert_eq!((decoder.framing(), decoder.at_hand()), (None, &b" \r\n"[..]));
        assert!(decoder.next_event().is_none());
        assert_eq!(decoder.at_hand(), b"", "white space is not kept (F3)");
        assert_eq!(decoder.feed(first.as_bytes()), 1);
        assert_eq!(decoder.framing(), Some(framing), "the byte is known before it is decoded");
        assert!(decoder.next_event().is_none());
        assert_eq!((decoder.framing(), decoder.at_hand()), (Some(framing), first.as_bytes()));
    }
}

#[test]
fn auto_continues_with_a_framing_that_is_set_later() {
    for framing in Framing::ALL {
        for before in ["", "Starting\n", " \n"] {
            let mut decoder = Decoder::new(FramingChoice::Auto, &limits());
            assert_eq!(decoder.feed(before.as_bytes()), before.len());
            while decoder.next_event().is_some() {}
            decoder.set_framing(framing);
            assert_eq!(decoder.framing(), Some(framing));
            let frame = framed(framing, A);
            assert_eq!(decoder.feed(&frame), frame.len());
            let Some(Event::Frame(text)) = decoder.next_event() else {
                panic!("{framing} after {before:?}");
            };
            assert_eq!(text.as_str(), A);
        }
        // The framing that it has already does not lose a frame that has begun.
        let mut decoder = Decoder::new(framing, &limits());
        let frame = framed(framing, A);
        let (begin, rest) = frame.split_at(frame.len() / 2);
        assert_eq!(decoder.feed(begin), begin.len());
        assert!(decoder.next_event().is_none());
        decoder.set_framing(framing);
        assert_eq!(decoder.feed(rest), rest.len());
        assert!(matches!(decoder.next_event(), Some(Event::Frame(_))), "{framing}");
    }
}

#[test]
fn f1_the_terminator_is_consumed_with_its_frame() {
    for framing in Framing::ALL {
        let mut decoder = Decoder::new(framing, &limits());
        let frame = framed(framing, A);
        assert_eq!(decoder.feed(&frame), frame.len());
        assert!(decoder.next_event().is_some());
        assert_eq!(decoder.at_hand(), b"", "{framing}");
    }
}

#[test]
fn f3_refused_bytes_are_skipped_and_not_kept() {
    let limits = limits();
    let rows: [(Framing, &[u8]); 8] = [
        (Framing::Lsp, b"garbage\r\n"),
        (Framing::Lsp, b"Content-Length: 5\r\n\r\nnope!"),
        (Framing::Lsp, b"Content-Length: 5\r\n\r\nnope\n"),
        (Framing::Lsp, b"Content-Length: 101\r\n\r\n"),
        (Framing::Lsp, b"X: "),
        (Framing::Ndjson, b"x"),
        (Framing::Length, b"x"),
        (Framing::Length, b"\0\xff\xff\xff"),
    ];
    for (framing, start) in rows {
        let mut decoder = Decoder::new(framing, &limits);
        feed(&mut decoder, &[start, &[b'x'; 101]]);
        for _ in 0..1000 {
            feed(&mut decoder, &[b"x"]);
            let kept = decoder.at_hand().len();
            assert!(kept <= limits.header_bytes + 1, "{framing} {}: {kept}", start.escape_ascii());
        }
    }
}

#[test]
fn p8_decoders_share_one_buffer_in_turn() {
    let mut memory = Vec::with_capacity(50_000);
    for framing in Framing::ALL {
        let (frame, cut) = (framed(framing, A), 25);
        let mut decoder = Decoder::new(framing, &limits());
        assert_eq!(decoder.lend(memory), None, "it has none of its own");
        assert_eq!(feed(&mut decoder, &[&frame, &frame[..cut]]), [A]);
        memory = decoder.give_back().expect("few bytes are at hand");
        assert_eq!(memory.capacity(), 50_000);
        // The memory that it has now is its own.
        assert_eq!(decoder.lend(vec![7]), Some(vec![7]));
        assert_eq!(feed(&mut decoder, &[&frame[cut..]]), [A], "buffered bytes stay");
        assert_eq!(decoder.at_hand(), b"");
    }
}
