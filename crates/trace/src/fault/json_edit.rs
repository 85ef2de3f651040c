//! Changes one value of a JSON text and leaves every other byte as it is.
//!
//! By hand, and not with serde: a parsed message would lose the forms of its numbers, its escapes and
//! its repeated members. The text is known to be JSON, so the scanner only looks for the ends of values.

use std::ops::Range;

/// The steps of a JSON pointer. `None` if the text is not one, or points at the whole message.
pub(super) fn steps(pointer: &str) -> Option<Vec<String>> {
    let rest = pointer.strip_prefix('/')?;
    let unescape = |step: &str| {
        let is_wrong = step.replace("~0", "").replace("~1", "").contains('~');
        (!is_wrong).then(|| step.replace("~1", "/").replace("~0", "~"))
    };
    rest.split('/').map(unescape).collect()
}

/// The text of the value at a pointer.
pub(super) fn get<'a>(text: &'a str, steps: &[String]) -> Option<&'a str> {
    find(text, steps).map(|range| &text[range])
}

/// Sets the value at a pointer, or adds it to an object or to the end of an array (`-`). `None` if the
/// value above it does not exist, or has no members.
pub(super) fn set(text: &str, steps: &[String], value: &str) -> Option<String> {
    if let Some(range) = find(text, steps) {
        return Some([&text[..range.start], value, &text[range.end..]].concat());
    }
    let (last, above) = steps.split_last()?;
    let range = find(text, above)?;
    let key = match text.as_bytes().get(range.start)? {
        b'{' => format!("{}:", serde_json::to_string(last).ok()?),
        b'[' if last == "-" => String::new(),
        _ => return None,
    };
    let comma = if children(text, range.clone()).is_empty() { "" } else { "," };
    let end = range.end - 1;
    Some([&text[..end], comma, &key, value, &text[end..]].concat())
}

/// Removes the value at a pointer. `None` if there is none.
pub(super) fn unset(text: &str, steps: &[String]) -> Option<String> {
    let (last, above) = steps.split_last()?;
    let range = find(text, above)?;
    let children = children(text, range);
    let place = children.iter().rposition(|child| child.is(text, last))?;
    let child = children.get(place)?;
    let before = place.checked_sub(1).and_then(|place| children.get(place));
    let gone = match (before, children.get(place + 1)) {
        (Some(before), _) => before.value.end..child.value.end,
        (None, Some(after)) => child.start()..after.start(),
        (None, None) => child.start()..child.value.end,
    };
    Some([&text[..gone.start], &text[gone.end..]].concat())
}

/// A member of an object, or an element of an array.
#[derive(Debug)]
struct Child {
    /// The name with its quotes; `None` in an array.
    key: Option<Range<usize>>,
    index: usize,
    value: Range<usize>,
}

impl Child {
    fn start(&self) -> usize {
        self.key.as_ref().map_or(self.value.start, |key| key.start)
    }

    fn is(&self, text: &str, step: &str) -> bool {
        match &self.key {
            Some(key) => {
                serde_json::from_str::<String>(&text[key.clone()]).is_ok_and(|key| key == step)
            }
            None => step == self.index.to_string(),
        }
    }
}

/// The place of the value at a pointer. Of several members with one name, the last counts.
fn find(text: &str, steps: &[String]) -> Option<Range<usize>> {
    let start = text.len() - text.trim_start().len();
    let mut range = start..text.trim_end().len();
    for step in steps {
        let children = children(text, range);
        range = children.into_iter().rfind(|child| child.is(text, step))?.value;
    }
    Some(range)
}

/// The members or elements of a value; none of a string, a number or a literal.
fn children(text: &str, range: Range<usize>) -> Vec<Child> {
    let bytes = &text.as_bytes()[..range.end];
    let is_object = match bytes.get(range.start) {
        Some(b'{') => true,
        Some(b'[') => false,
        _ => return Vec::new(),
    };
    let mut found = Vec::new();
    let mut at = skip_space(bytes, range.start + 1);
    while at < bytes.len() && !matches!(bytes[at], b'}' | b']') {
        let key = is_object.then(|| at..skip_value(bytes, at));
        if let Some(key) = &key {
            // Past the colon.
            at = skip_space(bytes, skip_space(bytes, key.end) + 1);
        }
        let end = skip_value(bytes, at);
        found.push(Child { key, index: found.len(), value: at..end });
        at = skip_space(bytes, end);
        if bytes.get(at) == Some(&b',') {
            at = skip_space(bytes, at + 1);
        } else if at == end && end >= bytes.len() {
            break;
        }
    }
    found
}

fn skip_space(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// The place after the value that begins here.
fn skip_value(bytes: &[u8], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0_usize);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = skip_string(bytes, at),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            _ if depth > 0 => at += 1,
            _ => {
                let is_end = |&byte: &u8| byte.is_ascii_whitespace() || b",]}:".contains(&byte);
                let rest = &bytes[at..];
                // At least one byte, so that every loop ends.
                return at + rest.iter().position(is_end).unwrap_or(rest.len()).max(1);
            }
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

fn skip_string(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x1_values_are_set_and_removed_and_other_bytes_stay() {
        let text = r#" { "id" : 1.50, "a":{"b":[1,{"c~/":"x}"},[ ]],"e":{}}, "a\u0062": null } "#;
        // The pointer, the text after `set` to 7, and after `unset`.
        let rows = [
            ("/id", Some(text.replace("1.50", "7")), Some(text.replace("\"id\" : 1.50, ", ""))),
            ("/a/b/0", Some(text.replace("[1,", "[7,")), Some(text.replace("[1,", "["))),
            (
                "/a/b/1/c~0~1",
                Some(text.replace("\"x}\"", "7")),
                Some(text.replace("\"c~/\":\"x}\"", "")),
            ),
            ("/a/b/2", Some(text.replace("[ ]", "7")), Some(text.replace(",[ ]", ""))),
            ("/a/b/2/-", Some(text.replace("[ ]", "[ 7]")), None),
            ("/a/b/-", Some(text.replace("[ ]]", "[ ],7]")), None),
            ("/a/b/3", None, None),
            ("/a/e/new", Some(text.replace("{}", "{\"new\":7}")), None),
            (
                "/ab",
                Some(text.replace("null", "7")),
                Some(text.replace(", \"a\\u0062\": null", "")),
            ),
            ("/new", Some(text.replace("null }", "null ,\"new\":7}")), None),
            ("/id/x", None, None),
            ("/none/x", None, None),
        ];
        for (pointer, with, without) in rows {
            let steps = steps(pointer).expect("a pointer");
            assert_eq!(set(text, &steps, "7"), with, "set {pointer}");
            assert_eq!(unset(text, &steps), without, "unset {pointer}");
            for changed in [with, without].into_iter().flatten() {
                serde_json::from_str::<serde_json::Value>(&changed).expect("it stays JSON");
            }
        }
        let last = steps("/a").expect("a pointer");
        assert_eq!(get(r#"{"a":1,"a":2}"#, &last), Some("2"));
        assert_eq!(set("5", &last, "7"), None);
        assert_eq!(unset("[]", &last), None);
    }

    #[test]
    fn x2_pointers_begin_with_a_slash() {
        for wrong in ["", "a", "a/b", "/a~", "/a~2"] {
            assert_eq!(steps(wrong), None, "{wrong}");
        }
        assert_eq!(steps("/"), Some(vec![String::new()]));
    }

    proptest::proptest! {
        #[test]
        fn x1_no_text_breaks_the_scanner(text in "[\\[\\]{}\",:\\\\ 1a]{0,40}") {
            let steps = [String::from("a"), String::from("1")];
            let _ = (set(&text, &steps, "7"), unset(&text, &steps), get(&text, &steps[..1]));
        }
    }
}
