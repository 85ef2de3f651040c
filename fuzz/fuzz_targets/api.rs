//! Invariants, for any two texts: reading a document never panics; one that is read becomes pages in which no text is
//! markup, and clients in which no text is code; it is the same as itself, and compares with any other one.

#![no_main]

use duet_rpc_api::{Document, Language, compare, generate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let cut = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (first, second) = (&bytes[..cut], bytes.get(cut + 1..).unwrap_or_default());
    let Ok(old) = Document::read(first) else { return };
    assert_eq!(Document::read(first).as_ref(), Ok(&old), "reading is deterministic");
    let own = compare(&old, &old);
    assert!(own.changes.is_empty(), "{:?}", own.changes);
    for named in &old.types {
        let _ = (
            old.type_text(&named.schema),
            old.limits_text(&named.schema),
            old.as_object(&named.schema),
        );
    }
    let page = old.html();
    assert_eq!(page.matches("<script").count(), 1);
    assert_eq!(page.matches("<style").count(), 1);
    assert!(!page.contains("onerror=\"") && !page.contains("javascript:\""));
    for language in Language::ALL {
        check_client(language, &generate(language, &old, "fuzz").text);
    }
    if let Ok(new) = Document::read(second) {
        let comparison = compare(&old, &new);
        let changelog = comparison.changelog(&old, &new);
        assert!(changelog.starts_with("# "));
        let _ = compare(&new, &old);
    }
});

/// Checks what holds for a client of every document: brackets and strings outside of comments are closed, as a simple
/// reader of the language sees them, and no character is hidden.
fn check_client(language: Language, text: &str) {
    let is_hidden = |it: char| {
        matches!(it, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
            || (it.is_control() && !matches!(it, '\n' | '\u{c}'))
    };
    // A symbol of Emacs Lisp has no other form.
    assert!(language == Language::Elisp || !text.contains(is_hidden), "{text:?}");
    let (mut rest, mut open) = (text, Vec::new());
    while let Some(first) = rest.chars().next() {
        let (skipped, end) = match language {
            Language::TypeScript if rest.starts_with("/*") => (2, "*/"),
            Language::TypeScript if rest.starts_with("//") => (2, "\n"),
            Language::TypeScript if first == '\'' => (1, "'"),
            Language::Python if rest.starts_with("\"\"\"") => (3, "\"\"\""),
            Language::Elisp if first == ';' => (1, "\n"),
            Language::Elisp if first == '\\' => {
                rest = rest[1..].char_indices().nth(1).map_or("", |(at, _)| &rest[1 + at..]);
                continue;
            }
            _ if first == '"' => (1, "\""),
            _ => {
                match first {
                    '(' | '[' | '{' => open.push(first),
                    ')' => assert_eq!(open.pop(), Some('('), "{text}"),
                    ']' => assert_eq!(open.pop(), Some('['), "{text}"),
                    '}' => assert_eq!(open.pop(), Some('{'), "{text}"),
                    _ => {}
                }
                rest = &rest[first.len_utf8()..];
                continue;
            }
        };
        let has_escapes = !matches!(end, "*/" | "\n");
        rest = after(&rest[skipped..], end, has_escapes)
            .unwrap_or_else(|| panic!("{end} is missing: {text}"));
    }
    assert!(open.is_empty(), "{open:?}: {text}");
}

/// The text after the end of a string or a comment.
fn after<'t>(text: &'t str, end: &str, has_escapes: bool) -> Option<&'t str> {
    let mut at = 0;
    loop {
        let rest = text.get(at..)?;
        if rest.starts_with(end) {
            return Some(&rest[end.len()..]);
        }
        let first = rest.chars().next()?;
        at += first.len_utf8();
        if has_escapes && first == '\\' {
            at += text.get(at..)?.chars().next()?.len_utf8();
        }
    }
}
