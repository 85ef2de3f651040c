//! Diagnostics of a text: trailing white space, long lines, doubled words, tasks.

use std::ops::Range as Bytes;

use crate::document::{Document, Encoding};
use crate::protocol::{Diagnostic, Severity};

/// Maximum number of characters in a line.
const LONGEST_LINE: usize = 100;
/// Maximum number of diagnostics. Users do not read more.
const MOST: usize = 100;

/// Returns the diagnostics of a document, in the order of the text.
pub(crate) fn check(document: &Document, encoding: Encoding) -> Vec<Diagnostic> {
    let mut found: Vec<_> = lines(document).chain(words(document)).collect();
    found.sort_by_key(|(place, ..)| (place.start, place.end));
    let shown = found.into_iter().take(MOST);
    shown
        .map(|(place, severity, message)| Diagnostic {
            range: document.range(place, encoding),
            severity: severity as u8,
            source: "plain-text".to_owned(),
            message: message.to_owned(),
        })
        .collect()
}

type Finding = (Bytes<usize>, Severity, &'static str);

fn lines(document: &Document) -> impl Iterator<Item = Finding> {
    document.lines().flat_map(|line| {
        let text = &document.text()[line.clone()];
        let space = trailing_space(document, line.clone());
        let space = space.map(|it| (it, Severity::Warning, "White space at the end of the line"));
        let too_long = text.char_indices().nth(LONGEST_LINE).map(|(byte, _)| {
            let rest = line.start + byte..line.end;
            (rest, Severity::Hint, "The line is longer than 100 characters")
        });
        space.into_iter().chain(too_long)
    })
}

/// The white space at the end of each line.
pub(crate) fn trailing_spaces(document: &Document) -> impl Iterator<Item = Bytes<usize>> {
    document.lines().filter_map(|line| trailing_space(document, line))
}

fn trailing_space(document: &Document, line: Bytes<usize>) -> Option<Bytes<usize>> {
    let visible = line.start + document.text()[line.clone()].trim_end().len();
    (visible < line.end).then_some(visible..line.end)
}

fn words(document: &Document) -> impl Iterator<Item = Finding> {
    let mut last = None;
    document.words().flat_map(move |(start, word)| {
        let place = start..start + word.len();
        let before = last.replace((place.end, word));
        let is_doubled = before.is_some_and(|(end, before): (usize, &str)| {
            // Numbers may repeat.
            word.chars().any(char::is_alphabetic)
                && word.to_lowercase() == before.to_lowercase()
                && is_gap(&document.text()[end..start])
        });
        let doubled = (place.clone(), Severity::Warning, "The word is doubled");
        let task = (place, Severity::Information, "A task is left here");
        let task = (word == "TODO").then_some(task);
        is_doubled.then_some(doubled).into_iter().chain(task)
    })
}

/// Returns `true` if only white space, with at most one line end, separates two words.
fn is_gap(between: &str) -> bool {
    between.chars().all(char::is_whitespace) && between.matches('\n').count() <= 1
}
