//! References: `$ref` and the JSON pointers in it.

use std::collections::{HashMap, HashSet};

use super::place::Place;
use super::{MAX_DOCUMENT, Reader};
use crate::error::ApiError;
use crate::json::Json;

/// Size of all parts that references repeat. A small document can repeat a large part very often.
const MAX_COPIED: usize = 4 * MAX_DOCUMENT;

/// The parts that references repeat: their sizes, and the sum so far.
#[derive(Default)]
pub(super) struct Copies {
    sizes: HashMap<String, usize>,
    sum: usize,
}

impl<'a> Reader<'a> {
    /// Follows the `$ref` of a part that is not a schema (a method, param, error, example, tag), until there is none.
    pub(super) fn follow(&mut self, place: Place<'a>) -> Result<Place<'a>, ApiError> {
        let (mut place, mut seen) = (place, HashSet::new());
        while let Some(reference) = place.member("$ref") {
            let target = find(self.root, &place, &reference)?;
            if !seen.insert(target.pointer.clone()) {
                return Err(reference.error("this reference leads back to itself"));
            }
            let size = self.copies.sizes.entry(target.pointer.clone());
            let size = *size.or_insert_with(|| target.value.size());
            self.copies.sum = self.copies.sum.saturating_add(size);
            if self.copies.sum > MAX_COPIED {
                let limit = MAX_COPIED >> 20;
                return Err(reference.error(format!(
                    "the references up to here repeat parts of more than {limit} MiB"
                )));
            }
            place = target;
        }
        Ok(place)
    }
}

/// The target of a `$ref`. `from` is the object that has it.
pub(super) fn find<'a>(
    root: &'a Json,
    from: &Place<'a>,
    reference: &Place<'a>,
) -> Result<Place<'a>, ApiError> {
    let text = reference.text()?;
    let Some(pointer) = text.strip_prefix('#') else {
        return Err(reference.error(format!(
            "`{text}` is in another document, which is not fetched: put it into `components` and refer to it as \
             `#/components/…`"
        )));
    };
    let pointer = percent_decoded(pointer);
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Err(reference.error(format!(
            "`{text}` is an anchor: expected a JSON pointer, such as `#/components/schemas/Name`"
        )));
    }
    // Types that were written as documents of their own refer to their own definitions.
    let is_local = ["/$defs/", "/definitions/"].iter().any(|prefix| pointer.starts_with(prefix));
    let found = match pointer.as_str() {
        "" => Some(schema_root(&from.pointer).to_owned()).and_then(|it| get(root, &it)),
        _ if is_local => {
            enclosing(&from.pointer).find_map(|at| get(root, &format!("{at}{pointer}")))
        }
        _ => get(root, &pointer),
    };
    found.ok_or_else(|| reference.error(format!("`{text}` does not exist in this document")))
}

/// The pointer itself, then those of everything around it.
fn enclosing(pointer: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(pointer), |pointer| pointer.rfind('/').map(|at| &pointer[..at]))
}

/// The outermost schema around a place.
fn schema_root(pointer: &str) -> &str {
    let is_root = |at: &&str| {
        let mut names = at.rsplit('/');
        let (name, parent, above) = (names.next(), names.next(), names.next());
        matches!(name, Some("schema" | "x-params"))
            || (name == Some("data") && above == Some("x-errors"))
            || (parent == Some("schemas") && above == Some("components"))
    };
    enclosing(pointer).filter(is_root).last().unwrap_or("")
}

/// The value at a pointer, and the pointer in its usual spelling.
pub(super) fn get<'a>(root: &'a Json, pointer: &str) -> Option<Place<'a>> {
    let mut place = Place::root(root);
    for name in pointer.split('/').skip(1) {
        let name = name.replace("~1", "/").replace("~0", "~");
        let value = match place.value {
            Json::Object(members) => members.get(&name)?,
            Json::Array(entries) => entries.get(name.parse::<usize>().ok()?)?,
            _ => return None,
        };
        place = place.child(&name, value);
    }
    Some(place)
}

/// The name at the end of a pointer.
pub(super) fn last_name(pointer: &str) -> String {
    pointer.rsplit('/').next().unwrap_or("").replace("~1", "/").replace("~0", "~")
}

/// Replaces `%41` by `A`. What is not such a sequence stays.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, others)) = rest.split_first() {
        let code = match others {
            [high, low, ..] if first == b'%' => hex(*high).zip(hex(*low)),
            _ => None,
        };
        match code {
            Some((high, low)) => {
                bytes.push(high * 16 + low);
                rest = &others[2..];
            }
            None => {
                bytes.push(first);
                rest = others;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}
