//! The filter language: which records of a trace to show.
//!
//! ```text
//! method:text* dir:s2c -kind:error         and, not
//! took:>100ms | is:unanswered              or
//! kind:request|notification (a | b)        or within a value; groups
//! ```
//!
//! | term | matches |
//! |---|---|
//! | `method:NAME` | the method; `*` stands for any text |
//! | `dir:`, `kind:` | `c2s`, `s2c`, `err`, `tap`; the kinds of the trace format |
//! | `id:ID` | the id: `7` matches `7` and `"7"` |
//! | `took:>100ms` | the time to the answer, of a request and of its answer; `us`, `ms`, `s`, `m` |
//! | `at:<2s`, `seq:17` | the time since the start; the number of the record |
//! | `size:>10k` | the size of the body; `k`, `M`, `G` for 1024 bytes and its powers |
//! | `text:TEXT`, `TEXT` | text anywhere in the body, in upper or lower case |
//! | `is:STATE` | `pending`, `late`, `cancelled`, `failed`, `unanswered`, `noise`: see [`Facts`] |
//!
//! Space is *and* and binds closer than `|`. `-` negates one term or group. Text in `"` is taken
//! literally; `\"` and `\\` are the escapes in it.

mod parse;
mod quantity;
mod term;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::record::{Dir, Record};
pub use parse::FilterError;
use term::{Pattern, State, Term};

/// A parsed filter.
///
/// ```
/// use duet_rpc_trace::{Dir, Facts, Filter, Kind, Record};
///
/// let filter = Filter::parse("dir:s2c -kind:error").expect("it is well-formed");
/// let record = Record::new(1, 0, Dir::S2c, Kind::Response);
/// assert!(filter.matches(&record, &Facts::default()));
/// assert_eq!(filter.to_string(), "dir:s2c -kind:error");
///
/// let error = Filter::parse("took:fast").expect_err("it is not a time");
/// assert_eq!(error.to_string(), "position 6: expected a time such as >100ms, found `fast`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Expr);

/// The state of a request, known only from the records around it.
///
/// A request and its answer have the same facts. Its cancellation is only `cancelled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// The request has no answer yet, and the session still runs.
    pub pending: bool,
    /// The answer took longer than the threshold for slow requests, or the request has been pending for so long.
    pub late: bool,
    /// The request was cancelled.
    pub cancelled: bool,
    /// The answer is an error, and the request was not cancelled.
    pub failed: bool,
    /// The session is over, and the request has no answer.
    pub unanswered: bool,
    /// The time from the request to its answer, in microseconds.
    pub took: Option<u64>,
}

/// Parses a time such as `100ms`, with the units of filters: `us`, `ms`, `s`, `m`. In microseconds.
pub fn parse_time(text: &str) -> Option<u64> {
    quantity::TIME.value(text)
}

/// Parses a size such as `10k`, with the units of filters. In bytes.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    quantity::SIZE.value(text)
}

/// Compares a text with a pattern in which `*` stands for any text.
pub(crate) fn matches_stars(pattern: &str, text: &str) -> bool {
    Pattern::with_stars(pattern).matches(text)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Expr {
    /// Matches if all do; matches everything if empty.
    All(Vec<Expr>),
    Any(Vec<Expr>),
    Not(Box<Expr>),
    Term(Term),
}

impl Filter {
    /// Parses a filter. An empty text matches every record.
    ///
    /// # Errors
    ///
    /// The position of the mistake, and what was expected there.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        parse::filter(text).map(Filter)
    }

    /// Returns `true` if the record matches.
    pub fn matches(&self, record: &Record<'_>, facts: &Facts) -> bool {
        self.0.matches(record, facts)
    }

    /// Returns `true` if the filter matches every record.
    pub fn is_empty(&self) -> bool {
        self.0 == Expr::All(Vec::new())
    }

    /// Returns `true` if the answer may depend on later records: on the time to the answer, or on
    /// the state of a request.
    pub fn needs_facts(&self) -> bool {
        self.0.any_term(&|term| matches!(term, Term::Took(_) | Term::Is(_)))
    }

    /// Returns `false` if no record of this direction matches. It may return `true` without reason.
    pub(crate) fn may_match(&self, dir: Dir) -> bool {
        self.0.may_match(dir)
    }

    /// Returns `true` if the filter asks for the state of a request, which only later records tell.
    pub(crate) fn needs_state(&self) -> bool {
        let is_state = |state: &State| *state != State::Noise;
        self.0.any_term(&|term| matches!(term, Term::Is(states) if states.iter().any(is_state)))
    }
}

impl Default for Filter {
    /// Matches every record.
    fn default() -> Self {
        Filter(Expr::All(Vec::new()))
    }
}

impl std::str::FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Filter::parse(text)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Expr {
    /// Joins with *and*. Nested lists become one, so that a filter has one form.
    fn all(parts: Vec<Expr>) -> Expr {
        let flat = parts.into_iter().flat_map(|part| match part {
            Expr::All(parts) => parts,
            part => vec![part],
        });
        single(flat.collect()).unwrap_or_else(Expr::All)
    }

    /// Joins with *or*.
    fn any(parts: Vec<Expr>) -> Expr {
        let flat = parts.into_iter().flat_map(|part| match part {
            Expr::Any(parts) => parts,
            part => vec![part],
        });
        single(flat.collect()).unwrap_or_else(Expr::Any)
    }

    fn matches(&self, record: &Record<'_>, facts: &Facts) -> bool {
        match self {
            Expr::All(parts) => parts.iter().all(|part| part.matches(record, facts)),
            Expr::Any(parts) => parts.iter().any(|part| part.matches(record, facts)),
            Expr::Not(part) => !part.matches(record, facts),
            Expr::Term(term) => term.matches(record, facts),
        }
    }

    fn may_match(&self, dir: Dir) -> bool {
        match self {
            Expr::All(parts) => parts.iter().all(|part| part.may_match(dir)),
            Expr::Any(parts) => parts.iter().any(|part| part.may_match(dir)),
            Expr::Term(Term::Dir(dirs)) => dirs.contains(&dir),
            Expr::Not(part) => {
                !matches!(&**part, Expr::Term(Term::Dir(dirs)) if dirs.contains(&dir))
            }
            Expr::Term(_) => true,
        }
    }

    fn any_term(&self, is_such: &impl Fn(&Term) -> bool) -> bool {
        match self {
            Expr::All(parts) | Expr::Any(parts) => parts.iter().any(|part| part.any_term(is_such)),
            Expr::Not(part) => part.any_term(is_such),
            Expr::Term(term) => is_such(term),
        }
    }
}

/// The only part, or all of them.
fn single(mut parts: Vec<Expr>) -> Result<Expr, Vec<Expr>> {
    match parts.len() {
        1 => parts.pop().ok_or(parts),
        _ => Err(parts),
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::All(parts) => join(f, parts, " ", |part| matches!(part, Expr::Any(_))),
            Expr::Any(parts) => join(f, parts, " | ", |_| false),
            Expr::Not(part) if matches!(**part, Expr::All(_) | Expr::Any(_)) => {
                write!(f, "-({part})")
            }
            Expr::Not(part) => write!(f, "-{part}"),
            Expr::Term(term) => term.fmt(f),
        }
    }
}

fn join(
    f: &mut fmt::Formatter<'_>,
    parts: &[Expr],
    separator: &str,
    is_group: fn(&Expr) -> bool,
) -> fmt::Result {
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            f.write_str(separator)?;
        }
        match is_group(part) {
            true => write!(f, "({part})")?,
            false => write!(f, "{part}")?,
        }
    }
    Ok(())
}
