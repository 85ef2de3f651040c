//! What a type expects, said in JSON's words.
//!
//! serde describes expectations in Rust's terms, such as `u64`, `struct Point` or `a tuple of size
//! 2`. A remote may be written in anything, and the names of our types are none of its business.

use std::borrow::Cow;

/// In which way a value is not as expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// Another type.
    Type,
    /// The right type, but not a value that will do.
    Value,
    /// Too many elements, or too few.
    Length,
}

/// How much of an application's own text an error shows.
const LONGEST_TEXT: usize = 128;

/// The integer types, with what is said when a number is too large or too small for them. The last
/// ones depend on the machine, or are too long to be read.
const INTEGERS: [(&str, &str); 12] = [
    ("u8", "integer from 0 to 255"),
    ("i8", "integer from -128 to 127"),
    ("u16", "integer from 0 to 65535"),
    ("i16", "integer from -32768 to 32767"),
    ("u32", "integer from 0 to 4294967295"),
    ("i32", "integer from -2147483648 to 2147483647"),
    ("u64", "integer from 0 to 18446744073709551615"),
    ("i64", "integer from -9223372036854775808 to 9223372036854775807"),
    ("usize", "integer in range"),
    ("isize", "integer in range"),
    ("u128", "integer in range"),
    ("i128", "integer in range"),
];

/// Translates the text of an expectation. One that is not serde's is the application's own, and
/// stays as it is, within reason.
pub(super) fn in_json(text: &str, mismatch: Mismatch) -> Cow<'static, str> {
    if let Some(words) = integer(text, mismatch).or_else(|| exact(text, mismatch)) {
        return words.into();
    }
    if let Some(words) = with_length(text, mismatch) {
        return words;
    }
    if let Some(words) = named(text) {
        return words.into();
    }
    text.chars().filter(|c| !c.is_control()).take(LONGEST_TEXT).collect::<String>().into()
}

fn integer(text: &str, mismatch: Mismatch) -> Option<&'static str> {
    let nonzero = text.strip_prefix("a nonzero ");
    let (_, range) = INTEGERS.iter().find(|(name, _)| *name == nonzero.unwrap_or(text))?;
    Some(match (mismatch, nonzero) {
        (Mismatch::Value, None) => range,
        (Mismatch::Value, Some(_)) => "integer in range, not 0",
        _ => "integer",
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

/// The expectations that tell a length. It is said only where the length is what is wrong.
fn with_length(text: &str, mismatch: Mismatch) -> Option<Cow<'static, str>> {
    let (length, array) = if text == "an empty array" {
        (0, true)
    } else if let Some(length) =
        text.strip_prefix("a tuple of size ").or_else(|| text.strip_prefix("an array of length "))
    {
        (length.parse::<usize>().ok()?, true)
    } else if let Some((length, kind)) = text.split_once(" element").and_then(|(length, rest)| {
        Some((length, rest.strip_prefix('s').unwrap_or(rest).strip_prefix(" in ")?))
    }) {
        (length.parse().ok()?, kind == "sequence")
    } else {
        (length_of(text)?, true)
    };
    Some(match (mismatch, array, length) {
        (Mismatch::Length, true, 1) => "array of 1 element".into(),
        (Mismatch::Length, true, _) => format!("array of {length} elements").into(),
        (Mismatch::Length, false, 1) => "object with 1 member".into(),
        (Mismatch::Length, false, _) => format!("object with {length} members").into(),
        (_, true, _) => "array".into(),
        (_, false, _) => "object".into(),
    })
}

/// How many elements a type has, from an expectation that tells its name first, such as `struct Point with
/// 2 elements`.
pub(super) fn length_of(text: &str) -> Option<usize> {
    let (name, length) = text.rsplit_once(" with ")?;
    named(name)?;
    length.split_once(" element")?.0.parse().ok()
}

/// The expectations that tell the name of a type.
fn named(text: &str) -> Option<&'static str> {
    const KINDS: [(&str, &str); 10] = [
        ("tuple struct ", "array"),
        ("tuple variant ", "array"),
        ("unit struct ", "null"),
        ("unit variant ", "string"),
        ("variant of enum ", "string"),
        ("struct variant ", "object"),
        ("struct ", "object"),
        ("internally tagged enum ", "object"),
        ("adjacently tagged enum ", "object"),
        ("enum ", "string"),
    ];
    KINDS.iter().find(|(kind, _)| text.starts_with(kind)).map(|(_, words)| *words)
}

#[cfg(test)]
mod tests {
    use super::{Mismatch, in_json};

    #[test]
    fn p7_what_serde_expects_is_said_in_json_s_words() {
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
