//! Damaged documents: whatever is changed, reading, showing and comparing them ends, and never with a panic.

use duet_rpc_api::{Document, compare};

const SEEDS: [&str; 2] = [
    include_str!("../../cli/tests/api/library.json"),
    r##"{"openrpc":"1.3.2","info":{"title":"T","version":"1"},"methods":[{"name":"m","params":[{"name":"p","schema":{"oneOf":[{"$ref":"#/components/schemas/A"},{"type":"null"},{"enum":["a",1]},{"prefixItems":[true],"items":false}]}}],"result":{"name":"r","schema":{"allOf":[{"not":{}},{"$ref":"#/components/schemas/A"}]}}}],"components":{"schemas":{"A":{"properties":{"t":{"const":"x"},"n":{"$ref":"#/components/schemas/A"},"d":{"$ref":"#/$defs/D"}},"$defs":{"D":{"type":["string","integer"]}},"patternProperties":{"^a":false},"required":["t"],"additionalProperties":{"type":"number","minimum":1}}}}}"##,
];

/// Pieces that are put into a document, in place of others.
const PIECES: [&str; 16] = [
    "null",
    "true",
    "{}",
    "[]",
    "1",
    "-0.5",
    "1e99",
    "\"\"",
    "\"$ref\"",
    "\"#\"",
    "\"#/components/schemas/A\"",
    "\"#/components/schemas/Book\"",
    "\"type\"",
    "\"anyOf\"",
    "\"allOf\"",
    "\"enum\"",
];

/// Values of the document text: places where a token begins and ends.
fn tokens(text: &str) -> Vec<(usize, usize)> {
    let (mut tokens, mut begin, mut in_string, mut is_escaped) = (Vec::new(), None, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if in_string && !is_escaped => {
                tokens.push((begin.take().unwrap_or(at), at + 1));
                in_string = false;
            }
            b'"' if !in_string => (in_string, begin) = (true, Some(at)),
            _ if in_string => is_escaped = byte == b'\\' && !is_escaped,
            b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' => _ = begin.get_or_insert(at),
            _ => tokens.extend(begin.take().map(|begin| (begin, at))),
        }
    }
    tokens
}

#[test]
fn a3_damaged_documents_never_panic() {
    let (mut state, mut read) = (7u64, 0);
    let mut random = move |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for seed in SEEDS {
        let original = Document::read(seed.as_bytes()).expect("the seed is a document");
        for _ in 0..3_000 {
            let mut text = seed.to_owned();
            for _ in 0..=random(3) {
                let places = tokens(&text);
                let (begin, end) = places[random(places.len())];
                let (other_begin, other_end) = places[random(places.len())];
                let piece = match random(3) {
                    0 => text[other_begin..other_end].to_owned(),
                    _ => PIECES[random(PIECES.len())].to_owned(),
                };
                text.replace_range(begin..end, &piece);
            }
            let Ok(document) = Document::read(text.as_bytes()) else { continue };
            read += 1;
            assert!(compare(&document, &document).changes.is_empty(), "{text}");
            let changes = compare(&original, &document);
            assert!(changes.changelog(&original, &document).starts_with("# "));
            let _ = compare(&document, &original);
            assert_eq!(document.html().matches("<script").count(), 1);
        }
    }
    assert!(read > 500, "{read} documents could be read");
}
