//! Invariants: a text is accepted exactly if it is UTF-8, serde_json accepts its grammar and its
//! depth is within the limit; its members are those that serde_json finds; classifying it never
//! panics; and the answer to it is JSON.

#![no_main]

use duet_rpc_proto::Limits;
use duet_rpc_proto::message::Incoming;
use duet_rpc_proto::policy::BatchRule;
use duet_rpc_proto::text::{Kind, Member, Text, Why};
use libfuzzer_sys::fuzz_target;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

const NAMES: [(Member, &str); 6] = [
    (Member::Jsonrpc, "jsonrpc"),
    (Member::Id, "id"),
    (Member::Method, "method"),
    (Member::Params, "params"),
    (Member::Result, "result"),
    (Member::Error, "error"),
];

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits::default().with(|it| {
        it.depth = 8;
        it.batch_entries = 4;
    });
    let text = Text::check(bytes, limits.depth);
    let utf8 = std::str::from_utf8(bytes);
    let grammar = serde_json::from_slice::<IgnoredAny>(bytes).is_ok() && utf8.is_ok();
    match text {
        Ok(text) => {
            assert!(grammar && depth(bytes) <= limits.depth);
            assert_eq!(text.as_str().as_bytes(), bytes);
            compare_members(&text);
            compare_elements(&text);
            for batch in [BatchRule::Reject, BatchRule::Allow] {
                check_answers(Incoming::classify(&text, batch, &limits));
            }
        }
        Err(not) if not.why == Why::TooDeep => assert!(depth(bytes) > limits.depth),
        Err(_) => assert!(!grammar),
    }
});

fn check_answers(incoming: Incoming<'_>) {
    match incoming {
        Incoming::Invalid(reply) => {
            let mut out = Vec::new();
            reply.write(&mut out);
            assert!(serde_json::from_slice::<IgnoredAny>(&out).is_ok());
        }
        Incoming::Batch(entries) => {
            let mut count = 0;
            for entry in entries {
                count += 1;
                assert!(!matches!(entry, Incoming::Batch(_)));
                check_answers(entry);
            }
            assert!((1..=4).contains(&count));
        }
        _ => {}
    }
}

fn compare_members(text: &Text<'_>) {
    let Ok(object) = serde_json::from_str::<Members<'_>>(text.as_str()) else { return };
    assert_eq!(text.kind(), Kind::Object);
    for (member, name) in NAMES {
        let found: Vec<_> = object.0.iter().filter(|(found, _)| found == name).collect();
        assert_eq!(text.member(member), found.last().map(|(_, raw)| raw.get()));
        assert_eq!(text.given_twice(member), found.len() > 1);
    }
}

fn compare_elements(text: &Text<'_>) {
    let elements: Vec<_> = text.elements().map(|element| element.as_str()).collect();
    if text.kind() == Kind::Array {
        let expect: Vec<&RawValue> = serde_json::from_str(text.as_str()).expect("an array");
        assert_eq!(elements, expect.iter().map(|raw| raw.get()).collect::<Vec<_>>());
    } else {
        assert!(elements.is_empty());
    }
    for element in text.elements() {
        compare_members(&element);
    }
}

/// The members of an object in their order, including duplicates. Deserialising fails, and nothing
/// is compared, if a name holds half a surrogate pair, which serde_json refuses.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Vec<(String, &'de RawValue)>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Collect).map(Members)
    }
}

/// The deepest nesting, by counting brackets outside of strings.
fn depth(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
