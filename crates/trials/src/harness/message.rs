//! One JSON-RPC message, with its members as written.

use serde_json::value::RawValue;

use crate::harness::prelude::*;

/// An object and its members.
#[derive(Debug)]
pub(crate) struct Message<'t> {
    members: BTreeMap<&'t str, &'t RawValue>,
}

impl<'t> Message<'t> {
    /// Reads an object. Fails on a duplicate member, and on white space around members: the daemon sends
    /// neither.
    pub(crate) fn read(text: &'t str) -> Result<Self, String> {
        let members: BTreeMap<&str, &RawValue> =
            serde_json::from_str(text).map_err(|error| format!("not an object: {error}"))?;
        let sizes = members.iter().map(|(name, value)| name.len() + value.get().len() + 4);
        match sizes.sum::<usize>() + 1 == text.len() {
            true => Ok(Message { members }),
            false => Err("a duplicate member, or white space".to_owned()),
        }
    }

    /// A member, as written.
    pub(crate) fn get(&self, name: &str) -> Option<&'t str> {
        self.members.get(name).map(|value| value.get())
    }

    /// A member that is a string.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// A member that is a number.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.get(name)?.parse().ok()
    }

    /// Returns true if it has all members of the first list, any of the second, and no other.
    pub(crate) fn has_only(&self, all: &[&str], perhaps: &[&str]) -> bool {
        all.iter().all(|name| self.members.contains_key(name))
            && self.members.keys().all(|name| all.contains(name) || perhaps.contains(name))
    }
}

/// The elements of an array, as written.
pub(crate) fn elements(text: &str) -> Option<Vec<&str>> {
    let elements: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    Some(elements.into_iter().map(RawValue::get).collect())
}

/// Removes the white space between the tokens of a JSON text.
pub(crate) fn squeezed(text: &str) -> String {
    let (mut is_string, mut is_escaped) = (false, false);
    let mut stays = |character: char| {
        let stays = is_string || !matches!(character, ' ' | '\t' | '\r' | '\n');
        if character == '"' && !is_escaped {
            is_string = !is_string;
        }
        is_escaped = is_string && character == '\\' && !is_escaped;
        stays
    };
    text.chars().filter(|&character| stays(character)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Message, squeezed};

    #[test]
    fn m4_duplicate_members_are_found() {
        assert!(Message::read(r#"{"id":1,"result":{"a": 1}}"#).is_ok());
        for text in [r#"{"id":1,"id":1}"#, r#"{"id": 1}"#, "[]", "7", r#"{"id":1"#] {
            assert!(Message::read(text).is_err(), "{text}");
        }
        assert_eq!(squeezed("{ \"a b\\\" \" :\t[ 1 ] }"), r#"{"a b\" ":[1]}"#);
    }
}
