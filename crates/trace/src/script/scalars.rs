//! The strings and numbers of a JSON text, with their places. Texts are changed place by place, so
//! that everything else stays as it was written.
//!
//! The text must be JSON: a recorded message, or one that a decoder has checked. Anything else gives
//! fewer or other values, never a panic.

use std::borrow::Cow;
use std::ops::Range;

use duet_rpc_proto::text::unescape;

/// A string or a number.
#[derive(Clone, Debug)]
pub(crate) struct Scalar<'a> {
    /// The bytes in the text. Those of a string include its quotes.
    pub(crate) range: Range<usize>,
    /// The JSON text.
    pub(crate) raw: &'a str,
    levels: &'a [Level],
    json: &'a str,
}

/// An object or an array around the place.
#[derive(Clone, Debug)]
enum Level {
    /// The name of the member.
    Member(Range<usize>),
    /// The number of the element.
    Element(usize),
}

impl<'a> Scalar<'a> {
    /// The value of a string; `None` for a number.
    pub(crate) fn text(&self) -> Option<Cow<'a, str>> {
        self.raw.strip_prefix('"').map(|rest| unescape(rest.strip_suffix('"').unwrap_or(rest)))
    }

    /// The name of the nearest member around the value.
    pub(crate) fn name(&self) -> Cow<'a, str> {
        let name = self.levels.iter().rev().find_map(|level| match level {
            Level::Member(name) => Some(unescape(&self.json[name.clone()])),
            Level::Element(_) => None,
        });
        name.unwrap_or_default()
    }

    /// The first step of the path, if it is a name.
    pub(crate) fn root(&self) -> &'a str {
        match self.levels.first() {
            Some(Level::Member(name)) => &self.json[name.clone()],
            _ => "",
        }
    }

    /// The steps to the value, for a JSON pointer.
    pub(crate) fn path(&self) -> Vec<String> {
        let step = |level: &Level| match level {
            Level::Member(name) => unescape(&self.json[name.clone()]).into_owned(),
            Level::Element(number) => number.to_string(),
        };
        self.levels.iter().map(step).collect()
    }
}

/// Calls `take` with each string and number, in the order of the text.
pub(crate) fn for_each(json: &str, mut take: impl FnMut(&Scalar<'_>)) {
    let bytes = json.as_bytes();
    let (mut at, mut is_name) = (0, false);
    let mut levels: Vec<Level> = Vec::new();
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'{' => {
                levels.push(Level::Member(0..0));
                is_name = true;
            }
            b'[' => {
                levels.push(Level::Element(0));
                is_name = false;
            }
            b'}' | b']' => {
                levels.pop();
                is_name = false;
            }
            b',' => match levels.last_mut() {
                Some(Level::Element(number)) => *number += 1,
                _ => is_name = true,
            },
            b':' => is_name = false,
            b'"' => {
                at = string_end(bytes, at);
                match levels.last_mut() {
                    Some(Level::Member(name)) if is_name => {
                        *name = start + 1..(at - 1).max(start + 1);
                    }
                    _ => take(&Scalar {
                        range: start..at,
                        raw: &json[start..at],
                        levels: &levels,
                        json,
                    }),
                }
            }
            b'-' | b'0'..=b'9' => {
                let is_number =
                    |byte: &&u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
                at += bytes[at..].iter().take_while(is_number).count();
                take(&Scalar { range: start..at, raw: &json[start..at], levels: &levels, json });
            }
            _ => {}
        }
    }
}

/// The position after the closing quote.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found + 1;
        match bytes[at - 1] {
            b'"' => return at,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Replaces parts of a text. The parts are in order and do not overlap.
pub(crate) fn splice(text: &str, parts: &[(Range<usize>, String)]) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut end = 0;
    for (range, new) in parts {
        out.push_str(&text[end..range.start]);
        out.push_str(new);
        end = range.end;
    }
    out + &text[end..]
}

#[cfg(test)]
mod tests {
    use super::{for_each, splice};

    fn found(json: &str) -> Vec<String> {
        let mut found = Vec::new();
        for_each(json, |it| {
            let value = it.text().map_or(it.raw.to_owned(), |text| format!("'{text}'"));
            found.push(format!("/{} {} {value}", it.path().join("/"), it.name()));
        });
        found
    }

    #[test]
    fn y3_values_have_their_places() {
        for (json, expected) in [
            ("7", vec!["/  7"]),
            (
                r#" { "a" : [ 1 , {"b\n":"x\"y"} , true, null, -1.5e+3 ] , "c": "" } "#,
                vec!["/a/0 a 1", "/a/1/b\n b\n 'x\"y'", "/a/4 a -1.5e+3", "/c c ''"],
            ),
            (r#"[[],{},[["\u0061"]]]"#, vec!["/2/0/0  'a'"]),
            (
                r#"{"a":{"b":1},"c":[{"d":2},{"d":3}]}"#,
                vec!["/a/b b 1", "/c/0/d d 2", "/c/1/d d 3"],
            ),
        ] {
            assert_eq!(found(json), expected, "{json}");
        }
    }

    #[test]
    fn y3_texts_that_are_not_json_do_no_harm() {
        for json in
            ["\"", "{\"", "{\"a", "{\":1", "\"\\", "]]}", "{,:", "[1,", "-", "\u{fc}\"\u{fc}"]
        {
            for_each(json, |it| assert!(json.get(it.range.clone()).is_some()));
        }
    }

    #[test]
    fn y3_parts_are_replaced_in_place() {
        assert_eq!(splice("abcdef", &[(1..2, "BB".to_owned()), (4..6, String::new())]), "aBBcd");
        assert_eq!(splice("abc", &[]), "abc");
    }
}
