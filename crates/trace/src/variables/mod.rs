//! Values that one side of a session makes up and the other side sends back: ids, tokens, URIs.
//!
//! A replay plays the client, so the server's values are new each time, and the client's messages must
//! carry the new ones. A mock plays the server, so it is the other way round.
//!
//! | value | is a variable if the other side says it first, and this side repeats it |
//! |---|---|
//! | a string of 8 characters or more | anywhere, alone or as a word of a longer string |
//! | a shorter string, a number | in a member of the same name |
//! | `true`, `false`, `null`, a redacted value | never |
//!
//! A progress token has several names, which count as one: `workDoneToken` of a request is `token` of its progress.
//! The caller of [`Variables::learn`] may leave values out: a strict mock takes only what it cannot mistake for
//! a parameter of the request.
//!
//! A variable changes only if the counterpart of the message that made it up does not contain the old
//! value any more, and has another one in its place. So a list in another order changes nothing.

mod table;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::record::Dir;
use crate::redact::REDACTED;
use crate::script::scalars::{self, Scalar};
use crate::script::{Place, Script};
pub(crate) use table::Table;

/// A shorter string is known only by the name of its member.
const LONG: usize = 8;

/// A value, as it is recognised in other messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ValueKey {
    /// A long string.
    Text(String),
    /// A short string or a number, in the member of this name. The value is a JSON text.
    Member(String, String),
}

/// A value that a side made up.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    /// The steps to the value in this message.
    pub(crate) path: Vec<String>,
    pub(crate) key: ValueKey,
}

/// A place in a frame of the other side that repeats a variable.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    /// The bytes of the string or number in the frame.
    pub(crate) range: Range<usize>,
    pub(crate) variable: usize,
}

/// The variables of a script, for one side that is played.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    pub(crate) all: Vec<Variable>,
    /// The uses in each frame of the played side, in the order of the text.
    pub(crate) uses: HashMap<usize, Vec<Use>>,
    /// The variables that a message has first.
    pub(crate) made: HashMap<Place, Vec<usize>>,
}

impl Variables {
    /// Finds the variables for a program that plays this side, among the values that `may_change` accepts.
    pub(crate) fn learn(
        script: &Script,
        played: Dir,
        may_change: impl Fn(&Scalar<'_>) -> bool,
    ) -> Self {
        let mut repeated = HashSet::new();
        for step in script.steps.iter().filter(|step| step.dir == played) {
            for_each(step, |_, scalar, _| repeated.extend(keys(scalar)));
        }
        let mut found = Variables::default();
        let (mut by_key, mut said) =
            (HashMap::<ValueKey, usize>::new(), HashSet::<ValueKey>::new());
        for (number, step) in script.steps.iter().enumerate() {
            for_each(step, |item, scalar, offset| match step.dir == played {
                true => {
                    for key in keys(scalar) {
                        let Some(&variable) = by_key.get(&key) else {
                            said.insert(key);
                            continue;
                        };
                        let range = scalar.range.start + offset..scalar.range.end + offset;
                        found.uses.entry(number).or_default().push(Use { range, variable });
                    }
                }
                false => {
                    // Words of the side that makes up values are whole strings.
                    let Some(key) = key(scalar) else { return };
                    let is_token = step.items[item].method == "window/workDoneProgress/create";
                    let is_new = !said.contains(&key) && !by_key.contains_key(&key);
                    if is_new && (repeated.contains(&key) || is_token) && may_change(scalar) {
                        by_key.insert(key.clone(), found.all.len());
                        found.made.entry((number, item)).or_default().push(found.all.len());
                        found.all.push(Variable { path: scalar.path(), key });
                    }
                }
            });
        }
        found
    }
}

/// The strings and numbers in params, results and errors. `take` gets the number of the message in the frame
/// and its first byte.
fn for_each(step: &crate::script::Step, mut take: impl FnMut(usize, &Scalar<'_>, usize)) {
    for (number, item) in step.items.iter().enumerate() {
        let Some(json) = step.json.get(item.range.clone()) else { continue };
        scalars::for_each(json, |scalar| {
            if has_values(scalar) {
                take(number, scalar, item.range.start);
            }
        });
    }
}

/// Returns `true` for a value in params, a result or an error.
pub(crate) fn has_values(scalar: &Scalar<'_>) -> bool {
    matches!(scalar.root(), "params" | "result" | "error")
}

/// Names of members with a token that a client makes up for the progress of a request, in LSP and MCP.
const PROGRESS_TOKENS: [&str; 3] = ["progressToken", "workDoneToken", "partialResultToken"];

/// Returns `true` for the name of a member with a progress token.
pub(crate) fn is_progress_token(name: &str) -> bool {
    PROGRESS_TOKENS.contains(&name)
}

fn member_key(scalar: &Scalar<'_>, json: String) -> ValueKey {
    let name = scalar.name();
    let name = if is_progress_token(&name) { "token" } else { &*name };
    ValueKey::Member(name.to_owned(), json)
}

/// The value as a whole.
pub(crate) fn key(scalar: &Scalar<'_>) -> Option<ValueKey> {
    match scalar.text() {
        Some(text) if text == REDACTED || text.is_empty() => None,
        Some(text) if text.len() >= LONG => Some(ValueKey::Text(text.into_owned())),
        Some(text) => Some(member_key(scalar, quoted(&text))),
        None => Some(member_key(scalar, scalar.raw.to_owned())),
    }
}

/// The value as a whole, and the long words of a string.
fn keys(scalar: &Scalar<'_>) -> Vec<ValueKey> {
    let mut keys: Vec<_> = key(scalar).into_iter().collect();
    if let Some(text) = scalar.text() {
        let words = words(&text).filter(|(_, word)| word.len() >= LONG && *word != text);
        keys.extend(words.map(|(_, word)| ValueKey::Text(word.to_owned())));
    }
    keys
}

/// The words of a text, with their positions. A UUID, a number with dots and a percent-encoded text are
/// words.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_end = |letter: char| !letter.is_alphanumeric() && !"-_.~%+".contains(letter);
    let mut at = 0;
    text.split(is_end).filter_map(move |word| {
        let start = at + text[at..].find(word)?;
        at = start + word.len();
        Some((start, word))
    })
}

/// A string as JSON.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
