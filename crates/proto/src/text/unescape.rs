//! Unescaping of JSON strings.

use std::borrow::Cow;

/// The characters of a checked JSON string. `raw` is the text between its quotes.
///
/// Half of a surrogate pair is legal JSON but not a character. It becomes U+FFFD, because a Rust
/// string cannot hold it.
///
/// ```
/// use duet_rpc_proto::text::unescape;
///
/// assert_eq!(unescape(r"caf\u00e9"), "café");
/// assert_eq!(unescape(r"\ud83d\ude00"), "😀");
/// ```
pub fn unescape(raw: &str) -> Cow<'_, str> {
    let Some(first) = memchr::memchr(b'\\', raw.as_bytes()) else {
        return Cow::Borrowed(raw);
    };
    let mut plain = String::with_capacity(raw.len());
    let mut rest = raw;
    let mut next = Some(first);
    while let Some(backslash) = next {
        plain.push_str(&rest[..backslash]);
        let (character, length) = escape(&rest[backslash + 1..]);
        plain.push(character);
        rest = &rest[backslash + 1 + length..];
        next = memchr::memchr(b'\\', rest.as_bytes());
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// The character of an escape, and the number of bytes after its backslash.
fn escape(behind: &str) -> (char, usize) {
    let simple = match behind.as_bytes().first() {
        Some(b'u') => return unicode(behind),
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        // Not from a checked text: only the backslash is lost.
        _ => return (char::REPLACEMENT_CHARACTER, 0),
    };
    (simple, 1)
}

fn unicode(behind: &str) -> (char, usize) {
    const LENGTH: usize = "uXXXX".len();
    let unit = |at: &str| {
        let digits = at.strip_prefix('u')?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let Some(first) = unit(behind) else {
        return (char::REPLACEMENT_CHARACTER, 0);
    };
    let second = behind.get(LENGTH..).and_then(|rest| rest.strip_prefix('\\')).and_then(unit);
    if let Some(second) = second
        && let Some(Ok(pair)) = char::decode_utf16([first, second]).next()
        && u32::from(pair) > 0xffff
    {
        return (pair, LENGTH + "\\uXXXX".len());
    }
    (char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER), LENGTH)
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn escapes_become_their_characters() {
        let rows = [
            ("plain", "plain"),
            (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r"\u0041\u00e9\u20AC", "Aé€"),
            (r"a\ud83d\ude00b", "a😀b"),
            (r"\ud83d", "\u{fffd}"),
            (r"\ud83dx", "\u{fffd}x"),
            (r"\ud83d\n", "\u{fffd}\n"),
            (r"\ude00\ud83d", "\u{fffd}\u{fffd}"),
            (r"\ud83d\u0041", "\u{fffd}A"),
            (r"\u0000", "\0"),
        ];
        for (raw, plain) in rows {
            assert_eq!(unescape(raw), plain, "{raw}");
        }
    }

    #[test]
    fn unchecked_input_never_panics() {
        for raw in ["\\", "\\u", "\\u12", "\\x", "\\u12é4", "\\ud83d\\u"] {
            let _ = unescape(raw);
        }
    }
}
