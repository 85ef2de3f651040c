//! Request ids, kept in their original spelling.

use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};

use crate::text::{Text, unescape};

/// The id of a request: a string, a number or null.
///
/// It holds the raw JSON text and is sent back byte for byte: `1.0` stays `1.0`, and a number of 40
/// digits loses none ([M2](crate::specification#m2)). Short ids need no allocation.
///
/// Two ids are equal if they have the same type and the same meaning. Numbers compare by their
/// text, strings by their characters. Strings with half a surrogate pair, or with its replacement
/// U+FFFD, compare by their text.
///
/// ```
/// use duet_rpc_proto::message::Id;
///
/// assert_eq!(Id::from_raw("1.0").expect("a number").as_raw(), "1.0");
/// assert_ne!(Id::from(1), Id::from("1"));
/// assert_eq!(Id::from_raw(r#""\u0061""#), Some(Id::from("a")));
/// assert_eq!(Id::from_raw("[1]"), None);
/// ```
#[derive(Clone)]
pub struct Id(Repr);

/// Ids up to this length are stored inline. The size makes an `Id` 32 bytes.
const INLINE: usize = 30;

/// Maximum number of characters shown (G6).
const LONGEST_SHOWN: usize = 64;

#[derive(Clone)]
enum Repr {
    Inline { length: u8, text: [u8; INLINE] },
    Heap(Box<str>),
}

impl Id {
    /// The id of an answer to a message without a usable id.
    pub const NULL: Id = {
        let mut text = [0; INLINE];
        [text[0], text[1], text[2], text[3]] = *b"null";
        Id(Repr::Inline { length: 4, text })
    };

    /// An id from one JSON value. `None` if it is an object, an array, a boolean, or not JSON.
    pub fn from_raw(raw: &str) -> Option<Id> {
        Text::check(raw.as_bytes(), 0).ok()?;
        Id::from_checked(raw.trim_matches([' ', '\t', '\n', '\r']))
    }

    /// An id from a value that was checked to be JSON without surrounding white space.
    #[inline(always)]
    pub(crate) fn from_checked(raw: &str) -> Option<Id> {
        IdRef::from_checked(raw).map(IdRef::to_id)
    }

    /// An id that holds these bytes, which come from a `str`.
    fn holding(bytes: &[u8]) -> Id {
        if bytes.len() > INLINE {
            return Id(Repr::Heap(String::from_utf8_lossy(bytes).into()));
        }
        let mut text = [0; INLINE];
        // Most ids have a few digits. For so few bytes, a register is faster than a call that
        // copies.
        match (bytes.len(), bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
            (9.., ..) => text[..bytes.len()].copy_from_slice(bytes),
            (_, Some(&first), Some(&last)) => {
                // The two chunks may overlap; they agree where they do.
                let last = u64::from(u32::from_le_bytes(last)) << (8 * (bytes.len() - 4));
                let word = u64::from(u32::from_le_bytes(first)) | last;
                text[..8].copy_from_slice(&word.to_le_bytes());
            }
            _ => {
                let word = bytes.iter().rev().fold(0, |word, &byte| (word << 8) + u32::from(byte));
                text[..4].copy_from_slice(&word.to_le_bytes());
            }
        }
        Id(Repr::Inline { length: bytes.len() as u8, text })
    }

    /// The id as JSON.
    pub fn as_raw(&self) -> &str {
        match &self.0 {
            Repr::Heap(raw) => raw,
            // The text was copied from a `str`, so this never fails; `null` is the safe fallback.
            Repr::Inline { length, text } => text
                .get(..usize::from(*length))
                .map_or("null", |raw| std::str::from_utf8(raw).unwrap_or("null")),
        }
    }

    /// The id as JSON, in bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Heap(raw) => raw.as_bytes(),
            Repr::Inline { length, text } => &text[..usize::from(*length).min(INLINE)],
        }
    }

    /// True if the id is null.
    pub fn is_null(&self) -> bool {
        self.as_bytes() == b"null"
    }

    /// The number, if it is written as a plain whole number and fits.
    pub fn as_u64(&self) -> Option<u64> {
        let raw = self.as_bytes();
        let is_plain = raw.first().is_some_and(u8::is_ascii_digit);
        if is_plain { self.as_raw().parse().ok() } else { None }
    }

    /// The text between the quotes, if the id is a string.
    fn quoted(&self) -> Option<&str> {
        // Most ids are numbers: skip the UTF-8 check when hashing one.
        self.as_bytes()
            .starts_with(b"\"")
            .then(|| self.as_raw())?
            .strip_prefix('"')?
            .strip_suffix('"')
    }
}

/// An id borrowed from its frame. It becomes an [`Id`] only if it must outlive the frame.
///
/// ```
/// use duet_rpc_proto::message::{Id, IdRef};
///
/// let id = Id::from(7);
/// assert_eq!(IdRef::from(&id).as_raw(), "7");
/// assert_eq!(IdRef::from(&id).to_id(), id);
/// ```
#[derive(Clone, Copy)]
pub struct IdRef<'a>(&'a [u8]);

impl<'a> IdRef<'a> {
    /// An id from a value that was checked to be JSON without surrounding white space.
    #[inline(always)]
    pub(crate) fn from_checked(raw: &'a str) -> Option<Self> {
        match raw.as_bytes().first() {
            Some(b'"' | b'-' | b'0'..=b'9' | b'n') => Some(IdRef(raw.as_bytes())),
            _ => None,
        }
    }

    /// The id as JSON.
    pub fn as_raw(self) -> &'a str {
        // The bytes come from a `str`, so this never fails.
        std::str::from_utf8(self.0).unwrap_or("null")
    }

    #[inline]
    pub(crate) fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// An owned copy.
    pub fn to_id(self) -> Id {
        Id::holding(self.0)
    }
}

impl<'a> From<&'a Id> for IdRef<'a> {
    #[inline]
    fn from(id: &'a Id) -> Self {
        IdRef(id.as_bytes())
    }
}

impl fmt::Display for IdRef<'_> {
    /// Shows the id as [`Id`] does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_id().fmt(f)
    }
}

impl fmt::Debug for IdRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_id().fmt(f)
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Id) -> bool {
        self.as_bytes() == other.as_bytes()
            || match (self.quoted(), other.quoted()) {
                // Half a surrogate pair is not a character, so such strings compare by their text.
                (Some(one), Some(two)) => {
                    let meaning = unescape(one);
                    meaning == unescape(two) && !meaning.contains(char::REPLACEMENT_CHARACTER)
                }
                _ => false,
            }
    }
}

impl Eq for Id {}

impl Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.quoted() {
            Some(quoted) => (true, &*unescape(quoted)).hash(state),
            None => (false, self.as_bytes()).hash(state),
        }
    }
}

impl From<u64> for Id {
    fn from(number: u64) -> Id {
        Id::holding(itoa::Buffer::new().format(number).as_bytes())
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Id {
        Id::holding(serde_json::Value::from(text).to_string().as_bytes())
    }
}

impl fmt::Display for Id {
    /// Shows the id as JSON for a terminal or a log. Characters that have an effect there
    /// are escaped. An id of more than 64 characters is cut and ends with `…`. [`Id::as_raw`] is the
    /// full text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let raw = self.as_raw();
        if raw.len() <= LONGEST_SHOWN {
            return write_harmless(f, raw);
        }
        let Some(quoted) = self.quoted() else {
            // A number is plain ASCII.
            return write!(f, "{}…", raw.get(..LONGEST_SHOWN).unwrap_or_default());
        };
        let meaning = unescape(quoted);
        let Some((end, _)) = meaning.char_indices().nth(LONGEST_SHOWN) else {
            return write_harmless(f, raw);
        };
        let cut = serde_json::Value::from(meaning.get(..end).unwrap_or_default());
        write_harmless(f, &cut.to_string())?;
        f.write_char('…')
    }
}

/// Writes JSON, with escapes for the characters that have an effect in a terminal or a log. They occur
/// only in strings, where an escape has the same meaning.
fn write_harmless(f: &mut fmt::Formatter<'_>, json: &str) -> fmt::Result {
    for character in json.chars() {
        if is_obeyed(character) {
            write_escape(f, character)?;
        } else {
            f.write_char(character)?;
        }
    }
    Ok(())
}

/// Writes a character as JSON escapes: two escapes for characters beyond the first 65,536.
pub fn write_escape(out: &mut impl fmt::Write, character: char) -> fmt::Result {
    let mut units = [0; 2];
    character.encode_utf16(&mut units).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
}

/// True if a character has an effect in a terminal or a log, or is invisible: control characters, line
/// separators, marks that change the text direction, and invisible characters that make two names
/// look the same. The two invisible characters that join letters in some scripts are not among
/// them.
pub fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{061c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{DefaultHasher, Hash, Hasher};

    use super::{INLINE, Id};

    #[test]
    fn m2_ids_come_back_as_they_were_written() {
        let forty_digits = "1234567890123456789012345678901234567890";
        let long_string = format!("\"{}\"", "x".repeat(1000));
        let rows = [
            "0",
            "1",
            "-0",
            "-1",
            "1.0",
            "1e3",
            "1E+3",
            "0.1",
            "18446744073709551616",
            forty_digits,
            "null",
            "\"\"",
            "\"1\"",
            "\"\\u0061\"",
            "\"é😀\"",
            &long_string,
        ];
        for raw in rows {
            let id = Id::from_raw(raw).expect(raw);
            assert_eq!(id.as_raw(), raw);
            assert_eq!(id.as_bytes(), raw.as_bytes());
            assert_eq!(id, id.clone());
        }
        for raw in ["true", "false", "{}", "[]", "[1]", ""] {
            assert_eq!(Id::from_raw(raw), None, "{raw}");
        }
    }

    #[test]
    fn m2_ids_of_same_type_and_meaning_are_equal() {
        let id = |raw| Id::from_raw(raw).expect("an id");
        assert_eq!(id(r#""a/b""#), id(r#""\u0061\/b""#));
        assert_ne!(id("1"), id("\"1\""));
        assert_ne!(id("1"), id("1.0"));
        assert_ne!(id("null"), id("\"null\""));
        assert_eq!(Id::from(u64::MAX).as_raw(), u64::MAX.to_string());
        assert_eq!(Id::from(0).as_raw(), "0");
        assert_eq!(Id::from("a\"b\n").as_raw(), r#""a\"b\n""#);
        assert_eq!(id("42").as_u64(), Some(42));
        assert_eq!(id("42.0").as_u64(), None);
        assert_eq!(id("18446744073709551616").as_u64(), None);
        assert_eq!(id("\"42\"").as_u64(), None);
        assert!(Id::NULL.is_null() && !id("\"null\"").is_null());
    }

    #[test]
    fn p1_equal_ids_have_equal_hashes_and_others_differ() {
        let hash = |raw| {
            let mut hasher = DefaultHasher::new();
            Id::from_raw(raw).expect("an id").hash(&mut hasher);
            hasher.finish()
        };
        assert_eq!(hash(r#""a/b""#), hash(r#""\u0061\/b""#));
        let others = ["1", "2", "\"1\"", "\"2\"", "null", "\"null\""];
        assert_eq!(others.map(hash).into_iter().collect::<HashSet<_>>().len(), others.len());
    }

    #[test]
    fn text_that_is_not_json_is_not_an_id() {
        for raw in ["nope", "1,2", "\"a", "1 2", "01", "-", "nul", "\"a\"b\""] {
            assert_eq!(Id::from_raw(raw), None, "{raw}");
        }
        assert_eq!(Id::from_raw(" 1\n"), Some(Id::from(1)));
        assert_ne!(Id::from_raw(r#""\ud800""#), Id::from_raw(r#""\ud801""#));
        assert_eq!(Id::from_raw(r#""\ud800""#), Id::from_raw(r#""\ud800""#));
    }

    #[test]
    fn g6_a_shown_id_has_no_control_characters() {
        let id = Id::from_raw("\"a\u{9b}\u{7f}é\u{202e}\"").expect("a string");
        assert_eq!(id.to_string(), r#""a\u009b\u007fé\u202e""#);
        assert_eq!(id.as_raw(), "\"a\u{9b}\u{7f}é\u{202e}\"");
        // Invisible characters, even those that take two escapes.
        let id = Id::from_raw("\"a\u{200b}b\u{e0041}\"").expect("a string");
        assert_eq!(id.to_string(), r#""a\u200bb\udb40\udc41""#);
    }

    #[test]
    fn g6_a_long_id_is_cut_after_64_characters_and_shows_that() {
        let rows = [
            (format!("\"{}\"", "é".repeat(64)), format!("\"{}\"", "é".repeat(64))),
            (format!("\"{}\"", "é".repeat(65)), format!("\"{}\"…", "é".repeat(64))),
            // An escape counts as one character and is never cut in two.
            (format!("\"{}\"", "\\n".repeat(64)), format!("\"{}\"", "\\n".repeat(64))),
            (format!("\"{}\"", "\\n".repeat(65)), format!("\"{}\"…", "\\n".repeat(64))),
            ("1".repeat(64), "1".repeat(64)),
            ("1".repeat(65), format!("{}…", "1".repeat(64))),
        ];
        for (raw, shown) in rows {
            assert_eq!(Id::from_raw(&raw).expect("an id").to_string(), shown);
        }
    }

    #[test]
    fn an_id_has_at_most_32_bytes() {
        assert!(size_of::<Id>() <= 32, "{}", size_of::<Id>());
        assert!(INLINE >= "\"".len() * 2 + 24);
    }
}
