//! Plans: the actions of handlers, and the expected ends of calls if nothing interferes.
//!
//! Handlers take multiples of ten milliseconds. Timeouts lie between these times, with a different offset for
//! each depth. So related events never happen at the same moment, unless the delay of a link moves them.

use serde::{Deserialize, Serialize};

use crate::random::Random;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Plan {
    Now,
    After(u64),
    Never,
    Fail(i64),
    Panic,
    PanicAfter(u64),
    /// Answers with this many bytes.
    Big(usize),
    /// Sends a notification, then answers.
    Tell,
    /// Reports progress at this interval in milliseconds, this many times, and answers this long after
    /// the last.
    Progress(u64, u64, u64),
    /// Sends this many events, then answers with this many bytes.
    Emit(u64, usize),
    /// Answers after this many milliseconds, and starts a task that keeps its context.
    Keep(u64),
    /// Calls back, with a timeout, and passes on the outcome.
    Back(Box<Plan>, u64),
}

/// The end of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum End {
    Value(u64),
    Code(i64),
    Timeout,
    Capacity,
    Disconnected,
    /// An end that no call may have.
    Other(String),
}

/// Numbers of acts have room between them for their call-backs.
pub(crate) const STEP: u64 = 10;
/// The depth of call-backs.
const DEPTH: u64 = 3;
/// The answer of every failed handler.
const FAILED: End = End::Code(-32603);

impl Plan {
    pub(crate) fn random(random: &mut Random, depth: u64, is_small: bool) -> Self {
        let time = random.below(30) * 10;
        match random.below(if depth == DEPTH { 13 } else { 18 }) {
            0 | 1 => Plan::Now,
            2 | 3 => Plan::After(time),
            4 => Plan::Never,
            5 => Plan::Fail(-32001 - random.below(3) as i64),
            6 => Plan::Panic,
            7 => Plan::PanicAfter(time),
            8 => Plan::Big(random.pick(if is_small { &[0, 100] } else { &[0, 100, 1000, 3000] })),
            9 => Plan::Tell,
            10 => Plan::progress(random),
            11 => {
                let size = random.pick(if is_small { &[0, 100] } else { &[0, 1000, 3000] });
                Plan::Emit(random.below(8), size)
            }
            12 => Plan::Keep(random.below(3) * 10),
            _ => {
                let timeout = timeout(random, depth + 1);
                Plan::Back(Box::new(Plan::random(random, depth + 1, is_small)), timeout)
            }
        }
    }

    pub(crate) fn progress(random: &mut Random) -> Self {
        Plan::Progress(10 + random.below(6) * 10, 1 + random.below(6), random.below(16) * 10)
    }

    pub(crate) fn is_endless(&self) -> bool {
        match self {
            Plan::Never => true,
            Plan::Back(plan, _) => plan.is_endless(),
            _ => false,
        }
    }

    pub(crate) fn calls_back(&self) -> bool {
        matches!(self, Plan::Back(..))
    }

    /// The end of a call of this plan with this timeout and, if progress restarts the timeout, this total.
    pub(crate) fn end_of_call(&self, number: u64, timeout: u64, total: Option<u64>) -> End {
        let by = match (total, self) {
            (Some(total), Plan::Progress(every, times, _)) => {
                let last = if *every < timeout { every * times } else { 0 };
                total.min(last + timeout)
            }
            (Some(total), _) => total.min(timeout),
            (None, _) => timeout,
        };
        match self.end(number) {
            Some((time, end)) if time < by => end,
            _ => End::Timeout,
        }
    }

    /// The end, and its time in milliseconds; `None` for never.
    pub(crate) fn end(&self, number: u64) -> Option<(u64, End)> {
        match self {
            Plan::Now | Plan::Big(_) | Plan::Tell | Plan::Emit(..) => Some((0, End::Value(number))),
            Plan::After(time) | Plan::Keep(time) => Some((*time, End::Value(number))),
            Plan::Progress(every, times, rest) => Some((every * times + rest, End::Value(number))),
            Plan::Never => None,
            Plan::Fail(code) => Some((0, End::Code(*code))),
            Plan::Panic => Some((0, FAILED)),
            Plan::PanicAfter(time) => Some((*time, FAILED)),
            // Errors of a call are the handler's failure.
            Plan::Back(plan, timeout) => match plan.end(number + 1) {
                Some((time, end @ End::Value(_))) if time < *timeout => Some((time, end)),
                Some((time, _)) if time < *timeout => Some((time, FAILED)),
                _ => Some((*timeout, FAILED)),
            },
        }
    }
}

/// The timeout of a call at this depth: no handler ends at that moment, nor another call.
pub(crate) fn timeout(random: &mut Random, depth: u64) -> u64 {
    random.below(40) * 10 + 4 + depth
}
