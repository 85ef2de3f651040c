//! Descriptions of any text, as the lines of a comment or a docstring.

use crate::model::{ErrorSpec, Method};
use crate::schema::Schema;

/// The lines of a text, without characters that a source file must not contain: control characters, and those that
/// change the direction of the text after them.
pub(super) fn lines(text: &str) -> Vec<String> {
    let is_end = |it: char| {
        matches!(it, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
    };
    let is_kept = |it: &char| !it.is_control() && !is_hidden(*it);
    let text = text.replace("\r\n", "\n").replace('\t', " ");
    let lines = text.split(is_end);
    let mut lines: Vec<String> = lines
        .map(|line| line.chars().filter(is_kept).collect::<String>().trim_end().to_owned())
        .collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    while lines.first().is_some_and(String::is_empty) {
        lines.remove(0);
    }
    lines
}

/// True for characters that cannot be seen in a source file, or change the direction of the text after them. Literals
/// have their numbers instead.
pub(super) fn is_hidden(letter: char) -> bool {
    matches!(
        letter,
        '\u{7f}'..='\u{9f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}'
    )
}

/// One line of a text.
pub(super) fn line(text: &str) -> String {
    lines(text).join(" ")
}

/// Paragraphs with an empty line between them.
pub(super) fn paragraphs(parts: Vec<Vec<String>>) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        if !joined.is_empty() {
            joined.push(String::new());
        }
        joined.extend(part);
    }
    joined
}

/// Summary and description as paragraphs.
pub(super) fn of(summary: Option<&String>, description: Option<&String>) -> Vec<Vec<String>> {
    [summary, description].into_iter().flatten().map(|text| lines(text)).collect()
}

/// The text of a method, without its params.
pub(super) fn of_method(method: &Method) -> Vec<String> {
    let mut parts = of(method.summary.as_ref(), method.description.as_ref());
    if method.is_deprecated {
        let why = method.deprecation.as_deref().map(line).filter(|why| !why.is_empty());
        let why = why.unwrap_or_else(|| "do not use it in new code".to_owned());
        parts.push(vec![format!("Deprecated: {why}")]);
    }
    let since = method.since.as_deref().map(line).filter(|since| !since.is_empty());
    parts.extend(since.map(|since| vec![format!("Since {since}.")]));
    paragraphs(parts)
}

/// The text of a type or a member.
pub(super) fn of_schema(schema: &Schema) -> Vec<String> {
    let mut parts = of(schema.title.as_ref(), schema.description.as_ref());
    if schema.is_deprecated {
        parts.push(vec!["Deprecated.".to_owned()]);
    }
    parts.extend(
        schema.default.iter().map(|it| vec![format!("Default: {}", line(&it.to_string()))]),
    );
    paragraphs(parts)
}

/// The text of an error.
pub(super) fn of_error(error: &ErrorSpec) -> Vec<String> {
    let mut parts = of(error.summary.as_ref(), error.description.as_ref());
    let text = format!("Code {}: {}", error.code, line(&error.message));
    parts.push(vec![text.trim_end_matches([' ', ':']).to_owned()]);
    paragraphs(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_no_control_characters() {
        let rows: [(&str, &[&str]); 5] = [
            ("a\r\nb\rc\u{2028}d", &["a", "b", "c", "d"]),
            ("\n\na  \n\nb\n", &["a", "", "b"]),
            ("a\0b\u{1b}[31m\u{202e}c\u{feff}", &["ab[31mc"]),
            ("\t\n", &[]),
            ("", &[]),
        ];
        for (text, expected) in rows {
            assert_eq!(lines(text), expected, "{text:?}");
        }
    }
}
