//! Messages and contenders of the benchmarks.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "each benchmark uses its part of this")]

use duet_rpc_proto::Limits;
use duet_rpc_proto::frame::{Decoder, Event, Framing, write_frame};
use duet_rpc_proto::message::{Incoming, write_raw_result};
use duet_rpc_proto::policy::BatchRule;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The sizes that the tables show.
pub const SIZES: [(&str, usize); 4] =
    [("64 B", 64), ("1 KB", 1024), ("64 KB", 64 * 1024), ("1 MB", 1024 * 1024)];

/// A request of `size` bytes whose params are a list of diagnostics, as from a language server:
/// nested objects, numbers of several kinds, words, short and longer strings.
pub fn nested_request(size: usize) -> String {
    let head = r#"{"jsonrpc":"2.0","id":12345,"method":"text/check","params":["#;
    if size <= 64 {
        return format!("{head}10]}}");
    }
    let mut entries = String::new();
    for n in 0.. {
        let entry = format!(
            r#"{{"range":{{"start":{{"line":{n},"character":4}},"end":{{"line":{n},"character":{}}}}},"severity":{},"code":"E{:04}","source":"check","message":"mismatched types: expected `u32`, found `&str`","tags":[1],"fresh":{},"data":{{"score":{}.25,"note":null,"uri":"file:///src/module_{n}.rs"}}}},"#,
            n % 80 + 9,
            n % 4 + 1,
            n * 37 % 10_000,
            n % 3 == 0,
            n * 7,
        );
        if head.len() + entries.len() + entry.len() + 4 > size {
            break;
        }
        entries.push_str(&entry);
    }
    // One string fills the request up to the exact size.
    let padding = "x".repeat(size - head.len() - entries.len() - 4);
    format!(r#"{head}{entries}"{padding}"]}}"#)
}

/// A text in a frame.
pub fn framed(framing: Framing, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let written = write_frame(framing, &mut out, |out| {
        out.extend_from_slice(text.as_bytes());
        Ok::<_, std::convert::Infallible>(())
    });
    let Ok(()) = written;
    out
}

/// This crate.
pub struct Core {
    decoder: Decoder,
    framing: Framing,
    limits: Limits,
    out: Vec<u8>,
}

impl Core {
    pub fn new(framing: Framing) -> Self {
        let limits = Limits::default().with(|it| it.message_bytes = 2 << 20);
        Core { decoder: Decoder::new(framing, &limits), framing, limits, out: Vec::new() }
    }

    /// Decodes and classifies the bytes of whole frames.
    pub fn classify(&mut self, bytes: &[u8]) -> usize {
        self.each(bytes, |_, _, _| {})
    }

    /// Decodes, classifies, and answers each request with its params.
    pub fn answer(&mut self, bytes: &[u8]) -> usize {
        self.out.clear();
        self.each(bytes, |framing, out, incoming| {
            let Incoming::Request(request) = incoming else { return };
            let written = write_frame(framing, out, |out| {
                write_raw_result(out, request.id, request.params.as_raw().unwrap_or("null"));
                Ok::<_, std::convert::Infallible>(())
            });
            let Ok(()) = written;
        });
        self.out.len()
    }

    fn each(&mut self, bytes: &[u8], act: impl Fn(Framing, &mut Vec<u8>, &Incoming<'_>)) -> usize {
        let (mut rest, mut count) = (bytes, 0);
        while !rest.is_empty() {
            let taken = self.decoder.feed(rest);
            rest = &rest[taken..];
            while let Some(event) = self.decoder.next_event() {
                if let Event::Frame(text) = event {
                    let incoming = Incoming::classify(&text, BatchRule::Reject, &self.limits);
                    act(self.framing, &mut self.out, &incoming);
                    std::hint::black_box(&incoming);
                    count += 1;
                }
            }
        }
        count
    }
}

/// The usual way: an envelope that owns a tree of values.
#[derive(Deserialize)]
pub struct OwnedEnvelope {
    pub jsonrpc: String,
    pub id: serde_json::Value,
    pub method: String,
    pub params: serde_json::Value,
}

/// The answer of the usual way.
#[derive(Serialize)]
pub struct OwnedAnswer {
    pub jsonrpc: &'static str,
    pub id: serde_json::Value,
    pub result: serde_json::Value,
}

/// The fast way with serde_json: an envelope that borrows, with raw params.
#[derive(Deserialize)]
pub struct BorrowedEnvelope<'a> {
    #[serde(borrow)]
    pub jsonrpc: &'a str,
    #[serde(borrow)]
    pub id: &'a RawValue,
    #[serde(borrow)]
    pub method: &'a str,
    #[serde(borrow)]
    pub params: &'a RawValue,
}
