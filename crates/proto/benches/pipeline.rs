//! Benchmark: decode, classify and write an answer, compared with serde_json into an owned
//! envelope: `cargo bench -p duet-rpc-proto --bench pipeline`.

#![allow(missing_docs, reason = "a benchmark has no public items")]

mod support;

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use duet_rpc_proto::frame::Framing;
use support::{Core, OwnedAnswer, OwnedEnvelope, SIZES, framed, nested_request};

#[global_allocator]
static ALLOCATIONS: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() {
    divan::main();
}

const BYTES: [usize; 4] = [SIZES[0].1, SIZES[1].1, SIZES[2].1, SIZES[3].1];

fn ours(bencher: Bencher<'_, '_>, size: usize, framing: Framing) {
    let frame = framed(framing, &nested_request(size));
    let mut core = Core::new(framing);
    core.answer(&frame);
    bencher.counter(BytesCount::new(size)).bench_local(|| core.answer(black_box(&frame)));
}

#[divan::bench(args = BYTES)]
fn lsp(bencher: Bencher<'_, '_>, size: usize) {
    ours(bencher, size, Framing::Lsp);
}

#[divan::bench(args = BYTES)]
fn ndjson(bencher: Bencher<'_, '_>, size: usize) {
    ours(bencher, size, Framing::Ndjson);
}

#[divan::bench(args = BYTES)]
fn length(bencher: Bencher<'_, '_>, size: usize) {
    ours(bencher, size, Framing::Length);
}

#[divan::bench(args = BYTES)]
fn owned_serde_json(bencher: Bencher<'_, '_>, size: usize) {
    let request = nested_request(size);
    let mut out = Vec::new();
    bencher.counter(BytesCount::new(size)).bench_local(|| {
        out.clear();
        if let Ok(envelope) = serde_json::from_slice::<OwnedEnvelope>(black_box(request.as_bytes()))
        {
            let answer = OwnedAnswer { jsonrpc: "2.0", id: envelope.id, result: envelope.params };
            black_box(serde_json::to_writer(&mut out, &answer).is_ok());
        }
        out.len()
    });
}
