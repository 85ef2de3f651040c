//! Files that a language server opens before the first call (`--open`).

use std::fs;
use std::path::Path;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::params;
use super::report::plain;
use crate::cmd::handshake::file_uri;
use crate::exit::Problem;

/// An open file.
#[derive(Debug)]
pub(super) struct OpenFile {
    uri: String,
    language: String,
    text: String,
    position: Option<Value>,
}

impl OpenFile {
    pub(super) fn has_place(&self) -> bool {
        self.position.is_some()
    }

    /// Reads `FILE[:LINE[:COLUMN]]`.
    pub(super) fn read(word: &str, language: Option<&str>) -> Result<OpenFile, Problem> {
        // A file whose name looks like a place in another one comes first.
        let (file, place) = match Path::new(word).exists() {
            true => (word, None),
            false => split_place(word),
        };
        let cannot = |why: String| {
            Problem::failure(format!("cannot open the file `{}`: {why}", plain(file)))
        };
        let bytes = fs::read(file).map_err(|error| cannot(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let place = error.utf8_error().valid_up_to();
            cannot(format!("it is not UTF-8: byte {place} is not part of a character"))
        })?;
        let path = std::path::absolute(file).map_err(|error| cannot(error.to_string()))?;
        let position = place.map(|place| position(&text, place)).transpose().map_err(cannot)?;
        let language = language.map_or_else(|| language_of(&path, &text), str::to_owned);
        Ok(OpenFile { uri: file_uri(&path), language, text, position })
    }

    /// The params of `textDocument/didOpen`.
    pub(super) fn did_open(&self) -> Value {
        json!({"textDocument": {
            "uri": self.uri,
            "languageId": self.language,
            "version": 1,
            "text": self.text,
        }})
    }

    /// Adds this file, and the place in it, to the params of a call about a file.
    pub(super) fn complete(
        &self,
        method: &str,
        given: Option<Box<RawValue>>,
    ) -> Option<Box<RawValue>> {
        if !method.starts_with("textDocument/") {
            return given;
        }
        let document = json!({"uri": self.uri});
        let position = self.position.iter().map(|place| ("position", place));
        let members = [("textDocument", &document)].into_iter().chain(position);
        params::with_members(given, members)
    }
}

/// A line and a column, from 1.
type Place = (usize, usize);

fn split_place(word: &str) -> (&str, Option<Place>) {
    let split =
        |text| str::rsplit_once(text, ':').and_then(|(it, last)| Some((it, last.parse().ok()?)));
    match split(word) {
        None => (word, None),
        Some((rest, last)) => match split(rest) {
            None => (rest, Some((last, 1))),
            Some((file, line)) => (file, Some((line, last))),
        },
    }
}

/// The position in the protocol: from 0, in UTF-16 code units.
fn position(text: &str, (line, column): Place) -> Result<Value, String> {
    if line == 0 || column == 0 {
        return Err(format!("{line}:{column} is not a place: lines and columns count from 1"));
    }
    // The empty line after the last line end is a place, too.
    let Some(content) = text.split('\n').nth(line - 1) else {
        let lines = text.lines().count();
        return Err(format!("it has no line {line}, only {lines}"));
    };
    let before = content.trim_end_matches('\r').chars().take(column - 1);
    let units: usize = before.map(char::len_utf16).sum();
    Ok(json!({"line": line - 1, "character": units}))
}

/// Language ids of the protocol that differ from the extension.
const LANGUAGES: &[(&str, &[&str])] = &[
    ("c", &["h"]),
    ("cpp", &["cc", "cxx", "c++", "hpp", "hh", "hxx"]),
    ("csharp", &["cs"]),
    ("clojure", &["clj", "cljs"]),
    ("elixir", &["ex", "exs"]),
    ("erlang", &["erl"]),
    ("fsharp", &["fs"]),
    ("haskell", &["hs"]),
    ("html", &["htm"]),
    ("javascript", &["js", "mjs", "cjs"]),
    ("javascriptreact", &["jsx"]),
    ("julia", &["jl"]),
    ("kotlin", &["kt", "kts"]),
    ("latex", &["tex"]),
    ("makefile", &["mk"]),
    ("markdown", &["md"]),
    ("ocaml", &["ml", "mli"]),
    ("objective-c", &["m"]),
    ("objective-cpp", &["mm"]),
    ("perl", &["pl", "pm"]),
    ("plaintext", &["txt"]),
    ("powershell", &["ps1"]),
    ("python", &["py", "pyi"]),
    ("ruby", &["rb"]),
    ("rust", &["rs"]),
    ("shellscript", &["sh", "bash", "zsh", "ksh"]),
    ("terraform", &["tf"]),
    ("typescript", &["ts", "mts", "cts"]),
    ("typescriptreact", &["tsx"]),
    ("yaml", &["yml"]),
];

/// Language ids by the name of the file.
const NAMES: [(&str, &str); 4] = [
    ("CMakeLists.txt", "cmake"),
    ("Dockerfile", "dockerfile"),
    ("GNUmakefile", "makefile"),
    ("Makefile", "makefile"),
];

/// Language ids by a part of the first line, for files without an extension.
const INTERPRETERS: [(&str, &str); 5] = [
    ("python", "python"),
    ("node", "javascript"),
    ("perl", "perl"),
    ("ruby", "ruby"),
    ("sh", "shellscript"),
];

fn language_of(path: &Path, text: &str) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if let Some((_, language)) = NAMES.iter().find(|(known, _)| *known == name) {
        return (*language).to_owned();
    }
    if let Some(extension) = path.extension() {
        let extension = extension.to_string_lossy().to_lowercase();
        let known = LANGUAGES.iter().find(|(_, list)| list.contains(&&*extension));
        return known.map_or(extension, |(language, _)| (*language).to_owned());
    }
    let first = text.lines().next().filter(|line| line.starts_with("#!")).unwrap_or_default();
    let known = INTERPRETERS.iter().find(|(program, _)| first.contains(program));
    known.map_or("plaintext", |(_, language)| language).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c6_a_place_follows_the_name_of_the_file() {
        for (word, split) in [
            ("a.c", ("a.c", None)),
            ("a.c:3", ("a.c", Some((3, 1)))),
            ("a.c:3:5", ("a.c", Some((3, 5)))),
            ("a:b:3:5", ("a:b", Some((3, 5)))),
            ("a:b", ("a:b", None)),
            ("a:0", ("a", Some((0, 1)))),
        ] {
            assert_eq!(split_place(word), split);
        }
    }

    #[test]
    fn c6_a_column_counts_characters_and_a_position_utf_16() {
        let text = "a\r\näb😀c\r\n";
        for (place, expect) in [
            ((1, 1), Ok(json!({"line": 0, "character": 0}))),
            ((2, 4), Ok(json!({"line": 1, "character": 4}))),
            ((2, 99), Ok(json!({"line": 1, "character": 5}))),
            ((3, 1), Ok(json!({"line": 2, "character": 0}))),
            ((4, 1), Err("it has no line 4, only 2".to_owned())),
            ((0, 1), Err("0:1 is not a place: lines and columns count from 1".to_owned())),
            ((1, 0), Err("1:0 is not a place: lines and columns count from 1".to_owned())),
        ] {
            assert_eq!(position(text, place), expect);
        }
    }

    #[test]
    fn c6_the_language_comes_from_the_name_or_the_first_line() {
        for (name, text, language) in [
            ("x.py", "", "python"),
            ("x.c", "", "c"),
            ("x.H", "", "c"),
            ("x.go", "", "go"),
            ("x.bash", "", "shellscript"),
            ("Makefile", "", "makefile"),
            ("run", "#!/usr/bin/env bash\n", "shellscript"),
            ("run", "#!/usr/bin/python3 -u\n", "python"),
            ("run", "hello", "plaintext"),
        ] {
            assert_eq!(language_of(Path::new(name), text), language, "{name}");
        }
    }

    #[test]
    fn c6_only_calls_about_a_file_get_it() {
        let document = OpenFile {
            uri: "file:///a".to_owned(),
            language: String::new(),
            text: String::new(),
            position: Some(json!({"line": 1})),
        };
        let complete = |method: &str, params: &str| {
            let raw = (!params.is_empty()).then(|| RawValue::from_string(params.to_owned()));
            let raw = raw.transpose().expect("JSON");
            document.complete(method, raw).map(|params| params.get().to_owned())
        };
        let both = r#""textDocument":{"uri":"file:///a"},"position":{"line":1}"#;
        let hover = |params| complete("textDocument/hover", params);
        assert_eq!(hover(""), Some(format!("{{{both}}}")));
        assert_eq!(hover(r#"{"a": 1.0}"#), Some(format!(r#"{{{both},"a": 1.0}}"#)));
        let other = r#"{"position":{"line":7},"textDocument":{"uri":"file:///b"}}"#;
        assert_eq!(hover(other).as_deref(), Some(other));
        assert_eq!(hover("[]").as_deref(), Some("[]"));
        assert_eq!(complete("workspace/symbol", ""), None);
    }
}
