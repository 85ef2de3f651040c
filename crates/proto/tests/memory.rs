//! Costs: no allocation for a small message, bounded memory for a hostile one (F3, M9), and time
//! proportional to the input.

mod support;

use std::time::Instant;

use allocation_counter::measure;
use duet_rpc_proto::frame::{Decoder, Event, Framing, write_frame};
use duet_rpc_proto::message::{Incoming, Params, Reply, write_raw_result};
use duet_rpc_proto::policy::{BatchRule, Order};
use duet_rpc_proto::session::{Handled, Session};
use duet_rpc_proto::text::Text;
use duet_rpc_proto::{Limits, Profile};
use serde_json::value::RawValue;
use support::{Random, framed};

/// Feeds a chunk, and answers each request with its params.
fn serve(decoder: &mut Decoder, framing: Framing, chunk: &[u8], out: &mut Vec<u8>) -> usize {
    let limits = Limits::default();
    let mut served = 0;
    decoder.space().extend_from_slice(chunk);
    while let Some(event) = decoder.next_event() {
        let written = write_frame(framing, out, |out| match event {
            Event::Frame(text) => match Incoming::classify(&text, BatchRule::Reject, &limits) {
                Incoming::Request(request) => {
                    served += 1;
                    let params = request.params.as_raw().unwrap_or("null");
                    write_raw_result(out, request.id, params);
                    Ok(())
                }
                other => Err(format!("{other:?}")),
            },
            Event::Fault(fault) => Err(fault.to_string()),
        });
        assert_eq!(written, Ok(()));
    }
    served
}

#[test]
fn a_small_message_is_decoded_classified_and_answered_without_an_allocation() {
    // The longest id that is stored inline: 30 bytes with its quotes.
    let id = "x".repeat(28);
    let params = format!("[\"{}\",{{\"é\":[1,2.5,null]}}]", "y".repeat(850));
    let request = format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"a/b","params":{params}}}"#);
    assert!((900..1024).contains(&request.len()));
    let small = r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#;
    for framing in Framing::ALL {
        let chunk = [framed(framing, &request), framed(framing, small)].concat();
        let mut decoder = Decoder::new(framing, &Limits::default());
        let mut out = Vec::new();
        // The first rounds grow the buffers to their size.
        for _ in 0..10 {
            serve(&mut decoder, framing, &chunk, &mut out);
            out.clear();
        }
        let measured = measure(|| {
            for _ in 0..1000 {
                assert_eq!(serve(&mut decoder, framing, &chunk, &mut out), 2);
                out.clear();
            }
        });
        assert_eq!(measured.count_total, 0, "{framing}");
    }
}

#[test]
fn s3_raw_params_are_not_parsed_again() {
    let nested = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let measured = measure(|| {
        let raw: &RawValue = Params::Array(&nested).parse().expect("any text is one");
        assert_eq!(raw.get().len(), nested.len());
    });
    // A parser would allocate for each level.
    assert_eq!(measured.count_total, 0);
}

#[test]
fn f3_a_moved_body_takes_no_more_room_than_it_needs() {
    let body = [b'x'; 100_000];
    for framing in Framing::ALL {
        let mut out = Vec::with_capacity(body.len() + 64);
        let measured = measure(|| {
            // A writer guesses three digits at first.
            let written = write_frame(framing, &mut out, |out| {
                out.extend_from_slice(&body);
                Ok::<_, ()>(())
            });
            assert_eq!(written, Ok(()));
        });
        assert_eq!(measured.count_total, 0, "{framing}");
    }
}

/// Feeds the input in reads of the size that the decoder offers. Returns the answers in short form,
/// and the peak of allocated bytes.
fn flood(framing: Framing, limits: &Limits, input: &[u8]) -> (Vec<String>, u64) {
    let mut answers = Vec::new();
    let measured = measure(|| {
        let mut decoder = Decoder::new(framing, limits);
        let mut rest = input;
        loop {
            let count = decoder.feed(rest);
            rest = &rest[count..];
            if count == 0 {
                decoder.finish();
            }
            while let Some(event) = decoder.next_event() {
                if answers.len() < 10 {
                    answers.push(match event {
                        Event::Frame(text) => format!("{} bytes", text.as_str().len()),
                        Event::Fault(fault) => support::short(&Reply::to_fault(&fault)),
                    });
                } else {
                    panic!("too many answers: {answers:?}");
                }
            }
            if count == 0 {
                break;
            }
        }
    });
    (answers, measured.bytes_max)
}

const TEN_MB: usize = 10_000_000;

/// Maximum number of allocated bytes: the largest buffer, the half from which it grew, and the memory
/// of the test itself. The counter sees both buffers while one grows, although the system may extend
/// a large buffer in place.
fn bound(limits: &Limits) -> u64 {
    (limits.message_bytes * 3 / 2 + limits.header_bytes + 64 * 1024 + 16 * 1024) as u64
}

/// Floods of ten megabytes, and the answers to each.
fn floods() -> Vec<(Framing, Vec<u8>, &'static [&'static str])> {
    let times = |what: &[u8]| what.repeat(TEN_MB / what.len());
    let mut random = Random(42);
    let noise: Vec<u8> = (0..TEN_MB).map(|_| random.below(256) as u8).collect();
    let huge = b"Content-Length: 18446744073709551616\r\n\r\n".to_vec();
    vec![
        (Framing::Lsp, times(b"["), &["!-32600 header-too-large"]),
        (Framing::Lsp, times(b"{\"a\":"), &["!-32600 header-too-large"]),
        (Framing::Lsp, times(b"\r\n"), &[]),
        (Framing::Lsp, times(b"\0"), &["!-32600 header-too-large"]),
        (Framing::Lsp, times(b"X: y\r\n"), &["!-32600 header-too-large"]),
        (Framing::Lsp, times(b"0\r\n"), &["!-32700"]),
        (Framing::Lsp, times(b"aContent-Length: 5\r\n"), &["!-32600 header-too-large"]),
        (Framing::Lsp, times(b"x:Content-Length: 5\r\n"), &["!-32600 header-too-large"]),
        (Framing::Lsp, noise.clone(), &["!-32700"]),
        (Framing::Lsp, [huge, times(b"{\"a\":")].concat(), &["!-32600 oversize"]),
        (Framing::Lsp, framed(Framing::Lsp, times(b"[")), &["!-32600 oversize"]),
        (Framing::Lsp, framed(Framing::Lsp, &times(b"[")[..1 << 20]), &["!-32700"]),
        (Framing::Ndjson, times(b"["), &["!-32600 oversize"]),
        (Framing::Ndjson, times(b"{\"a\":"), &["!-32600 oversize"]),
        (Framing::Ndjson, times(b"\r\n"), &[]),
        (Framing::Ndjson, times(b"\0"), &["!-32600 oversize"]),
        (Framing::Length, times(b"["), &["!-32700"]),
        (Framing::Length, times(b"{\"a\":"), &["!-32700"]),
        (Framing::Length, times(b"\r\n"), &["!-32600 oversize"]),
        (Framing::Length, times(b"\0"), &["!-32700"]),
        (Framing::Length, times(b"\0\0\0\x05"), &["!-32700"]),
        (Framing::Length, noise, &["!-32600 oversize"]),
        (Framing::Length, b"\xff\xff\xff\xff".to_vec(), &["!-32600 oversize"]),
    ]
}

#[test]
fn f3_m9_ten_megabytes_of_anything_cost_bounded_memory_and_one_fault() {
    let limits = Limits::default();
    for (framing, input, expect) in floods() {
        let (answers, most) = flood(framing, &limits, &input);
        let start = input[..input.len().min(50)].escape_ascii();
        assert_eq!(answers, expect, "{framing} {start}");
        assert!(most <= bound(&limits), "{framing} {start}: {most} bytes");
    }
}

#[test]
fn m9_ten_megabytes_of_nesting_within_the_message_limit_are_a_parse_error() {
    let limits = Profile::editor().limits;
    for opening in ["[", "{\"a\":"] {
        let deep = opening.repeat(TEN_MB / opening.len());
        let (answers, most) = flood(Framing::Lsp, &limits, &framed(Framing::Lsp, deep));
        assert_eq!(answers, ["!-32700"]);
        assert!(most <= bound(&limits), "{most} bytes");
    }
}

#[test]
fn f3_nothing_is_allocated_ahead_of_the_bytes_that_arrive() {
    let limits = Limits::default().with(|it| it.message_bytes = 1 << 30);
    let lsp = b"Content-Length: 1000000000\r\n\r\n[".to_vec();
    let length = b"\x3b\x9a\xca\x00[".to_vec();
    for (framing, input) in [(Framing::Lsp, lsp), (Framing::Length, length)] {
        let (answers, most) = flood(framing, &limits, &input);
        assert_eq!(answers, ["!-32700"], "the input ends inside the frame");
        assert!(most < 16 * 1024, "{framing}: {most} bytes");
    }
}

#[test]
fn f3_a_message_at_the_limit_takes_no_more_than_the_limit() {
    let limits = Limits::default();
    let text = format!("\"{}\"", "x".repeat(limits.message_bytes - 2));
    for framing in Framing::ALL {
        let (answers, most) = flood(framing, &limits, &framed(framing, &text));
        assert_eq!(answers, ["1048576 bytes"]);
        assert!(most <= bound(&limits), "{framing}: {most} bytes");
    }
}

#[test]
fn an_idle_decoder_frees_its_memory() {
    let text = format!("\"{}\"", "x".repeat(500_000));
    let measured = measure(|| {
        let mut decoder = Decoder::new(Framing::Ndjson, &Limits::default());
        support::feed(&mut decoder, &[&framed(Framing::Ndjson, &text), b"[1,"]);
        decoder.shrink();
        let held = decoder.partial().map(|partial| partial.received);
        assert_eq!(held, Some(3), "the bytes that have arrived stay");
        std::mem::forget(decoder);
    });
    assert!(measured.bytes_current < 100, "{} bytes", measured.bytes_current);
}

#[test]
fn time_is_linear_even_byte_by_byte() {
    // Counts allocations instead of time: they show how often the decoder grows or moves its
    // buffer. A decoder that searched all bytes again after each byte would not finish in time.
    let limits = Limits::default();
    for framing in Framing::ALL {
        let frame = framed(framing, format!("\"{}\"", "x".repeat(1_000_000)));
        let mut decoder = Decoder::new(framing, &limits);
        let mut found = Vec::new();
        let measured = measure(|| {
            for byte in &frame {
                decoder.space().push(*byte);
                found.extend(support::drain(&mut decoder));
            }
        });
        assert_eq!(found.len(), 1);
        assert!(measured.count_total < 100, "{framing}: {}", measured.count_total);
    }
}

/// Lets a session handle a message, and parks a handler that starts.
fn handle(session: &mut Session<()>, message: &str) {
    let profile = *session.profile();
    let text = Text::check(message.as_bytes(), profile.limits.depth).expect("it is JSON");
    let message = Incoming::classify(&text, profile.batch, &profile.limits);
    let handled = session.handle(&message, None, Instant::now(), &mut Vec::new());
    if let Handled::Start(job) = handled {
        session.park(job);
    }
    assert!(session.next_ready(&mut Vec::new()).is_none());
}

#[test]
fn p9_requests_cancelled_while_waiting_leave_nothing_behind() {
    for order in [Order::Sequential, Order::Barrier, Order::Concurrent, Order::ByKey] {
        let profile = Profile::agent().max_in_flight(1).with(|it| it.order = order);
        let mut session = Session::<()>::new(&profile);
        // It takes the only slot.
        handle(&mut session, r#"{"jsonrpc":"2.0","method":"park"}"#);
        let mut churn = |rounds| {
            for _ in 0..rounds {
                handle(&mut session, r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#);
                handle(
                    &mut session,
                    r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#,
                );
            }
        };
        churn(10);
        let measured = measure(|| churn(1000));
        assert_eq!(measured.bytes_current, 0, "{order:?}");
    }
}
