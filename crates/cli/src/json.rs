//! JSON text reformatted token by token: only the white space between tokens changes.
//!
//! The text is never parsed into values, so numbers of any size, the order of members and duplicate members
//! stay as they were. The input must be valid JSON.

use duet_rpc::proto::message::{is_obeyed, write_escape};

/// Removes all white space between tokens.
pub(crate) fn compact(text: &str) -> String {
    Tokens(text).collect()
}

/// Puts each member and element on a line of its own, indented by two spaces.
pub(crate) fn pretty(text: &str) -> String {
    let (mut out, mut depth) = (String::new(), 0);
    let mut tokens = Tokens(text).peekable();
    while let Some(token) = tokens.next() {
        match token {
            "{" | "[" => {
                out.push_str(token);
                match tokens.next_if(|next| is_end(next)) {
                    Some(end) => out.push_str(end),
                    None => {
                        depth += 1;
                        begin_line(&mut out, depth);
                    }
                }
            }
            "}" | "]" => {
                depth = depth.saturating_sub(1);
                begin_line(&mut out, depth);
                out.push_str(token);
            }
            "," => {
                out.push_str(token);
                begin_line(&mut out, depth);
            }
            ":" => out.push_str(": "),
            _ => out.push_str(token),
        }
    }
    out
}

/// Escapes the characters that could control a terminal. They can only stand inside strings, where the
/// escapes mean the same.
pub(crate) fn escape_for_terminal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if char != '\n' && is_obeyed(char) {
            // Writing to a string does not fail.
            let _ = write_escape(&mut out, char);
        } else {
            out.push(char);
        }
    }
    out
}

fn is_end(token: &str) -> bool {
    matches!(token, "}" | "]")
}

/// The deepest indentation. Without a limit, 100 kB of brackets become 10 GB of spaces.
const DEEPEST: usize = 256;

fn begin_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth.min(DEEPEST)));
}

/// Iterator over the tokens of the remaining text.
struct Tokens<'a>(&'a str);

const WHITE_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start_matches(WHITE_SPACE);
        let length = match text.as_bytes().first()? {
            b'"' => string_length(text.as_bytes()),
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            // A number, `true`, `false` or `null` ends where another token begins.
            _ => text.find([' ', '\t', '\n', '\r', ',', '}', ']']).unwrap_or(text.len()),
        };
        let (token, rest) = text.split_at(length);
        self.0 = rest;
        Some(token)
    }
}

/// Length of the string at the start of the text, including its quotes.
fn string_length(text: &[u8]) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.iter().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::{compact, escape_for_terminal, pretty};

    #[test]
    fn white_space_changes_and_nothing_else() {
        #[rustfmt::skip]
        let rows = [
            // input, compact, pretty
            ("null", "null", "null"),
            (" \t\r\n true \n", "true", "true"),
            ("1.0", "1.0", "1.0"),
            ("-0", "-0", "-0"),
            ("1e400", "1e400", "1e400"),
            ("1234567890123456789012345678901234567890", "1234567890123456789012345678901234567890",
             "1234567890123456789012345678901234567890"),
            (r#""""#, r#""""#, r#""""#),
            (r#""a b""#, r#""a b""#, r#""a b""#),
            (r#""\" , \\""#, r#""\" , \\""#, r#""\" , \\""#),
            (r#""\\\\""#, r#""\\\\""#, r#""\\\\""#),
            (r#""\u00e9\/é 語""#, r#""\u00e9\/é 語""#, r#""\u00e9\/é 語""#),
            ("{}", "{}", "{}"),
            ("[ ]", "[]", "[]"),
            ("[[],{ }]", "[[],{}]", "[\n  [],\n  {}\n]"),
            ("[1,2 , 3]", "[1,2,3]", "[\n  1,\n  2,\n  3\n]"),
            ("[\n  1\n]", "[1]", "[\n  1\n]"),
            (r#"{"b": 1, "a": {"c": [true, null]}}"#, r#"{"b":1,"a":{"c":[true,null]}}"#,
             "{\n  \"b\": 1,\n  \"a\": {\n    \"c\": [\n      true,\n      null\n    ]\n  }\n}"),
            // The order of members, and duplicate members.
            (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#, "{\n  \"a\": 1,\n  \"a\": 2\n}"),
            // Text that looks like a token inside a string.
            (r#"{"{\"[,:": "],} : "}"#, r#"{"{\"[,:":"],} : "}"#, "{\n  \"{\\\"[,:\": \"],} : \"\n}"),
        ];
        for (text, on_one_line, on_many) in rows {
            assert_eq!(compact(text), on_one_line);
            assert_eq!(pretty(text), on_many);
            assert_eq!(compact(&pretty(text)), on_one_line, "and back");
        }
        let deep = "[".repeat(10_000) + "1" + &"]".repeat(10_000);
        assert!(pretty(&deep).len() < 15_000_000 && compact(&pretty(&deep)) == deep);
    }

    #[test]
    fn depth_costs_no_stack() {
        let text = format!("{}{}", "[".repeat(1024), "]".repeat(1024));
        assert_eq!(compact(&pretty(&text)), text);
    }

    #[test]
    fn characters_that_control_a_terminal_are_escaped_and_mean_the_same() {
        let text = "[\n  \"a\u{9b}31m\u{7f}\u{202e}é\"\n]";
        let escaped = escape_for_terminal(text);
        assert_eq!(escaped, "[\n  \"a\\u009b31m\\u007f\\u202eé\"\n]");
        let read = |text| serde_json::from_str::<Vec<String>>(text).unwrap();
        assert_eq!(read(&escaped), read(text));
    }
}
