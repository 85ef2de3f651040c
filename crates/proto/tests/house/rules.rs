//! Rules of `docs/specification.md`: each has a test, and no text names a rule that does not exist.
//!
//! A rule is a line with its anchor and its id, `<a id="f1"></a>**F1**`. The name of a test
//! contains the ids in lower case as words: `f1_f2_frames_come_out_whole`. The last section of the
//! page, and the page that it links to, list the tests of each rule. This command writes them:
//!
//! ```console
//! SPECIFICATION=write cargo test -p duet-rpc-proto --test house
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::evidence::tests_in;
use super::{files, workspace};

const PAGE: &str = "docs/specification.md";
const SECTION: &str = "## 13. Tests by rule\n";
const LIST: &str = "docs/specification-tests.md";

/// The first letters of ids, in the order of the page.
const LETTERS: &str = "FMECLGPDTNSWXRBYKA";

/// Rules about speed. They are measured, not tested with a clock.
const MEASURED: [(&str, &str); 5] = [
    ("S1", "bench/run"),
    ("S2", "bench/run"),
    ("S4", "crates/duet-rpc/benches/calls.rs"),
    ("S5", "crates/cli/benches/startup.rs"),
    ("W9", "crates/cli/benches/tap.rs"),
];

/// True if a word has the form of an id.
fn is_id(word: &str) -> bool {
    let mut letters = word.chars();
    let is_kind = letters.next().is_some_and(|letter| LETTERS.contains(letter));
    let digits = letters.as_str();
    is_kind && (1..=2).contains(&digits.len()) && digits.bytes().all(|it| it.is_ascii_digit())
}

fn key(id: &str) -> (usize, u32) {
    let (letter, number) = id.split_at(1);
    (LETTERS.find(letter).unwrap_or(usize::MAX), number.parse().unwrap_or(0))
}

/// The ids of all rules of a page, or an error in them.
fn rules_of(page: &str) -> Result<BTreeSet<String>, String> {
    let mut rules = BTreeSet::new();
    for line in page.lines() {
        let Some((_, rest)) = line.split_once("<a id=\"") else { continue };
        let parts = rest
            .split_once("\"></a>**")
            .and_then(|(anchor, rest)| rest.split_once("**").map(|(id, _)| (anchor, id)));
        let Some((anchor, id)) = parts else { return Err(format!("no id: {line}")) };
        if !is_id(id) || anchor != id.to_lowercase() {
            return Err(format!("the anchor {anchor} is not that of {id}"));
        }
        if !rules.insert(id.to_owned()) {
            return Err(format!("{id} is there twice"));
        }
    }
    if rules.len() < 2 { Err("there are no rules".to_owned()) } else { Ok(rules) }
}

/// The ids in the name of a test.
fn ids_in(name: &str) -> impl Iterator<Item = String> {
    name.split('_').map(str::to_uppercase).filter(|word| is_id(word))
}

/// The tests of each rule, by file.
type Tests = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Adds the tests of a file. Returns an error for a test whose rule does not exist.
fn add(
    tests: &mut Tests,
    rules: &BTreeSet<String>,
    path: &str,
    names: &BTreeSet<&str>,
) -> Result<(), String> {
    for name in names {
        for id in ids_in(name) {
            if !rules.contains(&id) {
                return Err(format!("{path}: {name}: there is no rule {id}"));
            }
            let of_rule = tests.entry(id).or_default();
            of_rule.entry(path.to_owned()).or_default().insert((*name).to_owned());
        }
    }
    Ok(())
}

/// The rules without a test.
fn untested<'a>(rules: &'a BTreeSet<String>, tests: &Tests) -> Vec<&'a str> {
    let is_measured = |id: &str| MEASURED.iter().any(|(rule, _)| *rule == id);
    rules.iter().map(|id| &**id).filter(|id| !tests.contains_key(*id) && !is_measured(id)).collect()
}

/// The first word of a text that has the form of an id but names no rule.
fn unknown<'a>(rules: &BTreeSet<String>, text: &'a str) -> Option<&'a str> {
    let mut words = text.split(|it: char| !it.is_alphanumeric() && it != '_');
    words.find(|word| is_id(word) && !rules.contains(*word))
}

fn page() -> String {
    fs::read_to_string(workspace().join(PAGE)).expect("the specification can be read")
}

fn rules() -> BTreeSet<String> {
    rules_of(&page()).unwrap_or_else(|wrong| panic!("{PAGE}: {wrong}"))
}

fn relative(path: &Path) -> String {
    path.strip_prefix(workspace()).unwrap_or(path).display().to_string()
}

fn all_tests() -> Tests {
    let (rules, mut tests) = (rules(), Tests::new());
    for path in files(&workspace().join("crates")) {
        let text = fs::read_to_string(&path).expect("it can be read");
        let added = add(&mut tests, &rules, &relative(&path), &tests_in(&text));
        added.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    tests
}

/// The ids in the order of the page.
fn in_order(rules: &BTreeSet<String>) -> Vec<&String> {
    let mut ids: Vec<_> = rules.iter().collect();
    ids.sort_by_key(|id| key(id));
    ids
}

/// The last section of the specification: the number of tests of each rule, and a link to their
/// names.
fn section(rules: &BTreeSet<String>, tests: &Tests) -> String {
    let mut section = format!(
        "{SECTION}\nThe number of tests that name each rule, with a link to their names:\n"
    );
    let mut last = ' ';
    for id in in_order(rules) {
        let count: usize =
            tests.get(id).into_iter().flat_map(BTreeMap::values).map(BTreeSet::len).sum();
        let letter = id.chars().next().unwrap_or_default();
        section.push_str(if letter == last { ", " } else { "\n- " });
        last = letter;
        let what = if count == 0 { "measured".to_owned() } else { count.to_string() };
        let _ = write!(section, "{id} [{what}](specification-tests.md#{})", id.to_lowercase());
    }
    section.push('\n');
    section
}

/// The page with the names of the tests.
fn list(rules: &BTreeSet<String>, tests: &Tests) -> String {
    let mut list = "# Tests by rule\n\nThe tests that name each rule of the [specification](specification.md). This \
        page is made from the names of the\ntests by `SPECIFICATION=write cargo test -p duet-rpc-proto --test house`.\n"
        .to_owned();
    for id in in_order(rules) {
        let _ = write!(
            list,
            "\n## {id}\n\nThe rule: [{id}](specification.md#{})\n\n",
            id.to_lowercase()
        );
        if let Some((_, command)) = MEASURED.iter().find(|(rule, _)| rule == id) {
            let _ = writeln!(list, "- measured by `{command}`");
        }
        for (path, names) in tests.get(id).into_iter().flatten() {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            let _ = writeln!(list, "- `{path}` {}", names.join(", "));
        }
    }
    list
}

#[test]
fn every_rule_has_a_test() {
    assert_eq!(untested(&rules(), &all_tests()), Vec::<&str>::new());
    for (_, path) in MEASURED {
        assert!(workspace().join(path).exists(), "{path}");
    }
}

/// Tests of the command line, the daemon's life and its log run the real binary.
#[test]
fn every_rule_of_the_daemon_has_a_test_of_the_process() {
    let tests = all_tests();
    for id in rules() {
        let is_of_process = id.starts_with(['C', 'L', 'G', 'W']) && id != "W9"
            || ["P8", "T1", "T2", "T3"].contains(&&*id);
        let is_tested = |path: &String| path.starts_with("crates/cli/tests/");
        assert!(
            !is_of_process || tests[&id].keys().any(is_tested),
            "no test of the process names {id}"
        );
    }
}

#[test]
fn the_specification_lists_the_tests_of_each_rule() {
    let (page, rules, tests) = (page(), rules(), all_tests());
    let (before, _) = page.split_once(SECTION).unwrap_or((&page, ""));
    let texts =
        [(PAGE, format!("{before}{}", section(&rules, &tests))), (LIST, list(&rules, &tests))];
    for (path, text) in texts {
        let path = workspace().join(path);
        if std::env::var("SPECIFICATION").is_ok_and(|value| value == "write") {
            // Other tests may read the page meanwhile.
            let fresh = path.with_extension("new");
            fs::write(&fresh, text)
                .and_then(|()| fs::rename(fresh, path))
                .expect("it can be written");
        } else {
            let is_same = fs::read_to_string(&path).is_ok_and(|old| old == text);
            assert!(is_same, "run `SPECIFICATION=write cargo test -p duet-rpc-proto --test house`");
        }
    }
}

#[test]
fn pages_and_comments_name_only_rules_of_the_specification() {
    let (root, rules) = (workspace(), rules());
    let mut wrong = Vec::new();
    let mut pages: Vec<_> = ["README.md", "ARCHITECTURE.md", "SECURITY.md", "CONTRIBUTING.md"]
        .map(|name| root.join(name))
        .into();
    let folder = fs::read_dir(root.join("docs")).expect("there are pages");
    pages.extend(folder.map(|entry| entry.expect("it can be listed").path()));
    for path in pages.iter().filter(|path| path.extension().is_some_and(|it| it == "md")) {
        let text = fs::read_to_string(path).unwrap_or_default();
        wrong.extend(unknown(&rules, &text).map(|id| format!("{}: {id}", relative(path))));
    }
    for path in files(&root.join("crates")) {
        // This file has words in the form of ids.
        if path.ends_with("house/rules.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("it can be read");
        let comments = text.lines().filter_map(|line| line.split_once("//")).map(|(_, it)| it);
        let comments = comments.collect::<Vec<_>>().join("\n");
        wrong.extend(unknown(&rules, &comments).map(|id| format!("{}: {id}", relative(&path))));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The documentation of a public item names a rule by a link: `[F1](crate::specification#f1)`.
#[test]
fn the_documentation_of_public_items_links_to_the_rules_that_it_names() {
    let folders =
        ["proto", "duet-rpc", "cli"].map(|name| workspace().join(format!("crates/{name}/src")));
    let mut links = 0;
    for path in folders.iter().flat_map(|folder| files(folder)) {
        let text = fs::read_to_string(&path).expect("it can be read");
        let mut above = String::new();
        for line in text.lines().map(str::trim_start) {
            if line.starts_with("///") || line.starts_with("#[") {
                above.push_str(line);
                continue;
            }
            if line.starts_with("pub ") {
                for id in rules() {
                    let link = format!("specification#{})", id.to_lowercase());
                    let named = unlinked(&above, &id);
                    assert_eq!(named, None, "{}: above `{line}`: link to {link}", relative(&path));
                    links += above.matches(&link).count();
                }
            }
            above.clear();
        }
    }
    assert!(links > 5, "the documentation has {links} links");
}

/// The place where a text names a rule without a link.
fn unlinked<'a>(text: &'a str, id: &str) -> Option<&'a str> {
    let link = format!("specification#{}", id.to_lowercase());
    let mut rest = text;
    while let Some(at) = rest.find(id) {
        let (before, behind) = (&rest[..at], &rest[at + id.len()..]);
        let is_word =
            !before.ends_with(char::is_alphanumeric) && !behind.starts_with(char::is_alphanumeric);
        let is_link = before.ends_with('[')
            && behind
                .strip_prefix("](")
                .and_then(|to| to.split_once(')'))
                .is_some_and(|(to, _)| to.ends_with(&link));
        if is_word && !is_link {
            return Some(&rest[at..]);
        }
        rest = behind;
    }
    None
}

/// The table of requirements names each requirement once, with rules that exist.
#[test]
fn every_requirement_has_its_rules() {
    let (page, rules) = (page(), rules());
    let (_, table) = page.split_once("## 12. Requirements").expect("it has the section");
    let (table, _) = table.split_once("\n## ").expect("another section follows");
    let rows = table.lines().filter(|line| line.starts_with("| ") && !line.contains("| rules |"));
    let mut requirements = Vec::new();
    for row in rows {
        let mut cells = row.trim_matches(['|', ' ']).split(" | ");
        requirements.extend(cells.next().filter(|cell| cell.starts_with("REQ-")));
        let named: Vec<_> = cells.last().unwrap_or_default().split(", ").collect();
        for id in &named {
            assert!(rules.contains(*id), "{row}: there is no rule {id}");
        }
        assert!(!named.is_empty(), "{row}");
    }
    let all: Vec<_> = (1..=26).map(|number| format!("REQ-{number:03}")).collect();
    assert_eq!(requirements, all);
}

#[test]
fn planted_mistakes_are_reported() {
    let page = "- <a id=\"f1\"></a>**F1** One.\n- <a id=\"m2\"></a>**M2** Two.\n";
    let rules = rules_of(page).expect("they are right");
    for wrong in [
        page.replace("M2", "F1"),
        page.replace("\"m2\"", "\"m3\""),
        page.replace("**M2**", "M2"),
        page.replace("M2", "Z2").replace("m2", "z2"),
        page.replace("<a id", "<a name"),
    ] {
        assert!(rules_of(&wrong).is_err(), "{wrong}");
    }
    let mut tests = Tests::new();
    assert!(add(&mut tests, &rules, "a.rs", &BTreeSet::from(["f1_f7_wrong"])).is_err());
    let mut tests = Tests::new();
    assert_eq!(
        add(&mut tests, &rules, "a.rs", &BTreeSet::from(["f1_right", "u8_is_none"])),
        Ok(())
    );
    assert_eq!(untested(&rules, &tests), ["M2"], "a rule without a test");
    assert_eq!(unknown(&rules, "as F1 and (M2) say, but UTF8 and F123 do not"), None);
    assert_eq!(unknown(&rules, "as F1 and F2 say"), Some("F2"));
    assert!(list(&rules, &tests).contains("`a.rs` `f1_right`"));
    assert_eq!(unlinked("see [F1](crate::specification#f1) and F12", "F1"), None);
    for wrong in ["see F1", "[F1](crate::specification#f2)", "[F1](crate::specification#f1), F1"] {
        assert!(unlinked(wrong, "F1").is_some(), "{wrong}");
    }
}
