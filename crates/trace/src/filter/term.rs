//! One term of a filter: a key with values, any of which matches.

use std::fmt;

use super::Facts;
use super::quantity::{Compare, NUMBER, SIZE, TIME, Units};
use crate::record::{Dir, Kind, Record};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Term {
    Method(Vec<Pattern>),
    Dir(Vec<Dir>),
    Kind(Vec<Kind>),
    Id(Vec<String>),
    Took(Vec<Compare>),
    At(Vec<Compare>),
    Seq(Vec<Compare>),
    Size(Vec<Compare>),
    Text(Vec<String>),
    Is(Vec<State>),
}

/// The keys, for parsing and for error messages.
pub(super) const KEYS: [&str; 10] =
    ["method", "dir", "kind", "id", "took", "at", "seq", "size", "text", "is"];

pub(super) const DIRS: [Dir; 4] = [Dir::C2s, Dir::S2c, Dir::Err, Dir::Tap];

pub(super) const KINDS: [Kind; 19] = [
    Kind::Request,
    Kind::Notification,
    Kind::Response,
    Kind::Error,
    Kind::Batch,
    Kind::Invalid,
    Kind::Broken,
    Kind::Noise,
    Kind::Blank,
    Kind::Head,
    Kind::Control,
    Kind::More,
    Kind::Stderr,
    Kind::Loss,
    Kind::Fault,
    Kind::Eof,
    Kind::Signal,
    Kind::Exit,
    Kind::End,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Pending,
    Late,
    Cancelled,
    Failed,
    Unanswered,
    Noise,
}

pub(super) const STATES: [State; 6] =
    [State::Pending, State::Late, State::Cancelled, State::Failed, State::Unanswered, State::Noise];

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Late => "late",
            State::Cancelled => "cancelled",
            State::Failed => "failed",
            State::Unanswered => "unanswered",
            State::Noise => "noise",
        }
    }
}

/// The texts between the stars of a pattern. A pattern of one text has no star.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(pub(super) Vec<String>);

impl Pattern {
    pub(super) fn with_stars(text: &str) -> Self {
        Pattern(text.split('*').map(str::to_owned).collect())
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = &self.0[..] else {
            return self.0.first().is_some_and(|only| only == text);
        };
        let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
        for part in middle {
            let Some(at) = rest.find(part.as_str()) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last.as_str())
    }
}

impl Term {
    pub(super) fn matches(&self, record: &Record<'_>, facts: &Facts) -> bool {
        let any = |values: &[Compare], value: Option<u64>| {
            value.is_some_and(|value| values.iter().any(|compare| compare.matches(value)))
        };
        match self {
            Term::Method(patterns) => {
                let matches = |method: &str| patterns.iter().any(|it| it.matches(method));
                record.method.as_deref().is_some_and(matches)
            }
            Term::Dir(dirs) => dirs.contains(&record.dir),
            Term::Kind(kinds) => kinds.contains(&record.kind),
            Term::Id(ids) => {
                record.id.as_deref().is_some_and(|id| ids.iter().any(|it| is_id(id, it)))
            }
            Term::Took(values) => any(values, record.took.or(facts.took)),
            Term::At(values) => any(values, Some(record.at)),
            Term::Seq(values) => any(values, Some(record.seq)),
            Term::Size(values) => any(values, record.size),
            Term::Text(texts) => record.body.as_ref().is_some_and(|body| {
                texts.iter().any(|text| contains(body.as_bytes(), text.as_bytes()))
            }),
            Term::Is(states) => states.iter().any(|state| match state {
                State::Pending => facts.pending,
                State::Late => facts.late,
                State::Cancelled => facts.cancelled,
                State::Failed => facts.failed,
                State::Unanswered => facts.unanswered,
                State::Noise => is_noise(record),
            }),
        }
    }
}

/// Returns `true` for bytes between the two programs that are not a message.
fn is_noise(record: &Record<'_>) -> bool {
    // `more` goes on with noise or with a broken frame, except on stderr.
    record.dir != Dir::Err && matches!(record.kind, Kind::Noise | Kind::Broken | Kind::More)
}

/// Compares an id in JSON with the user's text: `7` is `7` and `"7"`.
fn is_id(json: &str, text: &str) -> bool {
    json == text || serde_json::from_str::<String>(json).is_ok_and(|id| id == text)
}

/// Searches without regard to ASCII case.
fn contains(text: &[u8], part: &[u8]) -> bool {
    let Some(first) = part.first() else { return true };
    let Some(last_start) = text.len().checked_sub(part.len()) else { return false };
    let (lower, upper) = (first.to_ascii_lowercase(), first.to_ascii_uppercase());
    memchr::memchr2_iter(lower, upper, &text[..=last_start])
        .any(|at| text[at..at + part.len()].eq_ignore_ascii_case(part))
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Method(patterns) => list(f, "method", patterns, |f, it| match &it.0[..] {
                [only] if only.contains('*') => quote(f, only),
                [only] => word(f, only),
                parts => f.write_str(&parts.join("*")),
            }),
            Term::Dir(dirs) => list(f, "dir", dirs, |f, it| f.write_str(it.name())),
            Term::Kind(kinds) => list(f, "kind", kinds, |f, it| f.write_str(it.name())),
            Term::Id(ids) => list(f, "id", ids, |f, it| word(f, it)),
            Term::Took(values) => quantities(f, "took", values, TIME),
            Term::At(values) => quantities(f, "at", values, TIME),
            Term::Seq(values) => quantities(f, "seq", values, NUMBER),
            Term::Size(values) => quantities(f, "size", values, SIZE),
            Term::Text(texts) => list(f, "text", texts, |f, it| word(f, it)),
            Term::Is(states) => list(f, "is", states, |f, it| f.write_str(it.name())),
        }
    }
}

fn quantities(
    f: &mut fmt::Formatter<'_>,
    key: &str,
    values: &[Compare],
    units: Units,
) -> fmt::Result {
    list(f, key, values, |f, it| units.write(*it, f))
}

fn list<T>(
    f: &mut fmt::Formatter<'_>,
    key: &str,
    values: &[T],
    write: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    write!(f, "{key}")?;
    for (place, value) in values.iter().enumerate() {
        f.write_str(if place == 0 { ":" } else { "|" })?;
        write(f, value)?;
    }
    Ok(())
}

/// Returns `true` for a character that ends a word without quotes.
pub(super) fn ends_word(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '|' | '(' | ')' | '"')
}

/// Returns `true` if a term with a key begins here, so that `|` before it joins terms.
pub(super) fn begins_term(text: &str) -> bool {
    let text = text.trim_start_matches('-');
    text.starts_with('(')
        || KEYS.iter().any(|key| text.strip_prefix(key).is_some_and(|it| it.starts_with(':')))
}

/// Writes a value, with quotes if it needs them.
fn word(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    match text.is_empty() || text.contains(ends_word) || begins_term(text) {
        true => quote(f, text),
        false => f.write_str(text),
    }
}

fn quote(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    write!(f, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
