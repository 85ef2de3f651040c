//! Identifiers for names of any text: method names with dots, keywords, digits, emoji.
//!
//! A name is cut into words of ASCII letters and digits. A language joins them in its own style. Other letters become
//! their number (`ü` is `u00fc`), because languages disagree about the letters that identifiers may have.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

/// Length after which a name is cut off.
const MAX_LENGTH: usize = 60;

/// The words of a name, in lower case. `fallback` stands for a name without any.
pub(super) fn words(name: &str, fallback: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_open = false;
    let mut length = 0;
    let letters: Vec<char> = name.chars().take(MAX_LENGTH).collect();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| letters.get(at));
        let after = letters.get(at + 1);
        if !letter.is_ascii_alphanumeric() {
            is_open = false;
            if !letter.is_ascii() && length < MAX_LENGTH {
                let mut word = String::new();
                let _ = write!(word, "u{:04x}", u32::from(*letter));
                length += word.len();
                words.push(word);
            }
            continue;
        }
        let is_hump = letter.is_ascii_uppercase()
            && (before.is_some_and(|it| it.is_ascii_lowercase() || it.is_ascii_digit())
                || after.is_some_and(char::is_ascii_lowercase));
        if is_hump || !is_open {
            words.push(String::new());
        }
        is_open = true;
        length += 1;
        if let Some(word) = words.last_mut() {
            word.push(letter.to_ascii_lowercase());
        }
    }
    if words.is_empty() {
        words.push(fallback.to_owned());
    }
    words
}

/// `GetPet`
pub(super) fn pascal(words: &[String]) -> String {
    let joined: String = words.iter().map(|word| capital(word)).collect();
    // Not the `n` of other names, so that a type and a method never have the same name.
    if joined.starts_with(|it: char| it.is_ascii_digit()) { format!("N{joined}") } else { joined }
}

/// `getPet`
pub(super) fn camel(words: &[String]) -> String {
    let mut joined = String::new();
    for word in words {
        match joined.is_empty() {
            true => joined.push_str(word),
            false => joined.push_str(&capital(word)),
        }
    }
    safe(joined)
}

/// `get_pet`
pub(super) fn snake(words: &[String]) -> String {
    safe(words.join("_"))
}

/// `get-pet`
pub(super) fn kebab(words: &[String]) -> String {
    words.join("-")
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// An identifier does not begin with a digit.
fn safe(name: String) -> String {
    if name.starts_with(|it: char| it.is_ascii_digit()) { format!("n{name}") } else { name }
}

/// The names of one scope, all different.
pub(super) struct Names {
    reserved: HashSet<&'static str>,
    taken: HashSet<String>,
    /// The next number to try for each name.
    numbers: HashMap<String, u32>,
    separator: &'static str,
}

impl Names {
    /// A scope in which these names are taken: keywords, and names of the generated code itself.
    pub(super) fn new(reserved: &[&[&'static str]], separator: &'static str) -> Self {
        let reserved = reserved.iter().copied().flatten().copied().collect();
        Names { reserved, taken: HashSet::new(), numbers: HashMap::new(), separator }
    }

    /// The name, or a similar one that is free: `class_` for a keyword, `pet_2` for a second one.
    pub(super) fn pick(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        if self.reserved.contains(wanted) {
            name.push_str(if self.separator == "-" { "-value" } else { "_" });
        }
        if !self.reserved.contains(name.as_str()) && self.taken.insert(name.clone()) {
            return name;
        }
        let number = self.numbers.entry(wanted.to_owned()).or_insert(2);
        loop {
            name = format!("{wanted}{}{number}", self.separator);
            *number += 1;
            if !self.reserved.contains(name.as_str()) && self.taken.insert(name.clone()) {
                return name;
            }
        }
    }

    /// True if the name is taken.
    pub(super) fn has(&self, name: &str) -> bool {
        self.reserved.contains(name) || self.taken.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_any_name() {
        let rows: [(&str, &[&str]); 12] = [
            ("get_pet", &["get", "pet"]),
            ("files/readText", &["files", "read", "text"]),
            ("HTTPServer2Go", &["http", "server2", "go"]),
            ("$/cancelRequest", &["cancel", "request"]),
            ("rpc.discover", &["rpc", "discover"]),
            ("größe", &["gr", "u00f6", "u00df", "e"]),
            ("🦀", &["u1f980"]),
            ("", &["none"]),
            ("../../etc", &["etc"]),
            ("--", &["none"]),
            ("2fa", &["2fa"]),
            ("ABC", &["abc"]),
        ];
        for (name, expected) in rows {
            assert_eq!(words(name, "none"), expected, "{name}");
        }
        assert!(snake(&words(&"xY".repeat(1_000), "")).len() < 2 * MAX_LENGTH);
    }

    #[test]
    fn names_are_valid_and_different() {
        assert_eq!(pascal(&words("2fa.enable", "")), "N2faEnable");
        assert_eq!(snake(&words("2fa.enable", "")), "n2fa_enable");
        assert_eq!(camel(&words("get_pet", "")), "getPet");
        assert_eq!(kebab(&words("get.pet", "")), "get-pet");
        let mut names = Names::new(&[&["class", "self"]], "_");
        let picked = ["class", "a", "a", "a_2", "class"].map(|name| names.pick(name));
        assert_eq!(picked, ["class_", "a", "a_2", "a_2_2", "class_2"]);
    }
}
