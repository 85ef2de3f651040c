//! Sample types of params, one for each way in which serde reads a value.

#![expect(dead_code, reason = "the tests check errors, so most fields are never read")]

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Debug, Deserialize)]
pub(super) struct Point {
    pub(super) line: u32,
}

#[derive(Debug, Deserialize)]
pub(super) struct Range {
    pub(super) start: Point,
    pub(super) end: Point,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    Info,
    Warn,
}

/// Accepts any string: unknown names become `Other`.
#[derive(Debug, PartialEq, Eq, Hash, Deserialize)]
pub(super) enum Topic {
    News,
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct Level {
    pub(super) level: Severity,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choices {
    pub(super) verbose: Option<bool>,
    pub(super) at: Option<Point>,
    #[serde(default)]
    pub(super) names: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Late {
    #[serde(default)]
    pub(super) spare: u32,
    pub(super) needed: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Renamed {
    #[serde(alias = "first", alias = "one")]
    pub(super) a: u32,
    pub(super) b: bool,
}

#[derive(Debug, Deserialize)]
#[serde(default)]
#[derive(Default)]
pub(super) struct Optional {
    pub(super) a: u32,
    pub(super) b: u32,
}

/// Like `Optional`, with one more name.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Spares {
    #[serde(alias = "first")]
    pub(super) a: u32,
    pub(super) b: u32,
}

#[derive(Debug, Deserialize)]
pub(super) struct Chain {
    pub(super) next: Option<Box<Chain>>,
    pub(super) value: u32,
}

#[derive(Debug, Deserialize)]
pub(super) struct Empty();

#[derive(Debug, Deserialize)]
pub(super) struct Nothing;

#[derive(Debug, Deserialize)]
pub(super) struct Pair(pub(super) u8, pub(super) char);

#[derive(Debug, Deserialize)]
pub(super) struct NewtypePoint(pub(super) Point);

#[derive(Debug, Deserialize)]
pub(super) struct Wrapped {
    pub(super) inner: NewtypePoint,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Strict {
    pub(super) at: Option<Box<Strict>>,
}

#[derive(Debug, Deserialize)]
pub(super) enum Shape {
    Dot,
    Circle(u32),
    Line(Point, Point),
    Square { side: u32 },
}

#[derive(Debug, Deserialize)]
pub(super) struct Drawing {
    pub(super) shape: Shape,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum Tagged {
    Open { path: String },
    Close { force: bool },
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "lowercase")]
pub(super) enum Adjacent {
    Open(Point),
    Close,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Either {
    Number(i64),
    Point(Point),
}

#[derive(Debug, Deserialize)]
pub(super) struct Holder {
    pub(super) either: Either,
}

#[derive(Debug, Deserialize)]
pub(super) struct Flat {
    pub(super) id: u32,
    #[serde(flatten)]
    pub(super) point: Point,
}

#[derive(Debug, Deserialize)]
pub(super) struct Rest {
    pub(super) id: u32,
    #[serde(flatten)]
    pub(super) rest: HashMap<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "i64")]
pub(super) struct Even(pub(super) i64);

impl TryFrom<i64> for Even {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, String> {
        if number % 2 == 0 { Ok(Even(number)) } else { Err(format!("{number} is odd")) }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Custom {
    pub(super) even: Option<Even>,
    #[serde(default, deserialize_with = "loud")]
    pub(super) loud: String,
    pub(super) colour: Option<Colour>,
}

/// Quotes the refused value in its error, as many implementations do.
fn loud<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text == text.to_uppercase() { Ok(text) } else { Err(D::Error::custom(format!("{text}?"))) }
}

#[derive(Debug)]
pub(super) struct Colour(pub(super) String);

impl<'de> Deserialize<'de> for Colour {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Hex;

        impl Visitor<'_> for Hex {
            type Value = Colour;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a colour,\n as #rrggbb")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Colour, E> {
                match text.strip_prefix('#') {
                    Some(hex) => Ok(Colour(hex.to_owned())),
                    None => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }
        }

        deserializer.deserialize_str(Hex)
    }
}

/// The error must name only `last`: the members before it are valid, but hard to read a second time.
#[derive(Debug, Deserialize)]
pub(super) struct Hard {
    pub(super) raw: Box<RawValue>,
    pub(super) any: Value,
    pub(super) wide: i128,
    pub(super) bytes: Text,
    pub(super) last: bool,
}

/// Accepts only bytes.
#[derive(Debug)]
pub(super) struct Text(pub(super) Vec<u8>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("byte array")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Text, E> {
                Ok(Text(bytes.to_vec()))
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}

/// A type without a depth limit of its own.
#[derive(Debug, Deserialize)]
pub(super) struct Nested(pub(super) Vec<Nested>);
