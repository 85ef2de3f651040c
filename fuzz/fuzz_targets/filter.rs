//! Invariants, for any text: parsing a filter never fails otherwise than with an error; a filter that is
//! shown and parsed again is the same filter, and chooses the same records.

#![no_main]

use duet_rpc_trace::{Body, Dir, Facts, Filter, Kind, Record};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(filter) = Filter::parse(text) else { return };
    let shown = filter.to_string();
    let again = Filter::parse(&shown).expect("a filter that is shown can be parsed");
    assert_eq!(again.to_string(), shown);
    assert_eq!(again.is_empty(), filter.is_empty());
    assert_eq!(again.needs_facts(), filter.needs_facts());
    for record in records() {
        for facts in [Facts::default(), late()] {
            assert_eq!(filter.matches(&record, &facts), again.matches(&record, &facts), "{shown}");
        }
    }
});

fn late() -> Facts {
    let mut facts = Facts::default();
    (facts.late, facts.took) = (true, Some(2_000_000));
    facts
}

fn records() -> [Record<'static>; 2] {
    let mut request = Record::new(1, 1_000, Dir::C2s, Kind::Request);
    (request.id, request.method) = (Some("7".into()), Some("textDocument/hover".into()));
    request.size = Some(1_000);
    request.body = Some(Body::from_json(r#"{"id":7,"method":"textDocument/hover"}"#));
    let mut noise = Record::new(2, 2_000, Dir::S2c, Kind::Noise);
    noise.body = Some(Body::Text("a stray \"print\"".into()));
    [request, noise]
}
