//! A JSON value that keeps the order of members.
//!
//! `serde_json::Value` sorts them, unless a feature is on that changes it for every package of a program. Readers of an
//! API expect the order of its author.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Number;

/// A JSON value. The members of an object keep their order.
///
/// ```
/// # fn main() -> Result<(), serde_json::Error> {
/// use duet_rpc_api::Json;
///
/// let value: Json = serde_json::from_str(r#"{"b": 1, "a": [null]}"#)?;
/// assert_eq!(value.to_string(), r#"{"b":1,"a":[null]}"#);
/// assert_eq!(value.get("b").and_then(Json::as_i64), Some(1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number
    Number(Number),
    /// A string
    String(String),
    /// An array
    Array(Vec<Json>),
    /// An object
    Object(Members),
}

/// The members of an object, in order. No name occurs twice.
#[derive(Clone, Debug, Default)]
pub struct Members {
    entries: Vec<(String, Json)>,
    /// Positions of the entries, sorted by name.
    sorted: Vec<u32>,
}

impl Members {
    /// Fails with a name that occurs twice.
    fn new(entries: Vec<(String, Json)>) -> Result<Self, String> {
        let mut sorted: Vec<u32> = (0u32..).take(entries.len()).collect();
        let name = |at: &u32| entries[*at as usize].0.as_str();
        sorted.sort_unstable_by(|a, b| name(a).cmp(name(b)));
        match sorted.windows(2).find(|pair| name(&pair[0]) == name(&pair[1])) {
            Some(pair) => Err(name(&pair[0]).to_owned()),
            None => Ok(Members { entries, sorted }),
        }
    }

    /// The member with this name.
    pub fn get(&self, name: &str) -> Option<&Json> {
        let entry = |at: &u32| &self.entries[*at as usize];
        let at = self.sorted.binary_search_by(|at| entry(at).0.as_str().cmp(name)).ok()?;
        Some(&entry(&self.sorted[at]).1)
    }

    /// All members, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.entries.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are no members.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Objects are equal if they have the same members, in any order.
impl PartialEq for Members {
    fn eq(&self, other: &Self) -> bool {
        let sorted = |it: &'_ Members| it.sorted.clone();
        let pairs = sorted(self).into_iter().zip(sorted(other));
        self.len() == other.len()
            && pairs.into_iter().all(|(a, b)| self.entries[a as usize] == other.entries[b as usize])
    }
}

impl Json {
    /// The member of an object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.as_object()?.get(name)
    }

    /// The members, if this is an object.
    pub fn as_object(&self) -> Option<&Members> {
        match self {
            Json::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The entries, if this is an array.
    pub fn as_array(&self) -> Option<&[Json]> {
        match self {
            Json::Array(entries) => Some(entries),
            _ => None,
        }
    }

    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value, if this is `true` or `false`.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Json::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The number, if this is one.
    pub fn as_number(&self) -> Option<&Number> {
        match self {
            Json::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The number, if this is a whole one that fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number()?.as_i64()
    }

    /// The kind of the value, for messages: `a string`.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Number(_) => "a number",
            Json::String(_) => "a string",
            Json::Array(_) => "an array",
            Json::Object(_) => "an object",
        }
    }

    /// About the bytes that it takes in memory.
    pub(crate) fn size(&self) -> usize {
        const OWN: usize = std::mem::size_of::<Json>();
        OWN + match self {
            Json::String(text) => text.len(),
            Json::Array(entries) => entries.iter().map(Json::size).sum(),
            Json::Object(members) => {
                members.iter().map(|(name, value)| name.len() + value.size()).sum()
            }
            _ => 0,
        }
    }

    /// The value as indented text.
    pub fn pretty(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

/// Compact JSON text.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => to.serialize_unit(),
            Json::Bool(value) => to.serialize_bool(*value),
            Json::Number(number) => number.serialize(to),
            Json::String(text) => to.serialize_str(text),
            Json::Array(entries) => to.collect_seq(entries),
            Json::Object(members) => {
                let mut map = to.serialize_map(Some(members.len()))?;
                for (name, value) in members.iter() {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ReadJson)
    }
}

struct ReadJson;

impl<'de> Visitor<'de> for ReadJson {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        // JSON text has no infinite numbers.
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Json, E> {
        Ok(Json::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = seq.next_element()? {
            entries.push(entry);
        }
        Ok(Json::Array(entries))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        let twice = |name| de::Error::custom(format!("the member {name:?} occurs twice"));
        Members::new(entries).map(Json::Object).map_err(twice)
    }
}
