//! Evidence: tests that pages name exist.
//!
//! A page names the tests for a claim in this form: a file, relative to the root of the repository,
//! followed by the names of tests in it, each in backticks:
//!
//! ```text
//! `crates/cli/tests/net/access.rs` `t3_a_foreign_host_is_refused`, `t3_a_foreign_origin_is_refused`
//! ```
//!
//! In a table, the row that names tests also has the command that runs them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::workspace;

/// Pages that name tests as evidence for their claims.
const PAGES: [&str; 2] = ["SECURITY.md", "docs/RELIABILITY.md"];

/// The parts of a line in backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The lines of a page outside of code blocks, with their numbers.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    page.lines().enumerate().filter_map(move |(number, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((number + 1, line))
    })
}

/// True for a path in the repository.
fn is_path(text: &str) -> bool {
    let folders =
        ["crates/", "scripts/", "docs/", "fuzz/", "bench/", "clients/", ".ci/", ".github/"];
    folders.iter().any(|folder| text.starts_with(folder)) && !text.contains([' ', '*'])
}

/// True for a possible name of a test.
fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    text.contains('_') && text.bytes().all(is_plain)
}

/// The names of the tests in a Rust file. Ignored tests do not count.
pub(super) fn tests_in(text: &str) -> BTreeSet<&str> {
    let (mut found, mut is_test, mut is_ignored) = (BTreeSet::new(), false, false);
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            is_ignored |= line.starts_with("#[ignore");
        } else if let Some(name) = line.trim_start_matches("async ").strip_prefix("fn ") {
            if is_test && !is_ignored {
                found.extend(name.split('(').next());
            }
            (is_test, is_ignored) = (false, false);
        } else if !line.starts_with("//") {
            (is_test, is_ignored) = (false, false);
        }
    }
    found
}

/// The cargo options that run the tests in a file: `-p PACKAGE --test NAME`, or `--lib`.
fn command_for(path: &str) -> Option<String> {
    let (folder, inside) = path.strip_prefix("crates/")?.split_once('/')?;
    let manifest = workspace().join("crates").join(folder).join("Cargo.toml");
    let manifest = fs::read_to_string(manifest).ok()?;
    let package = manifest.lines().find_map(|line| line.strip_prefix("name = "))?.trim_matches('"');
    let target = match inside.strip_prefix("tests/") {
        Some(name) => format!("--test {}", name.split(['/', '.']).next()?),
        None => "--lib".to_owned(),
    };
    // The tests of HTTP and WebSockets need these.
    let features = if package == "duet-rpc" { " --all-features" } else { "" };
    Some(format!("cargo test -p {package}{features} {target}"))
}

#[test]
fn tests_named_as_evidence_exist() {
    let mut wrong = Vec::new();
    for page in PAGES {
        let text = fs::read_to_string(workspace().join(page)).expect("it is there");
        let mut count = 0;
        for (number, line) in prose(&text) {
            // The file named last on this line, and its tests.
            let mut file = None;
            for word in quoted(line) {
                if is_path(word) {
                    let path = workspace().join(word);
                    if !path.exists() {
                        wrong.push(format!("{page}:{number}: there is no {word}"));
                    }
                    let is_rust = Path::new(word).extension().is_some_and(|it| it == "rs");
                    file = fs::read_to_string(path).ok().filter(|_| is_rust).map(|it| (word, it));
                } else if let Some((path, text)) = file.as_ref().filter(|_| is_name(word)) {
                    count += 1;
                    if !tests_in(text).contains(word) {
                        wrong.push(format!("{page}:{number}: {path} has no test {word}"));
                    }
                    let command = command_for(path).unwrap_or_default();
                    if line.starts_with('|') && !line.contains(&command) {
                        wrong.push(format!("{page}:{number}: the row lacks `{command}`"));
                    }
                } else if is_name(word) && word.len() > 20 {
                    wrong.push(format!("{page}:{number}: in which file is {word}?"));
                }
            }
        }
        assert!(count > 10, "{page} names {count} tests: the parser misses some");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn tests_and_their_commands_are_recognised() {
    let text = "fn a_b() {}\n#[test]\n#[ignore]\nfn i_j() {}\n#[test]\nfn c_d() {}\n  #[tokio::test(start_paused = true)]\n  \
        // Why.\n  async fn e_f() {}\nconst X: u8 = 1;\nfn g_h() {}\n";
    assert_eq!(tests_in(text).into_iter().collect::<Vec<_>>(), ["c_d", "e_f"]);
    for (path, command) in [
        ("crates/cli/tests/net/access.rs", "cargo test -p duet-rpc-cli --test net"),
        ("crates/proto/tests/memory.rs", "cargo test -p duet-rpc-proto --test memory"),
        (
            "crates/duet-rpc/src/transport/web/tests.rs",
            "cargo test -p duet-rpc --all-features --lib",
        ),
    ] {
        assert_eq!(command_for(path).as_deref(), Some(command));
    }
}
