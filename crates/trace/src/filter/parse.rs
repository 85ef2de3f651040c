//! Parses a filter.
//!
//! ```text
//! any    = all ( "|" all )*
//! all    = factor+                                  separated by space
//! factor = "-" factor | "(" any ")" | term
//! term   = key ":" value ( "|" value )*  |  value    a value alone is text
//! value  = word | quoted
//! ```
//!
//! A `|` directly behind a value belongs to the values if another value follows directly, and not
//! the beginning of a term.

use std::fmt;

use super::Expr;
use super::quantity::{NUMBER, SIZE, TIME, Units};
use super::term::{DIRS, KEYS, KINDS, Pattern, STATES, Term, begins_term, ends_word};

/// Groups within groups, and `-` before `-`.
const MAX_DEPTH: u32 = 64;

/// A mistake in a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterError {
    /// The number of characters before the mistake.
    pub position: usize,
    /// What was expected there.
    pub expected: String,
    /// What is there. Empty at the end of the filter.
    pub found: String,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FilterError { position, expected, found } = self;
        write!(f, "position {}: expected {expected}, found ", position + 1)?;
        match found.is_empty() {
            true => f.write_str("the end"),
            false => write!(f, "`{found}`"),
        }
    }
}

impl std::error::Error for FilterError {}

pub(super) fn filter(text: &str) -> Result<Expr, FilterError> {
    let mut input = Input { text, rest: text, depth: 0 };
    input.skip_space();
    if input.rest.is_empty() {
        return Ok(Expr::All(Vec::new()));
    }
    let filter = input.any()?;
    match input.rest.is_empty() {
        true => Ok(filter),
        false => Err(input.expected("a term or `(` before")),
    }
}

struct Input<'a> {
    text: &'a str,
    rest: &'a str,
    depth: u32,
}

/// A value, and whether it had quotes.
struct Value<'a> {
    text: String,
    is_quoted: bool,
    /// The rest of the filter from this value, for an error message.
    from: &'a str,
}

impl<'a> Input<'a> {
    fn any(&mut self) -> Result<Expr, FilterError> {
        let mut parts = vec![self.all()?];
        while self.take('|') {
            self.skip_space();
            parts.push(self.all()?);
        }
        Ok(Expr::any(parts))
    }

    fn all(&mut self) -> Result<Expr, FilterError> {
        let mut parts = vec![self.factor()?];
        self.skip_space();
        while !self.rest.is_empty() && !self.rest.starts_with(['|', ')']) {
            parts.push(self.factor()?);
            self.skip_space();
        }
        Ok(Expr::all(parts))
    }

    fn factor(&mut self) -> Result<Expr, FilterError> {
        if self.depth >= MAX_DEPTH {
            return Err(self.expected("fewer groups within groups"));
        }
        self.depth += 1;
        let factor = if self.take('-') {
            Expr::Not(Box::new(self.factor()?))
        } else if self.take('(') {
            self.skip_space();
            let group = self.any()?;
            if !self.take(')') {
                return Err(self.expected("`)`"));
            }
            group
        } else {
            Expr::Term(self.term()?)
        };
        self.depth -= 1;
        Ok(factor)
    }

    fn term(&mut self) -> Result<Term, FilterError> {
        let start = self.rest;
        let word = &start[..word_length(start)];
        let Some((key, _)) = word.split_once(':') else {
            return self.values(|value| Ok(value.text)).map(Term::Text);
        };
        if !KEYS.contains(&key) {
            let keys = KEYS.join(":, ");
            let expected = format!("{keys}: or text in quotes");
            return Err(self.expected_at(start, &expected));
        }
        self.rest = &start[key.len() + 1..];
        match key {
            "method" => self.values(|value| Ok(pattern(&value))).map(Term::Method),
            "dir" => self.names("a direction", &DIRS, |dir| dir.name()).map(Term::Dir),
            "kind" => self.names("a kind", &KINDS, |kind| kind.name()).map(Term::Kind),
            "id" => self.values(|value| Ok(value.text)).map(Term::Id),
            "took" => self.quantities(TIME).map(Term::Took),
            "at" => self.quantities(TIME).map(Term::At),
            "seq" => self.quantities(NUMBER).map(Term::Seq),
            "size" => self.quantities(SIZE).map(Term::Size),
            "is" => self.names("a state", &STATES, |state| state.name()).map(Term::Is),
            _ => self.values(|value| Ok(value.text)).map(Term::Text),
        }
    }

    fn names<T: Copy>(
        &mut self,
        what: &str,
        all: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Result<Vec<T>, FilterError> {
        self.values(|value| {
            all.iter().copied().find(|it| name(*it) == value.text).ok_or_else(|| {
                let names: Vec<_> = all.iter().map(|it| name(*it)).collect();
                format!("{what} ({})", names.join(", "))
            })
        })
    }

    fn quantities(&mut self, units: Units) -> Result<Vec<super::quantity::Compare>, FilterError> {
        self.values(|value| units.parse(&value.text).ok_or_else(|| units.expected.to_owned()))
    }

    /// Values separated by `|`. `read` returns what it expected if it cannot use a value.
    fn values<T>(
        &mut self,
        read: impl Fn(Value<'a>) -> Result<T, String>,
    ) -> Result<Vec<T>, FilterError> {
        let mut values = Vec::new();
        loop {
            let value = self.value()?;
            let from = value.from;
            values.push(read(value).map_err(|expected| self.expected_at(from, &expected))?);
            let Some(next) = self.rest.strip_prefix('|') else { return Ok(values) };
            if next.starts_with(|c: char| c.is_whitespace()) || begins_term(next) {
                return Ok(values);
            }
            self.rest = next;
        }
    }

    fn value(&mut self) -> Result<Value<'a>, FilterError> {
        let from = self.rest;
        let Some(mut rest) = from.strip_prefix('"') else {
            let (word, rest) = from.split_at(word_length(from));
            if word.is_empty() {
                return Err(self.expected("a value"));
            }
            self.rest = rest;
            return Ok(Value { text: word.to_owned(), is_quoted: false, from });
        };
        let mut text = String::new();
        loop {
            let Some(at) = rest.find(['"', '\\']) else {
                self.rest = "";
                return Err(self.expected("`\"`"));
            };
            text.push_str(&rest[..at]);
            let is_end = rest[at..].starts_with('"');
            rest = &rest[at + 1..];
            if is_end {
                self.rest = rest;
                return Ok(Value { text, is_quoted: true, from });
            }
            let Some(escaped) = rest.chars().next().filter(|c| matches!(c, '"' | '\\')) else {
                return Err(self.expected_at(rest, "`\"` or `\\` after `\\`"));
            };
            text.push(escaped);
            rest = &rest[1..];
        }
    }

    fn take(&mut self, letter: char) -> bool {
        let rest = self.rest.strip_prefix(letter);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn expected(&self, expected: &str) -> FilterError {
        self.expected_at(self.rest, expected)
    }

    fn expected_at(&self, rest: &str, expected: &str) -> FilterError {
        const SHOWN: usize = 20;
        let before = &self.text[..self.text.len() - rest.len()];
        // A punctuation mark is shown alone, a word whole.
        let length = word_length(rest).max(rest.chars().next().map_or(0, char::len_utf8));
        FilterError {
            position: before.chars().count(),
            expected: expected.to_owned(),
            found: rest[..length].chars().take(SHOWN).collect(),
        }
    }
}

fn word_length(text: &str) -> usize {
    text.find(ends_word).unwrap_or(text.len())
}

fn pattern(value: &Value<'_>) -> Pattern {
    match value.is_quoted {
        true => Pattern(vec![value.text.clone()]),
        false => Pattern::with_stars(&value.text),
    }
}
