//! Names on the wire.

use syn::{Ident, LitStr};

use crate::errors::Errors;

/// The style of a name on the wire.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    Camel,
    Kebab,
    Pascal,
    Snake,
}

impl Style {
    /// Reads the name of a style, and reports an unknown one.
    pub(crate) fn from_name(name: &LitStr, errors: &mut Errors) -> Option<Self> {
        Some(match &*name.value() {
            "camelCase" => Style::Camel,
            "kebab-case" => Style::Kebab,
            "PascalCase" => Style::Pascal,
            "snake_case" => Style::Snake,
            _ => {
                let known = "`camelCase`, `snake_case`, `kebab-case` or `PascalCase`";
                errors.push(name, format!("unknown style of names: write {known}"));
                return None;
            }
        })
    }

    /// Converts a Rust name in snake case into this style.
    pub(crate) fn apply(self, name: &str) -> String {
        let words = name.split('_').filter(|word| !word.is_empty());
        match self {
            Style::Snake => name.to_owned(),
            Style::Kebab => words.collect::<Vec<_>>().join("-"),
            Style::Pascal => words.map(capitalised).collect(),
            Style::Camel => {
                let mut words = words.map(str::to_owned);
                words.next().into_iter().chain(words.map(|word| capitalised(&word))).collect()
            }
        }
    }
}

/// The name of an identifier: `type` for `r#type`.
pub(crate) fn plain(ident: &Ident) -> String {
    let name = ident.to_string();
    name.strip_prefix("r#").map(str::to_owned).unwrap_or(name)
}

/// The words of a variant's name as a sentence: `NotFound` is "Not found".
pub(crate) fn sentence(variant: &str) -> String {
    let mut sentence = String::new();
    for letter in variant.chars() {
        if letter.is_uppercase() && !sentence.is_empty() {
            sentence.push(' ');
            sentence.extend(letter.to_lowercase());
        } else {
            sentence.push(letter);
        }
    }
    sentence
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::{Style, sentence};

    #[test]
    fn names_are_written_in_each_style() {
        for (name, camel, kebab, pascal) in [
            ("add", "add", "add", "Add"),
            ("did_open", "didOpen", "did-open", "DidOpen"),
            ("get_utf8_text", "getUtf8Text", "get-utf8-text", "GetUtf8Text"),
            ("_hidden", "hidden", "hidden", "Hidden"),
        ] {
            let styles = [Style::Snake, Style::Camel, Style::Kebab, Style::Pascal];
            assert_eq!(styles.map(|style| style.apply(name)), [name, camel, kebab, pascal]);
        }
    }

    #[test]
    fn variant_name_becomes_a_sentence() {
        assert_eq!(sentence("Overflow"), "Overflow");
        assert_eq!(sentence("NotFoundHere"), "Not found here");
    }
}
