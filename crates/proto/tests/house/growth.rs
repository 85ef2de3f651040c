//! Public types that may grow: the table in CONTRIBUTING.md matches the code.

use std::fs;

use super::{files, workspace};

/// For each public type of this name in the library and its core: true if it is
/// `#[non_exhaustive]`.
fn marks<'a>(sources: &'a [String], name: &'a str) -> impl Iterator<Item = bool> + 'a {
    sources.iter().flat_map(move |source| {
        let lines: Vec<_> = source.lines().collect();
        let is_type = move |line: &str| {
            let defined = line.strip_prefix("pub enum ").or(line.strip_prefix("pub struct "));
            let end = |character: char| !character.is_alphanumeric();
            defined.is_some_and(|defined| defined.split(end).next() == Some(name))
        };
        let places: Vec<_> = (0..lines.len()).filter(|&place| is_type(lines[place])).collect();
        places.into_iter().map(move |place| {
            let above = lines[..place].iter().rev().take_while(|line| line.starts_with('#'));
            above.into_iter().any(|line| *line == "#[non_exhaustive]")
        })
    })
}

#[test]
fn types_that_may_grow_are_non_exhaustive_as_the_page_says() {
    let folders = ["crates/proto/src", "crates/duet-rpc/src"].map(|path| workspace().join(path));
    let paths = folders.iter().flat_map(|folder| files(folder));
    let sources: Vec<_> = paths.map(|path| fs::read_to_string(path).expect("a text")).collect();
    let page = fs::read_to_string(workspace().join("CONTRIBUTING.md")).expect("it is there");
    let (_, behind) = page.split_once("## Public types that grow").expect("it has a table");
    let rows = behind.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let mut count = 0;
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<_> = row.split(" | ").collect();
        let is_marked = cells[2] == "yes";
        for name in cells[1].split('`').skip(1).step_by(2) {
            let found: Vec<_> = marks(&sources, name).collect();
            assert!(!found.is_empty(), "there is no public type {name}");
            assert!(found.iter().all(|mark| *mark == is_marked), "{name}: {found:?}, {row}");
            count += 1;
        }
    }
    assert!(count > 20, "{count} types");
}
