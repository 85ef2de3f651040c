//! Hover: describes the word under the cursor.

use serde_json::{Value, json};

use crate::protocol::Position;
use crate::session::Snapshot;

/// Returns the answer to a hover request; `None` if there is no word.
pub(crate) fn describe(snapshot: &Snapshot, position: Position) -> Option<Value> {
    let Snapshot { document, encoding, likes_markdown } = snapshot;
    let range = document.word_at(position, *encoding)?;
    let word = &document.text()[range.clone()];
    let characters = match word.chars().count() {
        1 => "1 character".to_owned(),
        count => format!("{count} characters"),
    };
    let times = match document.words().filter(|(_, other)| *other == word).count() {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    };
    let (kind, word) = match likes_markdown {
        // A code span needs no escapes.
        true => ("markdown", format!("`{word}`")),
        false => ("plaintext", word.to_owned()),
    };
    let value = format!("{word}\n\n{characters}, {times} in this document");
    let range = document.range(range, *encoding);
    Some(json!({"contents": {"kind": kind, "value": value}, "range": range}))
}
