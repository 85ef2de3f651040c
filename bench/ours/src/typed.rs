//! The params of the benchmark as Rust types.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

#[derive(Deserialize, Serialize)]
pub struct Params {
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Vec<Item>>,
    text: String,
}

/// Records, or pairs in small messages. Serde's untagged enums would build a tree first.
#[derive(Serialize)]
#[serde(untagged)]
enum Item {
    Pair(u32, Empty),
    Record(Record),
}

#[derive(Deserialize, Serialize)]
struct Empty {}

#[derive(Deserialize, Serialize)]
struct Record {
    code: u32,
    kind: String,
    range: Range,
    related: (Related, [u8; 0], (bool, (), i32)),
}

#[derive(Deserialize, Serialize)]
struct Range {
    end: Position,
    start: Position,
}

#[derive(Deserialize, Serialize)]
struct Position {
    column: u32,
    line: u32,
}

#[derive(Deserialize, Serialize)]
struct Related {
    path: String,
    score: f64,
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemVisitor)
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a pair or a record")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, pair: A) -> Result<Item, A::Error> {
        let (number, empty) = Deserialize::deserialize(SeqAccessDeserializer::new(pair))?;
        Ok(Item::Pair(number, empty))
    }

    fn visit_map<A: MapAccess<'de>>(self, record: A) -> Result<Item, A::Error> {
        Record::deserialize(MapAccessDeserializer::new(record)).map(Item::Record)
    }
}

#[cfg(test)]
mod tests {
    use super::Params;

    #[test]
    fn params_are_echoed_byte_for_byte() {
        let record = r#"{"code":7,"kind":"warning","range":{"end":{"column":20,"line":49},"start":{"column":8,"line":49}},"related":[{"path":"src/part_7.rs","score":7.25},[],[true,null,-8]]}"#;
        for text in [
            r#"{"text":"The quick"}"#.to_owned(),
            r#"{"items":[[1,{}],[2,{}]],"text":"The"}"#.to_owned(),
            format!(r#"{{"items":[{record},{record}],"text":""}}"#),
        ] {
            let params: Params = serde_json::from_str(&text).expect("they are such params");
            assert_eq!(serde_json::to_string(&params).expect("params can be written"), text);
        }
    }
}
