//! The `lsp` framing: F10 to F16.

mod support;

use duet_rpc_proto::Limits;
use duet_rpc_proto::fault::{FaultKind, Malformed};
use duet_rpc_proto::frame::Framing::Lsp;
use duet_rpc_proto::frame::{Decoder, Event};
use support::{check, check_to_the_end, framed};

const A: &str = r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#;
const B: &str = r#"{"jsonrpc":"2.0","id":2,"method":"b"}"#;
const PARSE_ERROR: &str = "!-32700";

fn limits() -> Limits {
    Limits::default().with(|it| {
        it.message_bytes = 100;
        it.header_bytes = 96;
    })
}

fn rows(rows: &[(&str, &[&str])]) {
    for (input, expect) in rows {
        check(Lsp, &limits(), input.as_bytes(), expect);
    }
}

fn to_the_end(input: impl AsRef<[u8]>, expect: &[&str], expect_at_end: &[&str]) {
    check_to_the_end(Lsp.into(), &limits(), input.as_ref(), expect, expect_at_end);
}

fn with_header(header: &str, body: &str) -> String {
    format!("{header}\r\n\r\n{body}")
}

#[test]
fn f10_headers_in_any_case_order_and_spacing() {
    let length = A.len();
    for header in [
        format!("Content-Length: {length}"),
        format!("content-length:{length}"),
        format!("CONTENT-LENGTH:\t {length} \t"),
        format!("X-Other: 1\r\nContent-Length: {length}\r\nX-More:"),
        format!("Content-Length: {length}\r\nContent-Length: {length}"),
        format!("Content-Length: 0{length}"),
        format!("Content-Type: application/vscode-jsonrpc\r\nContent-Length: {length}"),
    ] {
        rows(&[(&with_header(&header, A), &[A])]);
    }
}

#[test]
fn f10_white_space_between_frames_is_skipped() {
    let frame = String::from_utf8(framed(Lsp, A)).expect("UTF-8");
    rows(&[(&format!(" \r\n\t\n{frame}\r\n\r\n {frame}\n\n\n"), &[A, A])]);
}

#[test]
fn f11_the_fault_kind_names_the_defect() {
    let rows = [
        ("stray output", Malformed::HeaderLine),
        ("X: y\nContent-Length: 5", Malformed::BareLineFeed),
        ("Content-Length: ", Malformed::LengthValue),
        ("Content-Length: 5x", Malformed::LengthValue),
        ("Content-Length: 5\r\nContent-Length: 6", Malformed::LengthConflict),
        ("X: y", Malformed::LengthMissing),
    ];
    for (header, expect) in rows {
        let input = with_header(header, A);
        let mut decoder = Decoder::new(Lsp, &limits());
        assert_eq!(decoder.feed(input.as_bytes()), input.len());
        let Some(Event::Fault(fault)) = decoder.next_event() else { panic!("{header}") };
        assert_eq!(fault.kind, FaultKind::Malformed(expect), "{header}");
    }
}

#[test]
fn f11_invalid_missing_and_conflicting_lengths_and_bad_header_lines_are_parse_errors() {
    for value in ["", " ", "-5", "+5", "5.0", "0x10", "five", "5 5", "5,5", "5;"] {
        rows(&[(&with_header(&format!("Content-Length: {value}"), A), &[PARSE_ERROR])]);
    }
    let length = A.len();
    for header in [
        "X-Other: 1",
        "Content-Length: 5\r\nContent-Length: 6",
        &format!("Content-Length: {length}\r\nContent-Length: 1{length}"),
        "X-Content-Length: 5",
        "Content-Length: 5\r\nno colon",
        "no colon",
        ": no name",
        "not a name: 5",
    ] {
        rows(&[(&with_header(header, A), &[PARSE_ERROR])]);
    }
    rows(&[
        (&format!("Content-Length: {length}\n\n{A}"), &[PARSE_ERROR]),
        (&format!("Content-Length: {length}\r\n\n{A}"), &[PARSE_ERROR]),
        (&format!("X: 1\nContent-Length: {length}\n\n{A}"), &[PARSE_ERROR]),
        (&format!("Content-Length: {length}\nX: 1\r\n\r\n{A}"), &[PARSE_ERROR]),
        (&format!("X: 1\nContent-Length: {length}\r\n\r\n{A}"), &[PARSE_ERROR, A]),
    ]);
}

#[test]
fn f11_garbage_before_a_frame_is_one_fault_and_the_frame_is_served() {
    let frame = String::from_utf8(framed(Lsp, B)).expect("UTF-8");
    for garbage in [
        "hello\r\n",
        "hello\n",
        "hello",
        "one\r\ntwo\r\nthree\n\n\r\n",
        "INFO server: started",
        "INFO server: started\r\n",
        "{\"level\":\"info\"}\r\n",
        "{\"level\":\"info\"}",
        "Content-Length: \r\n",
        "Content-Length: x\r\n\r\n",
        "Content-Length 5\r\n\r\n",
        "\u{0}\u{1}\u{2}",
        "Content-Length: 5\n\nhello",
        "Content-Length",
        "C",
    ] {
        rows(&[(&format!("{garbage}{frame}{garbage}{frame}"), &[PARSE_ERROR, B, PARSE_ERROR, B])]);
    }
}

#[test]
fn f11_a_number_too_large_for_the_machine_is_oversize() {
    for value in ["18446744073709551615", "18446744073709551616", "99999999999999999999999999"] {
        rows(&[(&with_header(&format!("Content-Length: {value}"), A), &["!-32600 oversize"])]);
    }
}

#[test]
fn f12_wrong_types_are_refused_with_the_id_of_the_body() {
    let typed = |content_type: &str, body: &str| {
        format!("Content-Length: {}\r\nContent-Type: {content_type}\r\n\r\n{body}", body.len())
    };
    let ours = "application/vscode-jsonrpc";
    rows(&[
        (&typed(&format!("{ours}; charset=utf8"), A), &[A]),
        (&typed("text/plain", A), &["!-32600 unsupported-content-type id=1"]),
        (&typed("text/plain; charset=x", A), &["!-32600 unsupported-content-type id=1"]),
        (&typed(&format!("{ours}; charset=x"), A), &["!-32600 bad-charset id=1"]),
        (&typed("text/plain", r#"{"id":"s"}"#), &[r#"!-32600 unsupported-content-type id="s""#]),
        (&typed("text/plain", r#"{"id":{}}"#), &["!-32600 unsupported-content-type"]),
        (&typed("text/plain", r#"{"id":1,"id":2}"#), &["!-32600 unsupported-content-type"]),
        (&typed("text/plain", r#"[{"id":1}]"#), &["!-32600 unsupported-content-type"]),
        (&typed("text/plain", "hello"), &["!-32600 unsupported-content-type"]),
    ]);
}

#[test]
fn f13_a_long_header_section_is_refused_immediately_and_its_body_skipped() {
    let fault = "!-32600 header-too-large";
    let (pad, short) = ("x".repeat(200), "X-A: 1\r\n".repeat(20));
    let length = format!("Content-Length: {}", A.len());
    let rows: [(String, &[&str]); 11] = [
        // One long header.
        (format!("X-Pad: {pad}\r\n{length}"), &[fault]),
        (format!("{length}\r\nX-Pad: {pad}"), &[fault]),
        // Many short headers.
        (format!("{short}{length}"), &[fault]),
        // A length that is not a number, and two that disagree: no reliable body length.
        (format!("X-Pad: {pad}\r\nContent-Length: x"), &[fault]),
        (format!("X-Pad: {pad}\r\nContent-Length: 1\r\nContent-Length: 2"), &[fault]),
        // The first line is not a header: the length begins the next frame.
        (format!("{pad}\r\n{length}"), &[fault, A]),
        (format!("{pad}{length}"), &[fault, A]),
        // A length that is not at the start of a line does not belong to the section either.
        (format!("X-Pad: {pad} {length}"), &[fault, A]),
        (format!("X-Pad: {pad}\n{length}"), &[fault, A]),
        // A first line that ends with LF alone is not a header line, and later lines do not change
        // that.
        (format!("X-Pad: {pad}\nX: y\r\n{length}"), &[fault, A]),
        // A later bad line does not invalidate a section that began well.
        (format!("X-Pad: {pad}\r\nX: y\nX: y\r\n{length}"), &[fault]),
    ];
    for (header, expect) in rows {
        check(Lsp, &limits(), with_header(&header, A).as_bytes(), expect);
    }
}

#[test]
fn f13_the_limit_counts_the_lines_without_the_empty_one() {
    let limits = limits();
    let fixed = format!("Content-Length: {}\r\nX: ", A.len());
    let filled = |bytes: usize| {
        let pad = "x".repeat(bytes - fixed.len() - 2);
        with_header(&format!("{fixed}{pad}"), A)
    };
    rows(&[
        (&filled(limits.header_bytes), &[A]),
        (&filled(limits.header_bytes + 1), &["!-32600 header-too-large"]),
    ]);
}

#[test]
fn f13_a_limit_below_the_shortest_section_refuses_that_too() {
    let section = format!("Content-Length: {}\r\n", A.len()).len();
    let within = |header_bytes| limits().with(|it| it.header_bytes = header_bytes);
    let frame = framed(Lsp, A);
    check(Lsp, &within(section), &frame, &[A]);
    let refused = ["!-32600 header-too-large"];
    check_to_the_end(Lsp.into(), &within(section - 1), &frame, &refused, &[]);
}

#[test]
fn f13_only_the_bytes_up_to_the_limit_decide_about_a_long_first_line() {
    let fault = "!-32600 header-too-large";
    let named = |bytes| {
        let name = "x".repeat(bytes);
        with_header(&format!("{name}:\r\nContent-Length: {}", A.len()), A)
    };
    // The colon is the first byte over the limit, and still makes the line a header.
    rows(&[
        (&named(limits().header_bytes), &[fault]),
        (&named(limits().header_bytes + 1), &[fault, A]),
    ]);
}

#[test]
fn f2_f13_after_a_few_consecutive_long_sections_the_next_ones_are_searched() {
    let fault = "!-32600 header-too-large";
    let pad = "x".repeat(100);
    let long = format!("Content-Length: 5\r\nX: {pad} ");
    let length = format!("Content-Length: {}", A.len());
    let last = with_header(&format!("{length}\r\nX: {}\r\n{length}", &pad[..60]), A);
    // A section that is read makes the decoder skip a body; a section that is searched reveals the
    // next frame.
    rows(&[
        (&format!("{pad} {}{last}", long.repeat(7)), &[fault]),
        (&format!("{pad} {}{last}", long.repeat(8)), &[fault, A]),
        (&format!("{pad} {}{last}", long.repeat(9)), &[fault, A]),
        (&format!("{pad} {}{last}", long.repeat(20)), &[fault, A]),
    ]);
}

#[test]
fn f13_the_refusal_needs_no_further_bytes() {
    let input = format!("X: {}", "x".repeat(94));
    to_the_end(input, &["!-32600 header-too-large"], &[]);
}

#[test]
fn f14_an_oversize_body_is_refused_before_it_arrives_and_a_body_at_the_limit_is_served() {
    let body = "x".repeat(150);
    let limit = format!("\"{}\"", &body[..98]);
    rows(&[
        (&with_header("Content-Length: 100", &limit), &[&limit]),
        (&format!("Content-Length: 150\r\n\r\n{body}"), &["!-32600 oversize"]),
        // None of the body arrives, or a part of it.
        ("Content-Length: 150\r\n\r\n", &["!-32600 oversize"]),
        ("Content-Length: 150\r\n\r\n{\"half\":", &["!-32600 oversize"]),
        // The input ends inside the next header.
        (&format!("Content-Length: 150\r\n\r\n{}", &body[..145]), &["!-32600 oversize"]),
        (&format!("Content-Length: 150\r\n\r\n{}", &body[..140]), &["!-32600 oversize"]),
        (
            "Content-Length: 150\r\n\r\nContent-Length: 151\r\n\r\n",
            &["!-32600 oversize", "!-32600 oversize"],
        ),
    ]);
}

#[test]
fn f15_a_length_too_small_is_one_fault_with_the_bytes_left_over() {
    for length in 0..A.len() {
        rows(&[(&with_header(&format!("Content-Length: {length}"), A), &[PARSE_ERROR])]);
    }
    let pretty = "{\r\n  \"a\": \"b: c\",\r\n\r\n  \"d\": 1\r\n}";
    rows(&[(&with_header("Content-Length: 3", pretty), &[PARSE_ERROR])]);
}

#[test]
fn f15_a_length_too_large_swallows_nothing() {
    let next = String::from_utf8(framed(Lsp, B)).expect("UTF-8");
    for extra in 1..=next.len().min(100 - A.len()) {
        let header = format!("Content-Length: {}", A.len() + extra);
        let input = with_header(&header, &format!("{A}{next}"));
        rows(&[(&input, &[PARSE_ERROR, B])]);
    }
}

#[test]
fn f15_the_end_of_input_inside_a_frame_is_a_parse_error() {
    let frame = framed(Lsp, A);
    for cut in 1..frame.len() {
        to_the_end(&frame[..cut], &[], &[PARSE_ERROR]);
    }
    // Inside refused bytes there is no second fault.
    for (input, expect) in [
        ("hello\r\nwor", PARSE_ERROR),
        ("Content-Length: 150\r\n\r\nabc", "!-32600 oversize"),
        ("Content-Length: 2\r\n\r\nabc", PARSE_ERROR),
    ] {
        to_the_end(input, &[expect], &[]);
    }
}

#[test]
fn f15_bytes_left_over_are_the_same_fault_even_if_they_look_like_a_header() {
    let left_over = format!("{{\"a\":\"http://{}\"}}", "a".repeat(150));
    for end in ["", "\r\n"] {
        let input = with_header("Content-Length: 6", &format!("{left_over}{end}"));
        rows(&[(&input, &[PARSE_ERROR])]);
    }
}

#[test]
fn f12_f15_a_wrong_length_is_reported_before_a_wrong_type() {
    let header = "Content-Length: 90\r\nContent-Type: a/b\r\n\r\n[1,2]";
    to_the_end(header, &[], &[PARSE_ERROR]);
    let next = String::from_utf8(framed(Lsp, B)).expect("UTF-8");
    let long = format!("{header}{next}");
    to_the_end(long, &[PARSE_ERROR, B], &[]);
}

#[test]
fn the_largest_possible_limits_work() {
    let limits = Limits::default().with(|it| {
        it.message_bytes = usize::MAX;
        it.header_bytes = usize::MAX;
        it.depth = usize::MAX;
        it.batch_entries = usize::MAX;
        it.answered_faults = u32::MAX;
        it.in_flight = usize::MAX;
        it.waiting = usize::MAX;
        it.waiting_bytes = usize::MAX;
        it.pending_calls = usize::MAX;
        it.outgoing_bytes = usize::MAX;
        it.batch_bytes = usize::MAX;
    });
    check(Lsp, &limits, b"oops\r\nContent-Length: 2\r\n\r\n[]", &[PARSE_ERROR, "[]"]);
}

#[test]
fn f16_a_content_length_line_begins_the_next_frame_unless_it_follows_a_dash() {
    let length = B.len();
    rows(&[
        (&format!("junk\r\njunk cONTENT-lENGTH: \t{length} \r\n\r\n{B}"), &[PARSE_ERROR, B]),
        (&format!("junk\r\nX-Content-Length: {length}\r\n\r\n{B}"), &[PARSE_ERROR]),
        (&format!("junk\r\nContent-Length: {length}\n\n{B}"), &[PARSE_ERROR]),
        (&format!("junk\r\nContent-Length: {length}x\r\n\r\n{B}"), &[PARSE_ERROR]),
        (&format!("junk\r\nContent-Length:\r\n\r\n{B}"), &[PARSE_ERROR]),
    ]);
    // A line that is too long for any header section does not count.
    let padded = |line: usize| {
        let pad = " ".repeat(line - "Content-Length:\r\n".len() - 2);
        format!("junk\r\njunk Content-Length:{pad}{length}\r\n\r\n{B}")
    };
    let most = limits().header_bytes;
    rows(&[(&padded(most), &[PARSE_ERROR, B]), (&padded(most + 1), &[PARSE_ERROR])]);
    // A JSON string with these letters is not a frame.
    let text = r#"["Content-Length: 5\r\n"]"#;
    rows(&[(&with_header(&format!("Content-Length: {}", text.len()), text), &[text])]);
}

#[test]
fn f1_f11_conflicting_lengths_after_a_bad_body_give_the_same_events_however_cut() {
    let dispute = "Content-Length:5\r\nContent-Length:6\r\n\r\n";
    let input = format!("Content-Length:6\r\n\r\n{{\"j\n\n\n{dispute}");
    to_the_end(input, &[PARSE_ERROR], &[PARSE_ERROR]);
}

#[test]
fn f11_f16_after_a_fault_the_second_of_two_lengths_begins_the_next_frame() {
    for between in ["", "\r\n", "\n", "x", "x\r\n"] {
        let lengths = format!("Content-Length: 9\r\n{}", with_header("Content-Length: 2", "[]"));
        rows(&[(&format!("Content-Length: 1\r\n\r\nx{between}{lengths}"), &[PARSE_ERROR, "[]"])]);
    }
}

#[test]
fn f2_f11_f13_f15_faults_after_a_skipped_oversize_body_are_reported_again() {
    for end in ["x", "\n"] {
        let oversize = format!("Content-Length: 151\r\n\r\n{}{end}", "x".repeat(150));
        let pad = "x".repeat(150);
        let told = |section: &str, fault: &str| {
            rows(&[(&format!("{oversize}{section}"), &["!-32600 oversize", fault])]);
        };
        told("Content-Length: 5\r\nbad\r\n\r\n", PARSE_ERROR);
        told("Content-Length: 5\r\nContent-Length: 2\r\n\r\n[]", PARSE_ERROR);
        told(&format!("Content-Length: 5\r\nX: {pad}\r\n\r\nhello"), "!-32600 header-too-large");
        let cut = format!("{oversize}Content-Length: 5\r\n");
        to_the_end(cut, &["!-32600 oversize"], &[PARSE_ERROR]);
    }
}

#[test]
fn f2_f13_two_bad_frames_are_two_faults_and_glued_headers_are_one_fault() {
    let skipped = format!("Content-Length: 150\r\n\r\n{}", "x".repeat(150));
    rows(&[
        ("Content-Length: 3\r\n\r\nabcContent-Length: 3\r\n\r\nxyz", &[PARSE_ERROR, PARSE_ERROR]),
        ("Content-Length: 0\r\n\r\nContent-Length: 1\r\n\r\n?", &[PARSE_ERROR, PARSE_ERROR]),
        // After an oversize frame was skipped, the position is certain again.
        (&format!("{skipped}Content-Length: x\r\n\r\n"), &["!-32600 oversize", PARSE_ERROR]),
        (&"aContent-Length: 5\r\n".repeat(40), &["!-32600 header-too-large"]),
    ]);
}
