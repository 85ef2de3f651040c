//! Benchmark: decode and classify, compared with serde_json in one run: `cargo bench -p
//! duet-rpc-proto --bench ratio`.
//!
//! Machines are noisy, so the contenders take turns, and the result is the median of the ratios
//! within each round. Each contender gets its bytes as from a read, by a copy into its own buffer:
//! ours in chunks of up to 2 KiB, the others one message at a time, already cut. Ours does more: it
//! finds the frames and checks the depth, ignored members and duplicates.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

mod support;

use std::hint::black_box;
use std::time::Instant;

use duet_rpc_proto::frame::Framing;
use support::{BorrowedEnvelope, Core, OwnedEnvelope, SIZES, framed, nested_request};

const ROUNDS: usize = 101;
const BYTES_A_ROUND: usize = 2 << 20;
const CHUNK: usize = 2 * 1024;

fn main() {
    println!("decode + classify, nanoseconds a message (median of {ROUNDS} rounds)\n");
    println!(
        "| message | framing | ours | borrowed serde_json | ratio | owned serde_json | ratio |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, size) in SIZES {
        for framing in Framing::ALL {
            row(name, framing, &nested_request(size));
        }
    }
}

fn row(name: &str, framing: Framing, request: &str) {
    let frame = framed(framing, request);
    let in_a_chunk = (CHUNK / frame.len()).max(1);
    let chunk = frame.repeat(in_a_chunk);
    let chunks = (BYTES_A_ROUND / chunk.len()).max(2);
    let mut core = Core::new(framing);
    let mut ours = || assert_eq!(core.classify(black_box(&chunk)), in_a_chunk);
    let (mut buffer, mut other_buffer) = (Vec::new(), Vec::new());
    let mut borrowed = || {
        let text = simdutf8::basic::from_utf8(read(request, &mut buffer));
        let text = text.unwrap_or_default();
        let envelope = serde_json::from_str::<BorrowedEnvelope<'_>>(text);
        black_box(envelope.is_ok_and(|it| it.jsonrpc == "2.0" && !it.method.is_empty()));
    };
    let mut owned = || {
        let text = read(request, &mut other_buffer);
        let envelope = serde_json::from_slice::<OwnedEnvelope>(text);
        black_box(envelope.is_ok_and(|it| it.jsonrpc == "2.0" && !it.method.is_empty()));
    };
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let messages = chunks * in_a_chunk;
        let mine = time(chunks, &mut ours) / in_a_chunk as f64;
        rounds.push([mine, time(messages, &mut borrowed), time(messages.div_ceil(8), &mut owned)]);
    }
    let median = |of: fn(&[f64; 3]) -> f64| {
        let mut all: Vec<_> = rounds.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    println!(
        "| {name} | {framing} | {:.0} | {:.0} | {:.2} | {:.0} | {:.2} |",
        median(|round| round[0]),
        median(|round| round[1]),
        median(|round| round[0] / round[1]),
        median(|round| round[2]),
        median(|round| round[0] / round[2]),
    );
}

fn read<'b>(message: &str, buffer: &'b mut Vec<u8>) -> &'b [u8] {
    buffer.clear();
    buffer.extend_from_slice(black_box(message.as_bytes()));
    buffer
}

fn time(times: usize, mut act: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..times {
        act();
    }
    start.elapsed().as_nanos() as f64 / times as f64
}
