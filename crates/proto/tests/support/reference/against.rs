//! Comparison of our code with the reference, on the same bytes.

use duet_rpc_proto::Limits;
use duet_rpc_proto::frame::{Decoder, Event, Framing};
use duet_rpc_proto::message::{Incoming, Params, Reply, Settled};
use duet_rpc_proto::policy::BatchRule;
use duet_rpc_proto::text::Text;

use super::framing::{self, Item, Sizes};
use super::{Refusal, Rules, Verdict, judge};

/// Checks that our code classifies a text as the rules do.
pub fn check_text(bytes: &[u8], rules: Rules) -> Verdict {
    let expect = readable(judge(bytes, rules));
    let found = classified(bytes, rules);
    assert_eq!(found, expect, "{rules:?} {}", bytes.escape_ascii());
    expect
}

/// Checks that our decoder, fed in pieces of this size, finds the same items in a stream as the rules.
pub fn check_stream(framing: Framing, stream: &[u8], sizes: Sizes, piece: usize) -> Vec<Item> {
    let expect = match framing {
        Framing::Ndjson => framing::ndjson(stream, sizes),
        Framing::Length => framing::length(stream, sizes),
        Framing::Lsp => panic!("the reference has no such framing"),
    };
    let found = decoded(framing, stream, sizes, piece);
    assert_eq!(found, expect, "{framing} {sizes:?} {}", stream.escape_ascii());
    expect
}

fn classified(bytes: &[u8], rules: Rules) -> Verdict {
    let Ok(text) = Text::check(bytes, rules.depth) else {
        return super::error(-32700, None, "null");
    };
    let batch = if rules.allow_batch { BatchRule::Allow } else { BatchRule::Reject };
    let limits = Limits::default().with(|it| {
        it.depth = rules.depth;
        it.batch_entries = rules.batch_entries;
    });
    meaning(Incoming::classify(&text, batch, &limits))
}

fn meaning(incoming: Incoming<'_>) -> Verdict {
    match incoming {
        Incoming::Request(it) => Verdict::Request {
            id: it.id.as_raw().to_owned(),
            method: utf16(&it.method),
            params: raw(it.params),
        },
        Incoming::Notification(it) => {
            Verdict::Notification { method: utf16(&it.method), params: raw(it.params) }
        }
        Incoming::Response(it) => Verdict::Response {
            id: it.id.as_raw().to_owned(),
            outcome: match it.settled {
                Settled::Result(result) => Ok(result.to_owned()),
                Settled::Error(error) => Err(error.to_owned()),
            },
        },
        Incoming::Batch(entries) => Verdict::Batch(entries.map(meaning).collect()),
        Incoming::Invalid(reply) => Verdict::Error(refusal(&reply)),
        Incoming::InvalidResponse(_) => Verdict::InvalidResponse,
    }
}

/// An error as it is written, so that the writer is checked as well.
fn refusal(reply: &Reply) -> Refusal {
    let mut out = Vec::new();
    reply.write(&mut out);
    let text = std::str::from_utf8(&out).expect("answers are UTF-8");
    let (code, reason) = (reply.error.code().0, reply.error.reason().map(|reason| reason.name()));
    let begins = match (code, reason) {
        (-32700, _) => "Parse error",
        (_, Some("batch-not-supported")) => "Batch requests not supported",
        _ => "Invalid Request",
    };
    let id = reply.id.as_raw();
    let head =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{begins}"#);
    assert!(text.starts_with(&head), "{text} for {head}");
    let data = reason.map_or(String::new(), |reason| format!(r#","data":{{"reason":"{reason}"}}"#));
    assert!(text.ends_with(&format!("\"{data}}}}}")), "{text} for {reason:?}");
    let code = i32::try_from(code).expect("a code of ours");
    Refusal { code, reason, id: id.to_owned() }
}

fn decoded(framing: Framing, stream: &[u8], sizes: Sizes, piece: usize) -> Vec<Item> {
    let limits = Limits::default().with(|it| {
        it.message_bytes = sizes.bytes;
        it.depth = sizes.depth;
    });
    let mut decoder = Decoder::new(framing, &limits);
    let mut items = Vec::new();
    for mut piece in stream.chunks(piece.max(1)) {
        while !piece.is_empty() {
            let count = decoder.feed(piece);
            piece = &piece[count..];
            take_all(&mut decoder, &mut items);
        }
    }
    decoder.finish();
    take_all(&mut decoder, &mut items);
    items
}

fn take_all(decoder: &mut Decoder, items: &mut Vec<Item>) {
    while let Some(event) = decoder.next_event() {
        items.push(match event {
            Event::Frame(text) => {
                let trimmed = text.as_str().trim_matches([' ', '\t', '\r', '\n']);
                Item::Body(trimmed.to_owned())
            }
            Event::Fault(fault) => {
                let refusal = refusal(&Reply::to_fault(&fault));
                assert_eq!(refusal.id, "null");
                Item::Fault(refusal.code, refusal.reason)
            }
        });
    }
}

/// A name with half a surrogate pair has no form in UTF-8; our code shows a mark instead.
fn readable(verdict: Verdict) -> Verdict {
    let name = |method: Vec<u16>| utf16(&String::from_utf16_lossy(&method));
    match verdict {
        Verdict::Request { id, method, params } => {
            Verdict::Request { id, method: name(method), params }
        }
        Verdict::Notification { method, params } => {
            Verdict::Notification { method: name(method), params }
        }
        Verdict::Batch(entries) => Verdict::Batch(entries.into_iter().map(readable).collect()),
        other => other,
    }
}

fn utf16(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

fn raw(params: Params<'_>) -> Option<String> {
    params.as_raw().map(str::to_owned)
}
