//! The params of a call: from the command line, stdin or a file.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::report::plain;
use crate::console;
use crate::exit::Problem;

/// Maximum size of params: the same as that of an answer.
const MAX_PARAMS: u64 = super::MAX_ANSWER as u64;

/// Source of a text.
pub(super) enum Source<'a> {
    Word(&'a str),
    Stdin,
    File(&'a str),
    /// A line of a script, with its number.
    Line(usize, &'a str),
}

/// Reads the params that a command-line word names. `None` means that the call has no params.
pub(super) fn read(word: Option<&str>) -> Result<Option<Box<RawValue>>, Problem> {
    let Some(word) = word else { return Ok(None) };
    read_from(&match word.strip_prefix('@') {
        Some(path) => Source::File(path),
        None if word == "-" => Source::Stdin,
        None => Source::Word(word),
    })
}

pub(super) fn read_from(source: &Source<'_>) -> Result<Option<Box<RawValue>>, Problem> {
    let bytes = source.bytes().map_err(|error| {
        Problem::failure(format!("cannot read the params from {source}: {error}"))
    })?;
    check(source, &bytes).map_err(Problem::usage)
}

/// Reads the JSON text of an option: the word itself, or the content of `@FILE`.
pub(super) fn read_value(option: &str, word: &str) -> Result<Box<RawValue>, Problem> {
    let source = word.strip_prefix('@').map_or(Source::Word(word), Source::File);
    let cannot = |error| Problem::failure(format!("cannot read {option} from {source}: {error}"));
    let bytes = source.bytes().map_err(cannot)?;
    let not_json = |error| Problem::usage(format!("{option} from {source} is not JSON: {error}"));
    serde_json::from_slice(&bytes).map_err(not_json)
}

/// Adds members to params by name, except those that are there. Params by position stay as they are.
pub(super) fn with_members<'a>(
    params: Option<Box<RawValue>>,
    members: impl IntoIterator<Item = (&'a str, &'a Value)>,
) -> Option<Box<RawValue>> {
    let text = params.as_deref().map_or("{}", RawValue::get);
    let Some(rest) = text.strip_prefix('{') else { return params };
    let given: HashMap<String, IgnoredAny> = serde_json::from_str(text).unwrap_or_default();
    let missing = members.into_iter().filter(|(name, _)| !given.contains_key(*name));
    let added: Vec<_> = missing.map(|(name, value)| format!("\"{name}\":{value}")).collect();
    let comma = if given.is_empty() || added.is_empty() { "" } else { "," };
    RawValue::from_string(format!("{{{}{comma}{rest}", added.join(","))).ok().or(params)
}

fn check(source: &Source<'_>, bytes: &[u8]) -> Result<Option<Box<RawValue>>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let place = error.valid_up_to();
        format!("the params from {source} are not UTF-8: byte {place} is not part of a character")
    })?;
    // Some editors save a byte order mark first.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let json: Box<RawValue> = serde_json::from_str(text).map_err(|error| {
        let hint = match source {
            Source::Word(_) => "; quote them for the shell, as in '[1, \"two\"]'",
            _ => "",
        };
        format!("the params from {source} are not JSON: {error}{hint}")
    })?;
    let kind = match json.get().as_bytes().first() {
        Some(b'[' | b'{') => return Ok(Some(json)),
        Some(b'n') => return Ok(None),
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        _ => "a number",
    };
    Err(format!(
        "the params from {source} are {kind}: JSON-RPC takes an array, an object, or null for none"
    ))
}

impl Source<'_> {
    pub(super) fn bytes(&self) -> io::Result<Vec<u8>> {
        match self {
            Source::Word(text) | Source::Line(_, text) => Ok(text.as_bytes().to_vec()),
            Source::Stdin => read_some(console::stdin()?.lock()),
            Source::File(path) => read_some(File::open(path)?),
        }
    }
}

/// Reads to the end of the input, up to [`MAX_PARAMS`].
fn read_some(input: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(MAX_PARAMS + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_PARAMS {
        true => Err(io::Error::other(format!("there are more than {MAX_PARAMS} bytes"))),
        false => Ok(bytes),
    }
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Word(_) => f.write_str("the command line"),
            Source::Line(number, _) => write!(f, "line {number} of the script"),
            Source::Stdin => f.write_str("stdin"),
            Source::File(path) => write!(f, "the file `{}`", plain(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Source, check, read};
    use crate::exit::Exit;

    #[test]
    fn params_are_sent_as_they_are_written() {
        #[rustfmt::skip]
        let rows = [
            ("[1.0, 1e400]", Some("[1.0, 1e400]")),
            (" {\"a\": 1, \"a\": 2}\n", Some("{\"a\": 1, \"a\": 2}")),
            ("\u{feff}[]", Some("[]")),
            ("null", None),
        ];
        for (text, params) in rows {
            let read = read(Some(text)).unwrap();
            assert_eq!(read.as_deref().map(|params| params.get()), params);
        }
        assert!(read(None).unwrap().is_none());
    }

    #[test]
    fn bad_params_are_refused_with_the_expected_form() {
        #[rustfmt::skip]
        let rows = [
            ("", "not JSON: EOF while parsing a value at line 1 column 0"),
            ("[1,\n oops]", "not JSON: expected value at line 2 column 2"),
            ("[] []", "not JSON: trailing characters at line 1 column 4"),
            ("'[1]'", "quote them for the shell"),
            ("\"text\"", "a string: JSON-RPC takes an array, an object, or null"),
            ("true", "a boolean: "),
            ("-1", "a number: "),
        ];
        for (text, told) in rows {
            let problem = read(Some(text)).unwrap_err();
            assert_eq!(problem.exit, Exit::Usage);
            assert!(problem.message.contains(told), "{}", problem.message);
        }
        let told = check(&Source::Stdin, b"[\"\xff\"]").unwrap_err();
        assert!(told.contains("stdin are not UTF-8: byte 2 "), "{told}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let problem = read(Some("@no/such/file.json")).unwrap_err();
        assert_eq!(problem.exit, Exit::Failed);
        assert!(problem.message.contains("`no/such/file.json`"), "{}", problem.message);
    }

    #[test]
    fn depth_costs_no_stack() {
        let text = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert!(read(Some(&text)).unwrap().is_some());
    }
}
