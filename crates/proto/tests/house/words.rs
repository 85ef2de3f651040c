//! The language of the repository: doc comments name the thing, types do not share names, and the metaphors
//! of the style guide do not return.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use super::{files, workspace};

const QUESTION_WORDS: [&str; 8] =
    ["What", "Who", "Whoever", "Where", "How", "Whether", "Why", "When"];

/// Metaphors for a mechanism, each with the technical word to use instead.
const METAPHORS: [(&str, &str); 12] = [
    ("shelf", "slot"),
    ("mail", "queue"),
    ("crowd", "clients, waiters"),
    ("deaf", "write failed"),
    ("farewell", "shutdown, exit report"),
    ("last rites", "forced exit"),
    ("loan", "hand-off"),
    ("calm", "idle"),
    ("mend", "fix"),
    ("mended", "fixed"),
    ("gate", "access policy, guards"),
    ("a word why", "reason"),
];

/// Exceptions: a line that contains one of these may use such a word.
const ALLOWED: &[&str] = &[];

/// The text of all our Rust files, except those in bench/peers, which follow the style of other libraries.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for folder in ["crates", "bench/driver", "bench/ours", "bench/limit", "fuzz/fuzz_targets"] {
        for path in files(&workspace().join(folder)) {
            let is_built = path.components().any(|part| part.as_os_str() == "target");
            if !is_built && !path.ends_with("house/words.rs") {
                let text = fs::read_to_string(&path).expect("a text");
                found.push((path, text));
            }
        }
    }
    assert!(found.len() > 300, "{} files", found.len());
    found
}

/// The text of a doc comment, if the line is one.
fn doc_text(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("//!").or(line.strip_prefix("///")).map(str::trim_start)
}

fn is_question(text: &str) -> bool {
    let first = text.split(|character: char| !character.is_alphanumeric()).next();
    first.is_some_and(|first| QUESTION_WORDS.contains(&first))
}

#[test]
fn under_two_percent_of_doc_lines_open_with_a_question_word() {
    let (mut lines, mut questions) = (0, Vec::new());
    let (mut headers, mut question_headers) = (0, Vec::new());
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            let Some(doc) = doc_text(line) else { continue };
            lines += 1;
            let place = || format!("{}:{}: {doc}", path.display(), number + 1);
            if is_question(doc) {
                questions.push(place());
            }
            if number == 0 {
                headers += 1;
                if is_question(doc) {
                    question_headers.push(place());
                }
            }
        }
    }
    assert!(questions.len() * 50 < lines, "of {lines}:\n{}", questions.join("\n"));
    let shown = question_headers.join("\n");
    assert!(question_headers.len() * 50 < headers, "of {headers}:\n{shown}");
}

/// True if a text contains these words in sequence, as separate words or as parts of a name.
fn has_words(text: &str, words: &str) -> bool {
    let mut spaced = String::with_capacity(text.len() + 16);
    let mut before = ' ';
    for character in text.chars() {
        // `LastRites` and `last_rites` are two words.
        if character.is_uppercase() && before.is_lowercase() {
            spaced.push(' ');
        }
        spaced.push(if character.is_alphanumeric() { character } else { ' ' });
        before = character;
    }
    format!(" {} ", spaced.to_lowercase()).contains(&format!(" {words} "))
}

fn pages() -> Vec<(PathBuf, String)> {
    let root = workspace();
    let mut paths: Vec<PathBuf> = Vec::new();
    for folder in ["", "docs", "clients/emacs", "clients/node", "crates/duet-rpc", "crates/proto"] {
        let entries = fs::read_dir(root.join(folder)).expect("a folder");
        paths.extend(entries.map(|entry| entry.expect("it can be listed").path()));
    }
    // The changelog mentions old names.
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.retain(|path| !path.ends_with("CHANGELOG.md"));
    assert!(paths.len() > 20, "{} pages", paths.len());
    paths
        .into_iter()
        .map(|path| (path.clone(), fs::read_to_string(path).expect("a text")))
        .collect()
}

#[test]
fn metaphors_of_the_style_guide_are_gone() {
    let mut left = Vec::new();
    for (path, text) in sources().into_iter().chain(pages()) {
        for (number, line) in text.lines().enumerate() {
            for (metaphor, word) in METAPHORS {
                let is_allowed = ALLOWED.iter().any(|allowed| line.contains(allowed));
                if has_words(line, metaphor) && !is_allowed {
                    let place = format!("{}:{}", path.display(), number + 1);
                    left.push(format!("{place}: `{metaphor}`, say {word}: {}", line.trim()));
                }
            }
        }
    }
    assert!(left.is_empty(), "{}", left.join("\n"));
}

/// The name of the type that an unindented line defines.
fn defined_type(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => line,
    };
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    let name = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
    name.split(|character: char| !character.is_alphanumeric() && character != '_').next()
}

/// True if the comment above a definition gives the reason for its name.
fn has_reason(lines: &[&str], place: usize) -> bool {
    let above = lines[..place].iter().rev();
    let mut above = above.take_while(|line| line.starts_with("//") || line.starts_with("#["));
    above.any(|line| line.starts_with("// Same name: "))
}

#[test]
fn types_of_one_crate_that_share_a_name_say_why() {
    let root = workspace();
    let crates = fs::read_dir(root.join("crates")).expect("a folder");
    let mut folders: Vec<_> = crates.map(|it| it.expect("it can be listed").path()).collect();
    folders.push(root.join("bench/driver"));
    let mut clashes = Vec::new();
    for folder in folders {
        let mut without_reason: HashMap<String, Vec<String>> = HashMap::new();
        for path in files(&folder.join("src")) {
            let text = fs::read_to_string(&path).expect("a text");
            let lines: Vec<_> = text.lines().collect();
            for (place, line) in lines.iter().enumerate() {
                let Some(name) = defined_type(line) else { continue };
                if !has_reason(&lines, place) && !super::is_test(&path) {
                    let shown = path.strip_prefix(&root).expect("it is below").display();
                    without_reason.entry(name.to_owned()).or_default().push(shown.to_string());
                }
            }
        }
        clashes.extend(without_reason.into_iter().filter(|(_, paths)| paths.len() > 1));
    }
    clashes.sort();
    assert!(clashes.is_empty(), "{clashes:#?}");
}

#[test]
fn the_readme_shows_code_within_its_first_30_lines() {
    let readme = fs::read_to_string(workspace().join("README.md")).expect("it is there");
    let place = readme.lines().position(|line| line.starts_with("```"));
    assert!(place.is_some_and(|place| place < 30), "the first code block: {place:?}");
}
