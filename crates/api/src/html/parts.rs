//! Pieces of HTML.

use std::fmt::Write as _;

use super::TYPE;
use crate::json::Json;
use crate::model::{Document, ParamStructure};
use crate::schema::Schema;

/// Text without any meaning in HTML, in elements and in attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(letter),
            // Characters that reorder the text around them could show code as something else.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            _ if letter.is_control() => out.push('\u{fffd}'),
            _ => out.push(letter),
        }
    }
    out
}

pub(super) fn code(text: &str) -> String {
    match text {
        "" => String::new(),
        text => format!("<code>{}</code>", escaped(text)),
    }
}

/// A text as paragraphs. Words between backticks are code; other Markdown stays as it is.
pub(super) fn paragraphs(text: Option<&str>) -> String {
    let mut out = String::new();
    let text = text.unwrap_or_default().replace("\r\n", "\n");
    for paragraph in text.split("\n\n").map(str::trim).filter(|it| !it.is_empty()) {
        out.push_str("<p>");
        let pieces: Vec<&str> = paragraph.split('`').collect();
        for (at, piece) in pieces.iter().enumerate() {
            // An odd number of backticks leaves the last one alone.
            let is_last = at + 1 == pieces.len();
            match (at % 2 == 1, is_last) {
                (true, false) => out.push_str(&code(piece)),
                (true, true) => {
                    let _ = write!(out, "`{}", escaped(piece));
                }
                (false, _) => out.push_str(&escaped(piece)),
            }
        }
        out.push_str("</p>\n");
    }
    out
}

/// The `id` of an entry: letters, digits, `.`, `-` and `_` stay, everything else is a number.
pub(super) fn anchor(kind: &str, name: &str) -> String {
    let mut id = format!("{kind}-");
    for letter in name.chars() {
        match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' | '_' => id.push(letter),
            other => {
                let _ = write!(id, "~{:x}~", u32::from(other));
            }
        }
    }
    id
}

/// The params of an example as they are sent.
pub(super) fn params_text(params: &[(String, Json)], structure: ParamStructure) -> String {
    let indented = |value: &Json| value.pretty().replace('\n', "\n  ");
    let (open, close) = match structure {
        ParamStructure::ByPosition => ('[', ']'),
        _ => ('{', '}'),
    };
    if params.is_empty() {
        return format!("{open}{close}");
    }
    let entry = |(name, value): &(String, Json)| match structure {
        ParamStructure::ByPosition => format!("  {}", indented(value)),
        _ => format!("  {}: {}", Json::String(name.clone()), indented(value)),
    };
    let entries: Vec<_> = params.iter().map(entry).collect();
    format!("{open}\n{}\n{close}", entries.join(",\n"))
}

impl Document {
    /// The type as a line of HTML: names of types are links.
    pub(super) fn type_html(&self, schema: &Schema) -> String {
        let link =
            |name: &str| format!("<a href=\"#{}\">{}</a>", anchor(TYPE, name), escaped(name));
        self.type_line(schema, &link, &escaped)
    }
}
