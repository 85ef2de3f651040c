//! Token files, as rows of data.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{INTERVAL, MAX_BYTES, TokenFile, parse};
use crate::net::web::access::credentials::Token;

/// Name and secret of each token.
fn shown(tokens: &[Token]) -> Vec<(Option<String>, String)> {
    let name = |token: &Token| token.identity.as_deref()?.token_name().map(str::to_owned);
    tokens.iter().map(|token| (name(token), token.secret.clone())).collect()
}

/// Name and secret of a token.
type Row<'a> = (Option<&'a str>, &'a str);

fn owned(rows: &[Row<'_>]) -> Vec<(Option<String>, String)> {
    rows.iter().map(|(name, secret)| (name.map(str::to_owned), (*secret).to_owned())).collect()
}

#[test]
fn t3_a_line_of_a_token_file_is_a_token_with_or_without_a_name() {
    let rows: [(&str, &[Row<'_>]); 8] = [
        ("k3y", &[(None, "k3y")]),
        ("  k3y \r\n", &[(None, "k3y")]),
        ("ada:k3y\nbob:0ther\n", &[(Some("ada"), "k3y"), (Some("bob"), "0ther")]),
        ("ada : k3y", &[(Some("ada"), "k3y")]),
        ("ada:k3y:with:colons", &[(Some("ada"), "k3y:with:colons")]),
        ("# ada:old\n\n  # more\nada:k3y\nada:n3w", &[(Some("ada"), "k3y"), (Some("ada"), "n3w")]),
        ("ada:#k3y\nb\nc", &[(Some("ada"), "#k3y"), (None, "b"), (None, "c")]),
        ("ada@ex\u{e4}mple.org:k3y", &[(Some("ada@ex\u{e4}mple.org"), "k3y")]),
    ];
    for (text, expected) in rows {
        assert_eq!(shown(&parse(text).expect("good")), owned(expected), "{text:?}");
    }
}

#[test]
fn t3_a_mistake_in_a_token_file_is_named_by_its_line_and_shows_no_token() {
    let rows = [
        ("", "it contains no token"),
        ("\n# CANARY\n \r\n", "it contains no token"),
        ("ada:k3y\n\nCANARY one\n", "line 3: a token is one word of visible ASCII characters"),
        ("CANARY\0", "line 1: a token is one word of visible ASCII characters"),
        ("CAN\u{c4}RY", "line 1: a token is one word of visible ASCII characters"),
        ("ada:", "line 1: a token is one word of visible ASCII characters"),
        ("#\n:CANARY", "line 2: the name before the colon is empty"),
        ("a da:CANARY", "line 1: the name before the colon is not one word"),
        ("a\u{1b}da:CANARY", "line 1: the name before the colon is not one word"),
        ("ada:CANARY\nx\nbob:CANARY", "line 3: the token of line 1 again"),
    ];
    for (text, expected) in rows {
        let Err(error) = parse(text) else { panic!("accepted: {text:?}") };
        assert_eq!(error.to_string(), expected, "{text:?}");
        assert!(!format!("{error:?}").contains("CANARY"), "{error:?}");
    }
}

/// A file that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("duet-rpc-{name}-{}", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }

    fn write(&self, text: &str) {
        fs::write(&self.0, text).expect("written");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn t3_a_token_file_is_read_again_and_a_mistake_keeps_the_old_tokens() {
    let scratch = Scratch::new("reloaded");
    scratch.write("ada:k3y\n");
    let file = TokenFile::open(&scratch.0).expect("opened");
    let start = Instant::now();
    let at = |seconds: u32| start + (INTERVAL + Duration::from_millis(1)) * seconds;
    let check = |now: Instant, expected: &str| {
        assert_eq!(shown(&file.tokens(now)), owned(&[(Some("ada"), expected)]), "{now:?}");
    };
    check(start, "k3y");
    scratch.write("ada:n3w\n");
    check(start, "k3y");
    check(at(1), "n3w");
    scratch.write("ada:n3w CANARY\n");
    check(at(2), "n3w");
    fs::remove_file(&scratch.0).expect("removed");
    check(at(3), "n3w");
    // The same size and perhaps the same time of change.
    scratch.write("ada:th3\n");
    check(at(3), "n3w");
    check(at(4), "th3");
    // A clock behind that of another thread is not an error.
    check(start, "th3");
    assert_eq!(file.only_token().as_deref(), Some("th3"));
    assert!(!format!("{file:?}").contains("th3"));
}

#[test]
fn t3_a_token_file_that_cannot_be_read_is_an_error() {
    let scratch = Scratch::new("unreadable");
    assert!(TokenFile::open(&scratch.0).is_err());
    assert!(TokenFile::open(std::env::temp_dir()).is_err());
    scratch.write(&"# comment\n".repeat(MAX_BYTES as usize / 10 + 1));
    let error = TokenFile::open(&scratch.0).expect_err("too long");
    assert_eq!(error.to_string(), format!("it has more than {MAX_BYTES} bytes"));
    fs::write(&scratch.0, b"ada:k3y\xff").expect("written");
    assert_eq!(TokenFile::open(&scratch.0).expect_err("bytes").to_string(), "it is not UTF-8");
    scratch.write("\u{feff}ada:k3y\nbob:0ther");
    assert_eq!(TokenFile::open(&scratch.0).expect("a BOM is skipped").only_token(), None);
}
