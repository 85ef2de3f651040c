//! JSON text with another layout, token by token: numbers, escapes and the order of members stay.

/// The text without white space between tokens.
pub(super) fn compact(json: &str) -> String {
    tokens(json).collect()
}

/// The deepest indentation. Without a limit, 100 kB of brackets become 20 GB of spaces.
const DEEPEST: usize = 256;

/// Each member on its own line, four spaces deeper: the layout of `JSON.stringify(value, null, 4)`.
pub(super) fn indent(json: &str) -> String {
    let (mut out, mut depth) = (String::with_capacity(json.len() * 2), 0_usize);
    let begin_line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("    ", depth.min(DEEPEST)));
    };
    let mut tokens = tokens(json).peekable();
    while let Some(token) = tokens.next() {
        let is_end = matches!(token, "}" | "]");
        if is_end {
            depth = depth.saturating_sub(1);
            begin_line(&mut out, depth);
        }
        out.push_str(token);
        match token {
            "{" | "[" => match tokens.next_if(|next| matches!(*next, "}" | "]")) {
                Some(end) => out.push_str(end),
                None => {
                    depth += 1;
                    begin_line(&mut out, depth);
                }
            },
            "," => begin_line(&mut out, depth),
            ":" => out.push(' '),
            _ => {}
        }
    }
    out
}

/// The tokens of a text that is JSON. Of any other text, the parts between white space and marks.
fn tokens(json: &str) -> impl Iterator<Item = &str> {
    const WHITE: [char; 4] = [' ', '\t', '\r', '\n'];
    let mut rest = json;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(WHITE);
        let length = match rest.as_bytes().first()? {
            b'"' => string_length(rest.as_bytes()),
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            _ => rest.find([' ', '\t', '\r', '\n', ',', ':', '}', ']']).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        Some(token)
    })
}

fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found + 1;
        if text[at - 1] == b'"' {
            return at;
        }
        at += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::{compact, indent};

    #[test]
    fn only_white_space_changes() {
        for (json, indented) in [
            ("1.0", "1.0"),
            ("{}", "{}"),
            ("[]", "[]"),
            (r#"[{},[],"\" {"]"#, "[\n    {},\n    [],\n    \"\\\" {\"\n]"),
            (r#"{"b":1,"a":[true]}"#, "{\n    \"b\": 1,\n    \"a\": [\n        true\n    ]\n}"),
            (
                r#"{"a":{"b":{}},"c":2}"#,
                "{\n    \"a\": {\n        \"b\": {}\n    },\n    \"c\": 2\n}",
            ),
        ] {
            assert_eq!(indent(json), indented);
            assert_eq!(compact(indented), json);
            assert_eq!(compact(json), json);
        }
        let deep = "[".repeat(10_000) + "1" + &"]".repeat(10_000);
        assert!(indent(&deep).len() < 25_000_000 && compact(&indent(&deep)) == deep);
        assert_eq!(compact("\"open"), "\"open");
        assert_eq!(compact("\"open\\"), "\"open\\");
    }
}
