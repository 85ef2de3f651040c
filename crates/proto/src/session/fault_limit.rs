//! Fault limit: caps the bad messages in a row that are answered (F7).
//!
//! Two peers that answer each other's errors with errors would never stop. So only a limited number
//! of bad messages in a row is answered; a valid message resets the count.
//!
//! | bad messages in a row | action |
//! |---|---|
//! | up to `Limits::answered_faults` | `Answer` |
//! | the first beyond it, then one per second | `Report` the number of muted messages |
//! | all others | `Mute` |

use std::time::{Duration, Instant};

use crate::limits::Limits;
use crate::notice::Notice;

/// Interval between reports of muted messages.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Counts faults and invalid messages in a row.
#[derive(Clone, Debug)]
pub struct FaultLimit {
    answered_at_most: u32,
    in_a_row: u32,
    muted: u64,
    reported_at: Option<Instant>,
}

/// The action for a fault or an invalid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAction {
    /// Answer it, and log it.
    Answer,
    /// Neither answer nor log it.
    Mute,
    /// Log this notice, and do not answer.
    Report(Notice),
}

impl FaultLimit {
    /// A limit with no bad message counted.
    pub fn new(limits: &Limits) -> Self {
        FaultLimit {
            answered_at_most: limits.answered_faults,
            in_a_row: 0,
            muted: 0,
            reported_at: None,
        }
    }

    /// Counts a fault or an invalid message.
    pub fn handle_bad(&mut self, now: Instant) -> FaultAction {
        if self.in_a_row < self.answered_at_most {
            self.in_a_row += 1;
            return FaultAction::Answer;
        }
        self.muted += 1;
        let is_due = self
            .reported_at
            .is_none_or(|reported_at| now.saturating_duration_since(reported_at) >= REPORT_EVERY);
        if !is_due {
            return FaultAction::Mute;
        }
        self.reported_at = Some(now);
        FaultAction::Report(Notice::Muted(std::mem::take(&mut self.muted)))
    }

    /// The time for the next [`handle_timeout`](FaultLimit::handle_timeout), if no message comes
    /// before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let reported_at = self.reported_at.filter(|_| self.muted > 0)?;
        reported_at.checked_add(REPORT_EVERY)
    }

    /// Reports the muted messages, if a report is due.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<Notice> {
        self.poll_timeout().filter(|&due| due <= now)?;
        self.reported_at = Some(now);
        Some(Notice::Muted(std::mem::take(&mut self.muted)))
    }

    /// Reports the muted messages immediately, because the session ends.
    pub fn take_muted(&mut self) -> Option<Notice> {
        let muted = std::mem::take(&mut self.muted);
        (muted > 0).then_some(Notice::Muted(muted))
    }

    /// Resets the count, after a well-formed request, notification or response. Muted messages are
    /// still reported when due.
    pub fn handle_good(&mut self) {
        self.in_a_row = 0;
    }
}
