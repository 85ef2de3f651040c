//! The read timeout (F6).

mod support;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use duet_rpc_proto::Limits;
use duet_rpc_proto::frame::{Decoder, Framing, ReadTimer};
use support::{TAIL, drain, feed, framed};

const A: &str = r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#;
const B: &str = r#"{"jsonrpc":"2.0","id":2,"method":"b"}"#;

fn limits() -> Limits {
    Limits::default().with(|it| {
        it.message_bytes = 100;
        it.header_bytes = 64;
    })
}

/// Instants this many seconds after the start.
fn clock() -> impl Fn(u64) -> Instant {
    let start = Instant::now();
    move |seconds| start + Duration::from_secs(seconds)
}

fn thirty_seconds() -> ReadTimer {
    ReadTimer::new(Some(Duration::from_secs(30)))
}

#[test]
fn f6_the_clock_runs_from_a_frames_first_byte_to_its_last() {
    let at = clock();
    for framing in Framing::ALL {
        let frame = framed(framing, A);
        let mut decoder = Decoder::new(framing, &limits());
        let mut timer = thirty_seconds();
        let mut read = |decoder: &mut Decoder, bytes: &[u8], now| {
            feed(decoder, &[bytes]);
            timer.observe(decoder.partial(), now);
            timer.deadline()
        };
        assert_eq!(read(&mut decoder, b"", at(0)), None, "idle");
        assert_eq!(read(&mut decoder, &frame[..1], at(1)), Some(at(31)));
        assert_eq!(read(&mut decoder, &frame[1..20], at(20)), Some(at(31)), "not from the last");
        // One frame ends and another begins: a new clock.
        let rest = [&frame[20..], &frame[..3]].concat();
        assert_eq!(read(&mut decoder, &rest, at(25)), Some(at(55)));
        assert_eq!(read(&mut decoder, &frame[3..], at(26)), None, "idle again");
    }
    let mut timer = ReadTimer::new(None);
    let mut decoder = Decoder::new(Framing::Ndjson, &limits());
    feed(&mut decoder, &[b"{"]);
    timer.observe(decoder.partial(), at(0));
    assert_eq!(timer.deadline(), None, "off");
}

#[test]
fn f6_a_frame_after_bytes_without_an_event_has_its_own_clock() {
    let at = clock();
    // The bytes at 0 s are consumed without an event; the bytes at 29 s begin a new frame.
    let rows: [(Framing, &[u8], &[u8]); 3] = [
        (Framing::Lsp, b"Content-Length: 3\r\n\r\nabc\r\nX", b"\r\nContent-Length: 2\r\n"),
        (Framing::Length, b"\0\x20\0\0", b"\0\0\0\x02["),
        (Framing::Length, b"x\0\0", b"y\0\0\0\x02["),
    ];
    for (framing, first, second) in rows {
        let mut decoder = Decoder::new(framing, &limits());
        let mut timer = thirty_seconds();
        feed(&mut decoder, &[first]);
        timer.observe(decoder.partial(), at(0));
        feed(&mut decoder, &[second]);
        timer.observe(decoder.partial(), at(29));
        assert_eq!(timer.deadline(), Some(at(59)), "{framing}");
    }
    let mut decoder = Decoder::new(Framing::Ndjson, &limits());
    let mut timer = thirty_seconds();
    feed(&mut decoder, &[b"{\"a\":"]);
    assert!(decoder.handle_timeout().is_some());
    feed(&mut decoder, &[b"1"]);
    timer.observe(decoder.partial(), at(31));
    feed(&mut decoder, &[b"}\n{\"b\":"]);
    timer.observe(decoder.partial(), at(60));
    assert_eq!(timer.deadline(), Some(at(90)));
}

#[test]
fn f6_f14_the_clock_runs_from_the_first_byte_after_a_refused_body_that_ends_a_line() {
    let mut decoder = Decoder::new(Framing::Lsp, &limits());
    let body = format!("{}\n", "x".repeat(149));
    feed(&mut decoder, &[b"Content-Length: 150\r\n\r\n", body.as_bytes()]);
    assert_eq!(decoder.partial(), None);
    feed(&mut decoder, &[b"C"]);
    assert!(decoder.partial().is_some());
}

#[test]
fn f6_every_frame_has_its_own_serial() {
    for framing in Framing::ALL {
        let (frame, bad) = (framed(framing, A), framed(framing, "nope"));
        let mut decoder = Decoder::new(framing, &limits());
        let mut serials = Vec::new();
        let mut begin = |decoder: &mut Decoder, before: &[u8], start: &[u8]| {
            feed(decoder, &[before, start]);
            let partial = decoder.partial().expect("a frame is begun");
            serials.push(partial.serial);
        };
        begin(&mut decoder, b"", &frame[..30]);
        begin(&mut decoder, &frame[30..], &bad[..2]);
        begin(&mut decoder, &bad[2..], &frame[..30]);
        assert!(decoder.handle_timeout().is_some());
        begin(&mut decoder, b"", &frame[..30]);
        let distinct: HashSet<_> = serials.iter().collect();
        assert_eq!(distinct.len(), 4, "{framing}: {serials:?}");
        let shown = format!("{decoder:?}");
        assert!(shown.contains(&format!("{framing:?}")) && shown.contains("Partial"), "{shown}");
    }
}

#[test]
fn f6_a_timeout_with_bytes_not_decoded_yet_drops_nothing() {
    for framing in Framing::ALL {
        let mut decoder = Decoder::new(framing, &limits());
        let stream = [framed(framing, A), framed(framing, B)].concat();
        assert_eq!(feed(&mut decoder, &[&stream[..25]]), [""; 0]);
        assert_eq!(decoder.feed(&stream[25..]), stream.len() - 25);
        assert_eq!(decoder.handle_timeout(), None, "{framing}");
        assert_eq!(drain(&mut decoder), [A, B], "{framing}");
    }
}

#[test]
fn f6_a_timeout_with_events_left_to_take_drops_nothing() {
    for framing in Framing::ALL {
        let mut decoder = Decoder::new(framing, &limits());
        let (a, b) = (framed(framing, A), framed(framing, B));
        assert_eq!(feed(&mut decoder, &[&a[..30]]), [""; 0]);
        let rest = [&a[30..], &b[..30]].concat();
        assert_eq!(decoder.feed(&rest), rest.len());
        assert!(decoder.next_event().is_some());
        assert_eq!(decoder.handle_timeout(), None, "{framing}");
        assert_eq!(feed(&mut decoder, &[&b[30..]]), [B], "{framing}");
    }
}

#[test]
fn f6_a_timeout_keeps_a_frame_inside_the_dropped_one() {
    // The length is too large, so the header of the next frame begins inside the body.
    let mut decoder = Decoder::new(Framing::Lsp, &limits());
    feed(&mut decoder, &[b"Content-Length: 100\r\n\r\n[1,2]Content-Len"]);
    assert!(decoder.handle_timeout().is_some());
    assert_eq!(feed(&mut decoder, &[b"gth: 2\r\n\r\n[]"]), ["[]"]);
    // Stray bytes and the first bytes of a frame look like a longer length.
    let mut decoder = Decoder::new(Framing::Length, &Limits::default());
    let text = format!("\"{}\"", "x".repeat(0x4141 - 2));
    let stream = [b"\x00\x05", &framed(Framing::Length, &text)[..]].concat();
    assert_eq!(feed(&mut decoder, &[&stream]), [""; 0]);
    assert!(decoder.handle_timeout().is_some());
    assert_eq!(drain(&mut decoder), [text]);
}

#[test]
fn f6_the_clock_stops_while_paused() {
    let at = clock();
    let mut decoder = Decoder::new(Framing::Ndjson, &limits());
    let mut timer = thirty_seconds();
    feed(&mut decoder, &[b"{"]);
    timer.observe(decoder.partial(), at(0));
    timer.pause(at(10));
    timer.pause(at(12));
    assert_eq!(timer.deadline(), None);
    timer.resume(at(100));
    timer.resume(at(200));
    assert_eq!(timer.deadline(), Some(at(120)));
    // A frame that first arrives while paused has not waited before.
    let mut timer = thirty_seconds();
    timer.pause(at(0));
    timer.observe(decoder.partial(), at(10));
    timer.resume(at(11));
    assert_eq!(timer.deadline(), Some(at(41)));
}

/// Feeds a part, lets it time out, feeds the late rest, and then a frame.
fn after_timeout(framing: Framing, part: &[u8], late: &[u8], expect: &[&str]) {
    let mut decoder = Decoder::new(framing, &limits());
    assert_eq!(feed(&mut decoder, &[part]), [""; 0], "{framing}");
    assert!(decoder.handle_timeout().is_some());
    assert_eq!(decoder.partial(), None);
    let rest = [late, &framed(framing, TAIL)].concat();
    let found = feed(&mut decoder, &rest.chunks(1).collect::<Vec<_>>());
    assert_eq!(found, [expect, &[TAIL]].concat(), "{framing} {}", part.escape_ascii());
    decoder.finish();
    assert_eq!(drain(&mut decoder), [""; 0]);
}

#[test]
fn f6_a_timeout_drops_the_frame_and_its_late_bytes_silently() {
    for framing in [Framing::Lsp, Framing::Length] {
        let frame = framed(framing, A);
        for cut in 1..frame.len() {
            after_timeout(framing, &frame[..cut], &frame[cut..], &[]);
            after_timeout(framing, &frame[..cut], b"", &[]);
        }
    }
    after_timeout(Framing::Ndjson, b"{\"half\":", b"1}\n", &[]);
    after_timeout(Framing::Ndjson, b"{\"half\":", b"\n", &[]);
    let long = format!("{}\n", "x".repeat(200));
    after_timeout(Framing::Ndjson, b"{\"half\":", long.as_bytes(), &[]);
    // The late line is a text by itself: it is served.
    after_timeout(Framing::Ndjson, b"{\"half\":", format!("{B}\n").as_bytes(), &[B]);
}

#[test]
fn f6_any_number_of_timeouts_in_a_row_leaves_the_decoder_alive() {
    for framing in Framing::ALL {
        let (frame, mut decoder) = (framed(framing, A), Decoder::new(framing, &limits()));
        for _ in 0..100 {
            assert_eq!(feed(&mut decoder, &[&frame[..30]]), [""; 0]);
            let dropped = decoder.handle_timeout().expect("a frame was begun");
            assert!(dropped.expected.is_none_or(|expected| expected > dropped.received));
        }
        let rest = [&b"\n"[..], &frame].concat();
        assert_eq!(feed(&mut decoder, &[&rest]), [A], "{framing}");
    }
}

#[test]
fn f6_between_frames_and_in_refused_bytes_nothing_times_out() {
    let rows: [(Framing, &[u8]); 7] = [
        (Framing::Lsp, b"\r\n \r\n"),
        (Framing::Lsp, b"garbage\r\nmore"),
        (Framing::Lsp, b"Content-Length: 1000\r\n\r\nabc"),
        (Framing::Ndjson, b" \r\n\t"),
        (Framing::Ndjson, &[b'x'; 150]),
        (Framing::Length, b"\x00\xff\xff\xffabc"),
        // A frame may begin inside the refused prefix.
        (Framing::Length, b"\x00\x10\x00\x01"),
    ];
    for (framing, bytes) in rows {
        let mut decoder = Decoder::new(framing, &limits());
        feed(&mut decoder, &[bytes]);
        assert_eq!((decoder.partial(), decoder.handle_timeout()), (None, None), "{framing}");
    }
}
