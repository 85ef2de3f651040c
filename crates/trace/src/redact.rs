//! Redaction: replaces secret values in a trace. The bytes that pass stay as they are.
//!
//! | rule | replaces |
//! |---|---|
//! | `token` | the value of each member with this name, in upper or lower case, at any depth |
//! | `/params/token` | the value at this JSON pointer of a message, alone or in a batch |
//! | a regular expression | each match in a string, in a number and in the name of a member; in noise and on stderr |
//!
//! Names and pointers need JSON. So with such a rule, the body of a broken frame is left out, and so are
//! noise and lines on stderr that mention the name.
//!
//! A string that is a JSON object or array is searched like one, for names and expressions.

use std::borrow::Cow;
use std::fmt;

use duet_rpc_proto::text::{Text, unescape};
use regex_lite::Regex;

use crate::record::Kind;

/// The text in place of a value.
pub(crate) const REDACTED: &str = "[redacted]";

/// The values to replace.
#[derive(Clone, Debug, Default)]
pub struct Redactions {
    names: Vec<String>,
    pointers: Vec<Vec<String>>,
    values: Vec<Regex>,
}

/// An invalid rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRedaction(String);

impl fmt::Display for BadRedaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadRedaction {}

impl Redactions {
    /// Adds the name of a member, or a JSON pointer, which begins with `/`.
    ///
    /// # Errors
    ///
    /// If the rule is empty, or looks like a pointer without its first `/`.
    pub fn add(&mut self, rule: &str) -> Result<(), BadRedaction> {
        match rule.strip_prefix('/') {
            Some(rest) => {
                let step = |step: &str| step.replace("~1", "/").replace("~0", "~");
                self.pointers.push(rest.split('/').map(step).collect());
            }
            None if rule.is_empty() => {
                return Err(BadRedaction("expected a name or a JSON pointer".to_owned()));
            }
            None if rule.contains('/') => {
                let why = format!(
                    "`{rule}` is neither a name nor a JSON pointer: did you mean /{rule}? \
                     A `/` in a name is written as ~1"
                );
                return Err(BadRedaction(why));
            }
            None => self.names.push(rule.to_owned()),
        }
        Ok(())
    }

    /// Adds a regular expression for values.
    ///
    /// # Errors
    ///
    /// If it is not a regular expression.
    pub fn add_value(&mut self, pattern: &str) -> Result<(), BadRedaction> {
        let regex = Regex::new(pattern).map_err(|error| {
            BadRedaction(format!("`{pattern}` is not a regular expression: {error}"))
        })?;
        self.values.push(regex);
        Ok(())
    }

    /// Returns `true` if there is no rule.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.pointers.is_empty() && self.values.is_empty()
    }

    /// The rules for the header of a trace. A regular expression may contain the secret, so it is only
    /// mentioned.
    pub fn describe(&self) -> Vec<String> {
        let pointer = |steps: &Vec<String>| {
            let step = |step: &String| step.replace('~', "~0").replace('/', "~1");
            format!("/{}", steps.iter().map(step).collect::<Vec<_>>().join("/"))
        };
        let rules = self.names.iter().cloned().chain(self.pointers.iter().map(pointer));
        rules.chain(self.values.iter().map(|_| "value".to_owned())).collect()
    }

    /// Replaces values in a text. `None` if nothing is to be replaced.
    pub(crate) fn apply(&self, kind: Kind, text: &str) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        if kind.is_message() {
            return self.apply_json(text);
        }
        let has_places = !self.names.is_empty() || !self.pointers.is_empty();
        if has_places && (matches!(kind, Kind::Broken | Kind::More) || self.mentions_place(text)) {
            return Some(REDACTED.to_owned());
        }
        // It is not JSON as a whole, so nobody can tell where an escape begins to count.
        if has_escape(text) {
            return Some(REDACTED.to_owned());
        }
        self.apply_value(text)
    }

    /// Returns `true` if a member of the message itself, such as its id, is to be replaced.
    pub(crate) fn hides_member(&self, name: &str) -> bool {
        let is_member = |steps: &Vec<String>| matches!(&steps[..], [step] if step == name);
        self.is_name(name) || self.pointers.iter().any(is_member)
    }

    fn is_name(&self, name: &str) -> bool {
        self.names.iter().any(|it| is_same_name(it, name))
    }

    /// Returns `true` if a text that is not a message mentions the name of a secret member.
    fn mentions_place(&self, text: &str) -> bool {
        // The steps of an array have no names.
        let is_name = |step: &&String| step.parse::<u64>().is_err();
        let steps = self.pointers.iter().filter_map(|it| it.iter().rfind(is_name));
        let text = text.to_lowercase();
        self.names.iter().chain(steps).any(|name| text.contains(&name.to_lowercase()))
    }

    /// Replaces the matches of the regular expressions in any text, for example a command line.
    pub fn apply_text(&self, text: &str) -> Option<String> {
        self.apply_value(text)
    }

    fn apply_value(&self, text: &str) -> Option<String> {
        let mut changed: Option<String> = None;
        for regex in &self.values {
            let before = changed.as_deref().unwrap_or(text);
            if let Cow::Owned(after) = regex.replace_all(before, REDACTED) {
                changed = Some(after);
            }
        }
        changed
    }

    /// Replaces values in a JSON text and keeps every other byte. `None` if there are none to replace.
    pub fn apply_json(&self, text: &str) -> Option<String> {
        self.apply_nested(text, 0)
    }

    /// Replaces values in a JSON text that is inside this many strings.
    fn apply_nested(&self, text: &str, strings: usize) -> Option<String> {
        let is_batch = text.trim_ascii_start().starts_with('[');
        let mut walk = Walk {
            rules: self,
            text,
            out: String::new(),
            copied: 0,
            place: 0,
            is_muted: false,
            is_batch,
            strings,
        };
        let is_json = Text::check(text.as_bytes(), MAX_DEPTH).is_ok();
        if !is_json || walk.value(&mut Vec::new(), false).is_none() {
            // The rules cannot tell what is secret.
            return Some(format!("\"{REDACTED}\""));
        }
        if walk.copied == 0 {
            return None;
        }
        walk.out.push_str(&text[walk.copied..]);
        Some(walk.out)
    }
}

/// Returns `true` if a text has an escape such as `\u0073`, which may hide a name or a value.
fn has_escape(text: &str) -> bool {
    let digits = |rest: &str| rest.bytes().take(4).filter(u8::is_ascii_hexdigit).count();
    text.split("\\u").skip(1).any(|rest| digits(rest) == 4)
}

/// The deepest nesting; a message is never deeper.
const MAX_DEPTH: usize = duet_rpc_proto::Limits::MAX_DEPTH;

/// The number of strings in which JSON is searched: JSON in a string of JSON in a string.
const MAX_STRINGS: usize = 3;

/// The deepest nesting of JSON in a string: the memory of the walk is the sum of all depths.
const MAX_DEPTH_IN_STRING: usize = 128;

/// Compares names of members: `token`, `Token` and `TOKEN` are one.
fn is_same_name(a: &str, b: &str) -> bool {
    let is_ascii = a.is_ascii() && b.is_ascii();
    a.eq_ignore_ascii_case(b) || !is_ascii && a.to_lowercase() == b.to_lowercase()
}

/// A walk through a JSON text.
struct Walk<'a> {
    rules: &'a Redactions,
    text: &'a str,
    out: String,
    /// The text up to here is in `out`.
    copied: usize,
    place: usize,
    /// The value around this place is replaced as a whole.
    is_muted: bool,
    /// Pointers begin at the messages of the array, too.
    is_batch: bool,
    /// The number of strings around the text: JSON in a string, in JSON.
    strings: usize,
}

impl<'a> Walk<'a> {
    /// Walks through a value. The text is JSON, or this may return `None`.
    fn value(&mut self, path: &mut Vec<String>, is_named: bool) -> Option<()> {
        self.skip_white();
        let start = self.place;
        let in_message = path.get(1..).filter(|_| self.is_batch);
        let is_place = |it: &Vec<String>| it == path || Some(&it[..]) == in_message;
        let is_pointed = self.strings == 0 && self.rules.pointers.iter().any(is_place);
        let is_secret = !self.is_muted && (is_named || is_pointed);
        self.is_muted |= is_secret;
        match self.peek()? {
            b'{' => self.members(path, b'}')?,
            b'[' => self.members(path, b']')?,
            b'"' => {
                let value = self.string()?;
                if !self.is_muted
                    && let Some(changed) = self.change_string(&value)
                {
                    self.replace(start, &changed);
                }
            }
            _ => {
                let rest = &self.text.as_bytes()[self.place..];
                let is_end = |byte: &u8| b",]} \t\r\n".contains(byte);
                let length = rest.iter().position(is_end).unwrap_or(rest.len());
                self.place += length;
                let word = &self.text[start..self.place];
                let is_number = rest[0] == b'-' || rest[0].is_ascii_digit();
                if is_number
                    && !self.is_muted
                    && let Some(changed) = self.rules.apply_value(word)
                {
                    self.replace(start, &changed);
                }
            }
        }
        if is_secret {
            self.is_muted = false;
            self.replace(start, REDACTED);
        }
        Some(())
    }

    /// Replaces values in a string, which may be JSON itself.
    fn change_string(&self, value: &str) -> Option<String> {
        let is_open = value.trim_ascii_start().starts_with(['{', '[']);
        let is_json = is_open && Text::check(value.as_bytes(), MAX_DEPTH).is_ok();
        let inner = match is_json {
            false => None,
            // It is too deep to be searched.
            true if self.strings >= MAX_STRINGS
                || Text::check(value.as_bytes(), MAX_DEPTH_IN_STRING).is_err() =>
            {
                Some(REDACTED.to_owned())
            }
            true => self.rules.apply_nested(value, self.strings + 1),
        };
        let outer = self.rules.apply_value(inner.as_deref().unwrap_or(value));
        outer.or(inner)
    }

    /// Walks through an object or an array.
    fn members(&mut self, path: &mut Vec<String>, end: u8) -> Option<()> {
        if path.len() > MAX_DEPTH {
            return None;
        }
        self.place += 1;
        for index in 0.. {
            self.skip_white();
            match self.peek()? {
                byte if byte == end => break,
                b',' => self.place += 1,
                _ => {}
            }
            self.skip_white();
            let before = self.place;
            let (step, is_named) = match end {
                b'}' => {
                    let name = self.string()?.into_owned();
                    if !self.is_muted
                        && let Some(changed) = self.rules.apply_value(&name)
                    {
                        self.replace(before, &changed);
                    }
                    self.skip_white();
                    self.place += 1;
                    let is_named = self.rules.is_name(&name);
                    (name, is_named)
                }
                _ => (index.to_string(), false),
            };
            path.push(step);
            self.value(path, is_named)?;
            path.pop();
            if self.place == before {
                return None;
            }
        }
        self.place += 1;
        Some(())
    }

    /// The characters of a string.
    fn string(&mut self) -> Option<Cow<'a, str>> {
        let bytes = self.text.as_bytes();
        self.place += 1;
        let start = self.place;
        loop {
            let offset = memchr::memchr2(b'"', b'\\', bytes.get(self.place..)?)?;
            self.place += offset + 1;
            match bytes[self.place - 1] {
                b'"' => return self.text.get(start..self.place - 1).map(unescape),
                _ => self.place += 1,
            }
        }
    }

    /// Puts a text in the place of the value that began at `start`.
    fn replace(&mut self, start: usize, by: &str) {
        self.out.push_str(&self.text[self.copied..start]);
        self.out.push_str(&serde_json::Value::from(by).to_string());
        self.copied = self.place;
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.place).copied()
    }

    fn skip_white(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.place += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(rules: &[&str], values: &[&str]) -> Redactions {
        let mut made = Redactions::default();
        rules.iter().for_each(|rule| made.add(rule).expect("a rule"));
        values.iter().for_each(|value| made.add_value(value).expect("an expression"));
        made
    }

    #[test]
    fn w8_redaction_replaces_values_and_keeps_all_other_bytes() {
        let gone = "\"[redacted]\"";
        /// Names and pointers, expressions, a message, and the result.
        type Row<'a> = (&'a [&'a str], &'a [&'a str], &'a str, Option<String>);
        let rows: [Row<'_>; 23] = [
            (
                &["token"],
                &[],
                r#"{"Token":1,"a":{"TOKEN":2},"tokens":3}"#,
                Some(format!(r#"{{"Token":{gone},"a":{{"TOKEN":{gone}}},"tokens":3}}"#)),
            ),
            (
                &["clé"],
                &[],
                r#"{"CLÉ":1}"#,
                Some(format!(r#"{{"CLÉ":{gone}}}"#)),
            ),
            (
                &["token"],
                &["s[0-9]"],
                r#"{"text":" {\"token\":\"x\",\"a\":\"s1\"}","b":"{token}","c":"[1]"}"#,
                Some(
                    r#"{"text":" {\"token\":\"[redacted]\",\"a\":\"[redacted]\"}","b":"{token}","c":"[1]"}"#
                        .to_owned(),
                ),
            ),
            // Pointers do not lead into strings.
            (&["/a"], &[], r#"{"text":"{\"a\":1}"}"#, None),
            (
                &["token"],
                &[],
                r#"["[\"{\\\"token\\\":1}\"]"]"#,
                Some(r#"["[\"{\\\"token\\\":\\\"[redacted]\\\"}\"]"]"#.to_owned()),
            ),
            (
                &["token"],
                &[],
                r#"{"token" : "s", "a":1.0}"#,
                Some(format!(r#"{{"token" : {gone}, "a":1.0}}"#)),
            ),
            (
                &["token"],
                &[],
                r#"[{"t":{"token":{"token":[1]}}},2]"#,
                Some(format!(r#"[{{"t":{{"token":{gone}}}}},2]"#)),
            ),
            (
                &["token"],
                &[],
                r#"{"\u0074oken":null}"#,
                Some(format!(r#"{{"\u0074oken":{gone}}}"#)),
            ),
            (&["token"], &[], r#"{"a":"token"}"#, None),
            (&["token"], &[], "{ }", None),
            (
                &["/params/a"],
                &[],
                r#" [{"params":{"a":1}},{"a":2}]"#,
                Some(format!(r#" [{{"params":{{"a":{gone}}}}},{{"a":2}}]"#)),
            ),
            (&["token"], &[], "[ ]", None),
            (
                &["/a/1"],
                &[],
                r#"{"a":[0, -1e5 ,2],"b":{"1":3}}"#,
                Some(format!(r#"{{"a":[0, {gone} ,2],"b":{{"1":3}}}}"#)),
            ),
            (
                &["/a~1b/~0"],
                &[],
                r#"{"a/b":{"~":1}}"#,
                Some(format!(r#"{{"a/b":{{"~":{gone}}}}}"#)),
            ),
            (
                &["/a"],
                &["x"],
                r#"{"a":{"b":"x"},"c":"axb"}"#,
                Some(format!(r#"{{"a":{gone},"c":"a[redacted]b"}}"#)),
            ),
            (
                &[],
                &["sk-[a-z]+"],
                r#"["sk-abc","\u0073k-abc \n","k"]"#,
                Some(r#"["[redacted]","[redacted] \n","k"]"#.to_owned()),
            ),
            (
                &[],
                &["[0-9]{4}"],
                r#"{"a1234":1234,"b":-12345e1,"c":[true,12]}"#,
                Some(
                    r#"{"a[redacted]":"[redacted]","b":"-[redacted]5e1","c":[true,12]}"#.to_owned(),
                ),
            ),
            (
                &["x"],
                &["s[0-9]"],
                r#"{"x":{"s1":2},"s2":{"x":1}}"#,
                Some(format!(r#"{{"x":{gone},"[redacted]":{{"x":{gone}}}}}"#)),
            ),
            (&[], &["^$"], r#"["\ud800",""]"#, Some(format!(r#"["\ud800",{gone}]"#))),
            (&["a"], &[], r#"{"a":1"#, Some(gone.to_owned())),
            (&["a"], &[], "[[x]", Some(gone.to_owned())),
            (&["a"], &[], "{\"a\"Ɓ\"b\"}", Some(gone.to_owned())),
            (&["a"], &[], "", Some(gone.to_owned())),
        ];
        for (places, values, text, expected) in rows {
            assert_eq!(rules(places, values).apply_json(text), expected, "{text}");
        }
    }

    #[test]
    fn w8_redaction_of_text_that_is_not_json() {
        let both = rules(&["token"], &["s[0-9]"]);
        for (kind, text, expected) in [
            (Kind::Stderr, "key s1 s2", Some("key [redacted] [redacted]")),
            (Kind::Noise, "nothing", None),
            (Kind::Broken, r#"{"token":"#, Some(REDACTED)),
            (Kind::More, r#""secret""#, Some(REDACTED)),
            (Kind::Noise, r#"{"token":"secret"}"#, Some(REDACTED)),
            (Kind::Stderr, "sent {'token': 'secret'}", Some(REDACTED)),
            (Kind::Stderr, "TOKEN=secret", Some(REDACTED)),
            (Kind::Stderr, r#"{"\u0074oken":"secret"}"#, Some(REDACTED)),
        ] {
            assert_eq!(both.apply(kind, text).as_deref(), expected, "{text}");
        }
        assert_eq!(both.describe(), ["token", "value"]);
        let pointer = rules(&["/params/auth/0"], &[]);
        assert_eq!(pointer.apply(Kind::Noise, "auth: x").as_deref(), Some(REDACTED));
        assert!(pointer.apply(Kind::Noise, "params: 0").is_none());
        let value = rules(&[], &["s[0-9]"]);
        assert_eq!(value.apply(Kind::Noise, r#"["\u00731"]"#).as_deref(), Some(REDACTED));
        assert!(value.apply(Kind::Stderr, r"c:\users\ada").is_none());
        assert!(rules(&[], &[]).apply(Kind::Broken, "x").is_none());
        assert!(Redactions::default().add("").is_err());
        let slash = Redactions::default().add("params/token").expect_err("it has no first slash");
        assert!(slash.to_string().contains("did you mean /params/token?"), "{slash}");
        let broken = Redactions::default().add_value("(").expect_err("it is not closed");
        assert!(broken.to_string().starts_with("`(` is not a regular expression: "), "{broken}");
    }
}
