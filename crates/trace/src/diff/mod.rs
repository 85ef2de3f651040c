//! Compares two traces, exchange by exchange.
//!
//! An exchange is a request with its answer, or a notification. Those of each direction are aligned
//! by method, in order; so a server that sends its notifications earlier or later is the same.
//!
//! ```text
//!   trace A ─▶ index ─┐
//!                     ├─▶ align (by method) ─▶ compare (values) ─▶ Difference
//!   trace B ─▶ index ─┘
//! ```
//!
//! The index has the places of messages in the file, not their bodies. Bodies are read again, one pair
//! at a time.

mod align;
mod index;
#[cfg(test)]
mod tests;
mod values;

use std::io::{self, Read, Seek};

use crate::message::Message;
use crate::record::Dir;
use index::{Exchange, Index};
use values::Bodies;
pub use values::{Change, Pointer};

/// Settings of a comparison.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DiffOptions {
    /// Places in messages whose values do not matter.
    pub ignore: Vec<Pointer>,
    /// Methods that do not matter; `*` stands for any text.
    pub ignore_methods: Vec<String>,
    /// The order of messages does not matter.
    pub is_unordered: bool,
    /// The time by which an answer may be slower, in microseconds. `None`: times do not matter.
    pub tolerance: Option<u64>,
}

/// A difference, or a pair without one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Difference {
    /// The exchange is in both traces, with the same values.
    Same(Side),
    /// The exchange is in both traces, with other values.
    Changed(Side, Vec<Change>),
    /// The answer of the second trace took longer than that of the first. Has both times, in
    /// microseconds. It comes in addition to one of the others.
    Slower(Side, u64, u64),
    /// Only the first trace has the exchange.
    Missing(Side),
    /// Only the second trace has the exchange.
    Extra(Side),
}

/// An exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Side {
    /// The direction of the request or notification.
    pub dir: Dir,
    /// The method.
    pub method: String,
    /// The `seq` of the record in the first trace, or in the second if the first does not have it.
    pub seq: u64,
}

/// A trace that cannot be compared.
#[derive(Debug)]
#[non_exhaustive]
pub enum DiffError {
    /// Reading failed.
    Read(io::Error),
    /// A line is not a record.
    Line(crate::parse::BadLine),
}

impl From<io::Error> for DiffError {
    fn from(error: io::Error) -> Self {
        DiffError::Read(error)
    }
}

impl std::fmt::Display for DiffError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DiffError::Read(error) => error.fmt(f),
            DiffError::Line(line) => line.fmt(f),
        }
    }
}

impl std::error::Error for DiffError {}

/// Compares two traces, and reports each pair in the order of the first trace.
///
/// # Errors
///
/// The number of the trace, 0 or 1, and the reason that it cannot be read.
pub fn diff<A: Read + Seek, B: Read + Seek>(
    first: A,
    second: B,
    options: &DiffOptions,
    mut report: impl FnMut(Difference),
) -> Result<(), (usize, DiffError)> {
    let mut first = Index::read(first, options).map_err(|error| (0, error))?;
    let mut second = Index::read(second, options).map_err(|error| (1, error))?;
    let (old, new) = (first.take_exchanges(), second.take_exchanges());
    let mut pairs = Vec::new();
    for dir in [Dir::C2s, Dir::S2c] {
        let left: Vec<_> = old.iter().filter(|it| it.dir == dir).collect();
        let right: Vec<_> = new.iter().filter(|it| it.dir == dir).collect();
        pairs.extend(match options.is_unordered {
            true => align::unordered(&left, &right),
            false => align::ordered(&left, &right),
        });
    }
    // An exchange of the second trace stands where its seq would be in the first.
    pairs.sort_by_key(|(left, right)| left.or(*right).map_or(0, |exchange| exchange.seq));
    for pair in pairs {
        let difference = match pair {
            (Some(left), Some(right)) => {
                if let (Some(old), Some(new), Some(tolerance)) =
                    (left.took, right.took, options.tolerance)
                    && new > old.saturating_add(tolerance)
                {
                    report(Difference::Slower(left.side(), old, new));
                }
                let old = first.bodies(left).map_err(|error| (0, error))?;
                let new = second.bodies(right).map_err(|error| (1, error))?;
                let changes = values::compare(&old, &new, &options.ignore);
                match changes.is_empty() {
                    true => Difference::Same(left.side()),
                    false => Difference::Changed(left.side(), changes),
                }
            }
            (Some(left), None) => Difference::Missing(left.side()),
            (_, Some(right)) => Difference::Extra(right.side()),
            (None, None) => continue,
        };
        report(difference);
    }
    Ok(())
}

/// Compares two messages: params, results and errors.
pub(crate) fn compare_messages(
    old: &Message<'_>,
    new: &Message<'_>,
    ignore: &[Pointer],
) -> Vec<Change> {
    let bodies = |message: &Message<'_>| Bodies {
        params: values::parse(message.params),
        result: values::parse(message.result),
        error: values::parse(message.error),
        is_cut: false,
        is_redacted: false,
    };
    values::compare(&bodies(old), &bodies(new), ignore)
}

impl Exchange {
    fn side(&self) -> Side {
        Side { dir: self.dir, method: self.method.to_string(), seq: self.seq }
    }
}
