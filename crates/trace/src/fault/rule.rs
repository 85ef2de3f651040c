//! A fault rule: what to do, to which messages, and how often.

use std::fmt;

use super::parse;
use super::random::{fraction, mix};
use crate::filter::{Filter, FilterError};

/// A fault, and the messages that it concerns.
///
/// ```
/// use duet_rpc_trace::FaultRule;
///
/// # fn main() -> Result<(), duet_rpc_trace::FilterError> {
/// let rule: FaultRule = "delay=200ms method:textDocument/hover dir:s2c p:0.1".parse()?;
/// assert_eq!(rule.to_string(), "delay=200ms method:textDocument/hover dir:s2c p:0.1");
///
/// let error = "dealy=200ms".parse::<FaultRule>().expect_err("there is no such fault");
/// assert!(error.to_string().starts_with("position 1: expected a fault (delay=, throttle="));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FaultRule {
    pub(super) text: String,
    pub(super) fault: Fault,
    pub(super) filter: Filter,
    pub(super) choice: Choice,
}

impl FaultRule {
    /// Returns `true` if the fault needs a process to send a signal to.
    pub fn needs_process(&self) -> bool {
        matches!(self.fault, Fault::Kill(_))
    }

    /// Returns `true` if the fault concerns the bytes around messages, so that it needs a stream of bytes.
    pub fn needs_stream(&self) -> bool {
        matches!(self.fault, Fault::HalfClose | Fault::Corrupt(Corruption::Length))
    }

    /// The messages that the fault concerns, besides the one that matched.
    pub(crate) fn reach(&self) -> FaultReach {
        match self.fault {
            Fault::Drop | Fault::Dup(_) | Fault::Error { .. } | Fault::Answer(_) => {
                FaultReach::Message
            }
            Fault::Corrupt(_) | Fault::Set { .. } | Fault::Unset { .. } => FaultReach::Bytes,
            Fault::Delay { .. }
            | Fault::Throttle(_)
            | Fault::Slice { .. }
            | Fault::Stall(Some(_))
            | Fault::Reorder { .. } => FaultReach::Later,
            Fault::Cut | Fault::HalfClose | Fault::Kill(_) | Fault::Stall(None) => {
                FaultReach::Session
            }
        }
    }

    /// Returns `true` if the fault may be an answer in the place of the receiver.
    pub(super) fn may_answer(&self) -> bool {
        matches!(self.fault, Fault::Error { .. } | Fault::Answer(_))
    }

    /// Returns `true` if the fault can only be made in a message, and not in bytes of any protocol.
    pub fn needs_messages(&self) -> bool {
        use Corruption::{Id, Json, Length, Utf8};
        match self.fault {
            Fault::Error { .. } | Fault::Answer(_) | Fault::Set { .. } | Fault::Unset { .. } => {
                true
            }
            Fault::Corrupt(how) => matches!(how, Json | Utf8 | Length | Id),
            _ => false,
        }
    }
}

impl std::str::FromStr for FaultRule {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        parse::rule(text)
    }
}

impl fmt::Display for FaultRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// How far a fault reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultReach {
    /// One message.
    Message,
    /// The bytes of one message. Broken ones may hide the next.
    Bytes,
    /// One message and those behind it.
    Later,
    /// The rest of the session.
    Session,
}

/// The kinds of faults. Times are in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fault {
    Delay {
        least: u64,
        most: u64,
    },
    /// Bytes in a second.
    Throttle(u64),
    Slice {
        size: usize,
        pause: u64,
    },
    /// `None`: until the stream ends.
    Stall(Option<u64>),
    Drop,
    /// The number of copies in all.
    Dup(u32),
    Reorder {
        count: u32,
        most: u64,
    },
    Cut,
    HalfClose,
    /// The number of a signal.
    Kill(i32),
    Corrupt(Corruption),
    Error {
        code: i64,
        text: String,
    },
    /// A result, as JSON.
    Answer(String),
    Set {
        steps: Vec<String>,
        value: String,
    },
    Unset {
        steps: Vec<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Corruption {
    Json,
    Utf8,
    Length,
    Truncate,
    Bit,
    Id,
    Print,
}

pub(super) const CORRUPTIONS: [(&str, Corruption); 7] = [
    ("json", Corruption::Json),
    ("utf8", Corruption::Utf8),
    ("length", Corruption::Length),
    ("truncate", Corruption::Truncate),
    ("bit", Corruption::Bit),
    ("id", Corruption::Id),
    ("print", Corruption::Print),
];

impl Fault {
    /// Returns `true` if other bytes than those of the message reach the receiver.
    pub(super) fn changes_bytes(&self) -> bool {
        use Fault::{Delay, Dup, Reorder, Slice, Stall, Throttle};
        !matches!(
            self,
            Delay { .. } | Throttle(_) | Slice { .. } | Stall(Some(_)) | Dup(_) | Reorder { .. }
        )
    }
}

/// The terms besides the filter: which of the matching messages get the fault.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Choice {
    /// Any of these numbers, if there are any.
    pub(super) nth: Vec<Nth>,
    pub(super) every: Option<u64>,
    pub(super) probability: Option<f64>,
    pub(super) after: Option<After>,
}

/// One value of `nth:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nth {
    Is(u64),
    Above(u64),
    Below(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// A time since the start of the session.
    Time(u64),
    /// Messages of the same direction.
    Messages(u64),
}

impl Choice {
    /// Returns `true` if it is late enough. `before` messages of the direction came before this one.
    pub(super) fn is_after(&self, at: u64, before: u64) -> bool {
        match self.after {
            None => true,
            Some(After::Time(time)) => at > time,
            Some(After::Messages(count)) => before >= count,
        }
    }

    /// Decides about the match with this number, from 1.
    pub(super) fn takes(&self, number: u64, random: u64) -> bool {
        let is_nth = |nth: &Nth| match *nth {
            Nth::Is(value) => number == value,
            Nth::Above(value) => number > value,
            Nth::Below(value) => number < value,
        };
        (self.nth.is_empty() || self.nth.iter().any(is_nth))
            && self.every.is_none_or(|every| number.is_multiple_of(every))
            && self.probability.is_none_or(|it| fraction(mix(&[random, 1])) < it)
    }
}
