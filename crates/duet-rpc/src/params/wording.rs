//! Wording: the expectation of a type, in JSON's words.
//!
//! serde describes expectations in Rust's terms, such as `u64`, `struct Point` or `a tuple of size
//! 2`. A remote may be written in any language, and the names of our types do not concern it.

use std::borrow::Cow;

/// The difference between a value and the expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// Another type.
    Type,
    /// The right type, but out of range.
    Value,
    /// Too many elements, or too few.
    Length,
}

/// Maximum number of characters that an error shows of an application's own text.
const LONGEST_TEXT: usize = 128;

/// The beginnings of expectations that end with the name of a type.
const NAMED: [(&str, &[&str]); 4] = [
    ("array", &["tuple struct ", "tuple variant "]),
    ("null", &["unit struct "]),
    ("string", &["enum ", "unit variant ", "variant of enum "]),
    (
        "object",
        &["struct ", "struct variant ", "internally tagged enum ", "adjacently tagged enum "],
    ),
];

/// Translates an expectation of serde. Any other expectation is text of the application, and stays unchanged
/// except for its length.
pub(super) fn in_json(text: &str, mismatch: Mismatch) -> Cow<'static, str> {
    let words = integer(text, mismatch)
        .or_else(|| exact(text, mismatch).map(Cow::Borrowed))
        .or_else(|| sized(text, mismatch))
        .or_else(|| named(text).map(Cow::Borrowed));
    words.unwrap_or_else(|| {
        text.chars().filter(|c| !c.is_control()).take(LONGEST_TEXT).collect::<String>().into()
    })
}

pub(super) fn array_of(length: usize) -> Cow<'static, str> {
    match length {
        1 => "array of 1 element".into(),
        _ => format!("array of {length} elements").into(),
    }
}

/// The number of elements of a type, from an expectation such as `struct Point with 2 elements`.
pub(super) fn length_of(text: &str) -> Option<usize> {
    let (name, length) = text.rsplit_once(" with ")?;
    named(name)?;
    length.split_once(" element")?.0.parse().ok()
}

/// The expectations with a length. The length is shown only if it is wrong.
fn sized(text: &str, mismatch: Mismatch) -> Option<Cow<'static, str>> {
    let (is_array, length) = match text.rsplit_once(' ') {
        _ if text == "an empty array" => (true, 0),
        Some(("a tuple of size" | "an array of length", length)) => (true, length.parse().ok()?),
        Some((length, "sequence")) => (true, length.split_once(" element")?.0.parse().ok()?),
        Some((length, "map")) => (false, length.split_once(" element")?.0.parse().ok()?),
        _ => (true, length_of(text)?),
    };
    Some(match (mismatch, is_array, length) {
        (Mismatch::Length, true, _) => array_of(length),
        (Mismatch::Length, false, 1) => "object with 1 member".into(),
        (Mismatch::Length, false, _) => format!("object with {length} members").into(),
        (_, true, _) => "array".into(),
        (_, false, _) => "object".into(),
    })
}

fn named(text: &str) -> Option<&'static str> {
    let is_meant = |kinds: &[&str]| kinds.iter().any(|kind| text.starts_with(kind));
    NAMED.iter().find(|(_, kinds)| is_meant(kinds)).map(|(words, _)| *words)
}

/// The integer types. The range is shown if it does not depend on the machine and is short enough to
/// read.
fn integer(text: &str, mismatch: Mismatch) -> Option<Cow<'static, str>> {
    macro_rules! range {
        ($name:expr, $($type:ident)+) => {
            match $name {
                $(stringify!($type) => format!("integer from {} to {}", $type::MIN, $type::MAX).into(),)+
                "usize" | "isize" | "u128" | "i128" => "integer in range".into(),
                _ => return None,
            }
        };
    }
    let nonzero = text.strip_prefix("a nonzero ");
    let range = range!(nonzero.unwrap_or(text), u8 i8 u16 i16 u32 i32 u64 i64);
    Some(match (mismatch, nonzero) {
        (Mismatch::Value, None) => range,
        (Mismatch::Value, Some(_)) => "integer in range, not 0".into(),
        _ => "integer".into(),
    })
}

fn exact(text: &str, mismatch: Mismatch) -> Option<&'static str> {
    Some(match text {
        "a boolean" => "boolean",
        "integer with support for saturating semantics" => "integer",
        "f32" | "f64" | "a JSON number" => "number",
        "a character" if mismatch == Mismatch::Value => "string of one character",
        "a string" | "a borrowed string" | "a character" | "path string" | "a borrowed path"
        | "os string" | "field identifier" | "variant identifier" | "unit variant" => "string",
        "unit" | "option" => "null",
        "a sequence"
        | "byte array"
        | "a byte array"
        | "a borrowed byte array"
        | "tuple variant" => "array",
        "a map" | "struct variant" | "newtype variant" => "object",
        "map with a single key" => "object with one member",
        "string or map" => "string or object",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Mismatch, in_json};

    #[test]
    fn p7_expected_types_of_serde_are_translated_to_json_terms() {
        let rows = [
            ("u8", Mismatch::Type, "integer"),
            ("u8", Mismatch::Value, "integer from 0 to 255"),
            ("usize", Mismatch::Value, "integer in range"),
            ("a nonzero u32", Mismatch::Type, "integer"),
            ("a nonzero u32", Mismatch::Value, "integer in range, not 0"),
            ("a character", Mismatch::Type, "string"),
            ("a character", Mismatch::Value, "string of one character"),
            ("a tuple of size 2", Mismatch::Type, "array"),
            ("a tuple of size 2", Mismatch::Length, "array of 2 elements"),
            ("an array of length 1", Mismatch::Length, "array of 1 element"),
            ("an empty array", Mismatch::Length, "array of 0 elements"),
            ("1 element in sequence", Mismatch::Length, "array of 1 element"),
            ("3 elements in map", Mismatch::Length, "object with 3 members"),
            ("struct Point", Mismatch::Type, "object"),
            ("struct Point with 2 elements", Mismatch::Length, "array of 2 elements"),
            ("tuple variant Shape::Line with 1 element", Mismatch::Length, "array of 1 element"),
            ("tuple struct Point", Mismatch::Type, "array"),
            ("unit struct Nothing", Mismatch::Type, "null"),
            ("internally tagged enum Shape", Mismatch::Type, "object"),
            ("enum Level", Mismatch::Type, "string"),
            ("variant of enum Level", Mismatch::Type, "string"),
            ("a colour, as #rrggbb", Mismatch::Value, "a colour, as #rrggbb"),
            ("a pair with 2 elements", Mismatch::Length, "a pair with 2 elements"),
            ("a\u{1b}[31mred\nline", Mismatch::Type, "a[31mredline"),
        ];
        for (text, mismatch, expect) in rows {
            assert_eq!(in_json(text, mismatch), expect, "{text}");
        }
        let long = "é".repeat(1_000);
        assert_eq!(in_json(&long, Mismatch::Type).chars().count(), 128);
    }
}
