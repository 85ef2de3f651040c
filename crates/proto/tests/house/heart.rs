//! The heart: the files of the library that carry a request from the transport to the handler and back stay
//! few and short.
//!
//! The section "The heart" of ARCHITECTURE.md has a table of the files and the limits. Blank lines, comments
//! and test modules are not code. A private type is a `struct`, `enum` or `trait` that is not `pub`.

use std::collections::BTreeSet;
use std::fs;

use super::workspace;

const MOST_FILES: usize = 24;
const MOST_LINES: usize = 4_000;
const MOST_TYPES: usize = 35;

/// The section of the page.
fn section(page: &str) -> &str {
    let (_, behind) = page.split_once("## The heart\n").expect("the page has the section");
    behind.split("\n## ").next().unwrap_or_default()
}

/// The files in the table of the section.
fn listed(section: &str) -> Vec<&str> {
    let rows = section.lines().filter(|line| line.starts_with('|'));
    rows.flat_map(|row| row.split('`').skip(1).step_by(2)).collect()
}

/// The lines of code of a file.
fn code_lines(source: &str) -> Vec<&str> {
    let tests = ["\n#[cfg(test)]\nmod ", "\n#[cfg(test)]\n#[path"];
    let end = tests.iter().filter_map(|start| source.find(start)).min().unwrap_or(source.len());
    let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//");
    source[..end].lines().map(str::trim).filter(is_code).collect()
}

/// The name of the private type that a line defines.
fn private_type(line: &str) -> Option<&str> {
    let visible = line.strip_prefix("pub(").and_then(|rest| rest.split_once(") "));
    let line = visible.map_or(line, |(_, defined)| defined);
    let name = ["struct ", "enum ", "trait "].iter().find_map(|word| line.strip_prefix(word))?;
    name.split(|c: char| !c.is_alphanumeric()).next()
}

#[test]
fn the_heart_stays_within_the_limits_of_the_page() {
    let page = fs::read_to_string(workspace().join("ARCHITECTURE.md")).expect("it can be read");
    let section = section(&page);
    for limit in [
        format!("{MOST_FILES} files"),
        format!("{},{:03} lines of code", MOST_LINES / 1000, MOST_LINES % 1000),
        format!("{MOST_TYPES} private types"),
    ] {
        assert!(section.contains(&limit), "the page does not say: {limit}");
    }
    let files = listed(section);
    assert_eq!(files.iter().collect::<BTreeSet<_>>().len(), files.len(), "a file stands twice");
    let (mut lines, mut types) = (0, Vec::new());
    for file in &files {
        let source = fs::read_to_string(workspace().join("crates/duet-rpc/src").join(file));
        let source = source.unwrap_or_else(|error| panic!("{file}: {error}"));
        let code = code_lines(&source);
        lines += code.len();
        types.extend(code.into_iter().filter_map(private_type).map(str::to_owned));
    }
    assert!(files.len() <= MOST_FILES, "{} files", files.len());
    assert!(lines <= MOST_LINES, "{lines} lines of code");
    assert!(types.len() <= MOST_TYPES, "{} private types: {types:?}", types.len());
    assert!(files.len() > 10 && lines > 1_000 && types.len() > 10, "the table lists the heart");
}

#[test]
fn code_and_private_types_are_counted() {
    let source = "//! File.\n\npub struct A;\n/// One.\npub(crate) struct B<T>(T);\n    enum C {}\n\
                  pub(super) trait D {}\n#[cfg(test)]\nuse x;\nstructure();\n\n\
                  #[cfg(test)]\nmod tests {\n    struct E;\n}\n";
    let code = code_lines(source);
    assert_eq!(code.len(), 7);
    assert_eq!(code.into_iter().filter_map(private_type).collect::<Vec<_>>(), ["B", "C", "D"]);
}
