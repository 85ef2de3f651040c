//! Names of methods as small numbers. A hostile trace can have a new method in every record, so the table is bounded.

use std::collections::HashMap;

use super::entry::NONE;

/// Maximum number of different methods. Further ones count as one method, [`OTHER`].
const MOST: usize = 10_000;
/// Maximum length of a name in the table, in bytes.
const LONGEST: usize = 256;
/// The name of all methods beyond the limit.
const OTHER: &str = "(other methods)";

#[derive(Debug, Default)]
pub(super) struct Methods {
    numbers: HashMap<Box<str>, u32>,
    names: Vec<Box<str>>,
}

impl Methods {
    /// The number of a method.
    pub(super) fn number(&mut self, name: &str) -> u32 {
        let name = shorten(name, LONGEST);
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let name = if self.names.len() < MOST { name } else { OTHER };
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(NONE);
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }

    pub(super) fn name(&self, number: u32) -> Option<&str> {
        self.names.get(number as usize).map(|name| &**name)
    }
}

/// The beginning of a text, at most `most` bytes, without half characters.
pub(super) fn shorten(text: &str, most: usize) -> &str {
    match text.len() <= most {
        true => text,
        false => &text[..(0..=most).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_beyond_the_limit_share_a_number() {
        let mut methods = Methods::default();
        for number in 0..MOST + 10 {
            methods.number(&format!("m{number}"));
        }
        assert_eq!(methods.number("m7"), 7);
        assert_eq!(methods.name(methods.numbers[OTHER]), Some(OTHER));
        assert_eq!(methods.number("one more"), methods.number("another"));
        assert_eq!(methods.names.len(), MOST + 1);
    }

    #[test]
    fn texts_are_cut_between_characters() {
        for (text, most, expect) in
            [("abc", 3, "abc"), ("abc", 2, "ab"), ("aé", 2, "a"), ("é", 1, "")]
        {
            assert_eq!(shorten(text, most), expect, "{text} {most}");
        }
    }
}
