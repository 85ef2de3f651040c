//! Fault limit: caps the bad messages in a row that are answered (F7).
//!
//! Two peers that answer each other's errors with errors never stop. So only so many bad messages
//! in a row are answered; a good one starts the count again.
//!
//! | bad messages in a row | action |
//! |---|---|
//! | up to `Limits::answered_faults` | `Answer` |
//! | the first beyond, and one a second later | `Report` how many were muted |
//! | all others | `Mute` |

use std::time::{Duration, Instant};

use crate::limits::Limits;
use crate::notice::Notice;

/// How often the muted ones are reported.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Counts faults and invalid messages in a row.
#[derive(Clone, Debug)]
pub struct FaultLimit {
    answered_at_most: u32,
    in_a_row: u32,
    muted: u64,
    reported_at: Option<Instant>,
}

/// What to do with a fault or an invalid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAction {
    /// Answer it, and log it.
    Answer,
    /// Say nothing.
    Mute,
    /// Do not answer it, but log this.
    Report(Notice),
}

impl FaultLimit {
    /// No bad message yet.
    pub fn new(limits: &Limits) -> Self {
        FaultLimit {
            answered_at_most: limits.answered_faults,
            in_a_row: 0,
            muted: 0,
            reported_at: None,
        }
    }

    /// A fault or an invalid message came.
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

    /// When [`handle_timeout`](FaultLimit::handle_timeout) has something to report, if no message comes
    /// before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let reported_at = self.reported_at.filter(|_| self.muted > 0)?;
        reported_at.checked_add(REPORT_EVERY)
    }

    /// Time has passed: reports what was muted, if that is due.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<Notice> {
        self.poll_timeout().filter(|&due| due <= now)?;
        self.reported_at = Some(now);
        Some(Notice::Muted(std::mem::take(&mut self.muted)))
    }

    /// It is over: reports what was muted and is not due yet.
    pub fn take_muted(&mut self) -> Option<Notice> {
        let muted = std::mem::take(&mut self.muted);
        (muted > 0).then_some(Notice::Muted(muted))
    }

    /// A well-formed request, notification or response came: the storm is over. What was muted
    /// and not yet reported is reported when that is due.
    pub fn handle_good(&mut self) {
        self.in_a_row = 0;
    }
}
