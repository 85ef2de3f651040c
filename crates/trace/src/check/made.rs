//! Findings that a fault rule of the tap explains. They are not faults of the two programs.
//!
//! | reach of the fault | findings that it explains |
//! |---|---|
//! | one message: `drop`, `dup`, `error`, `answer` | all about its id |
//! | its bytes: `corrupt`, `set`, `unset` | the same; the next bytes of its direction that are not a message of an open request; late and missing answers to requests that were open |
//! | the messages behind it: `delay`, `throttle`, `slice`, `stall=TIME`, `reorder` | all about its id; late and missing answers to requests that were open |
//! | the session: `cut`, `half-close`, `kill`, `stall` | missing answers, and everything about the end |
//!
//! In doubt, a finding is the tap's: a check of a session with faults must not blame a program for them.

use std::str::FromStr as _;

use super::Rule;
use crate::fault::{FaultReach, FaultRule};
use crate::record::{Dir, Kind, Record};
use crate::relations::{REMEMBERED, Recent};

#[derive(Debug)]
pub(super) struct MadeFaults {
    /// The ids of messages that got a fault, for requests of both directions.
    ids: Recent<()>,
    /// The time of the last fault that reaches further than its message.
    disturbed: Option<u64>,
    has_ended: bool,
    /// A message of the handshake or of the shutdown got a fault.
    has_changed_handshake: bool,
    /// For each direction.
    damage: [Damage; 2],
}

#[derive(Debug, Default)]
struct Damage {
    /// Faults in bytes whose bytes have not come yet.
    expected: u64,
    /// The bytes since the last message are those of a fault.
    is_here: bool,
}

impl Default for MadeFaults {
    fn default() -> Self {
        MadeFaults {
            ids: Recent::new(REMEMBERED),
            disturbed: None,
            has_ended: false,
            has_changed_handshake: false,
            damage: Default::default(),
        }
    }
}

/// The subject of a finding.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    /// The direction of the record.
    pub(super) dir: Dir,
    /// The id of the request or of its answer.
    pub(super) id: Option<&'a str>,
    /// The time of the request.
    pub(super) since: u64,
}

impl MadeFaults {
    /// Takes a record, after the findings in it.
    pub(super) fn handle(&mut self, record: &Record<'_>) {
        match record.kind {
            Kind::Fault => self.handle_fault(record),
            kind if kind.is_message() => self.damage(record.dir).is_here = false,
            _ => {}
        }
    }

    fn handle_fault(&mut self, record: &Record<'_>) {
        // A redacted rule may not be a rule any more. It counts as one with the least reach.
        let rule = record.why.as_deref().and_then(|why| FaultRule::from_str(why).ok());
        match rule.map_or(FaultReach::Message, |rule| rule.reach()) {
            FaultReach::Message => {}
            FaultReach::Bytes => {
                self.damage(record.dir).expected += 1;
                self.disturbed = Some(record.at);
            }
            FaultReach::Later => self.disturbed = Some(record.at),
            FaultReach::Session => self.has_ended = true,
        }
        if let Some(id) = &record.id {
            self.ids.insert(key(id), ());
        }
        self.has_changed_handshake |= matches!(
            record.method.as_deref(),
            Some("initialize" | "initialized" | "notifications/initialized" | "shutdown" | "exit")
        );
    }

    /// Returns `true` if a fault explains the finding.
    pub(super) fn explains(&mut self, rule: Rule, about: Subject<'_>) -> bool {
        let has_id = about.id.is_some_and(|id| self.ids.get(&key(id)).is_some());
        match rule {
            Rule::Noise | Rule::FramingMismatch | Rule::BrokenFrame | Rule::InvalidMessage => {
                self.take_damage(about.dir)
            }
            Rule::AnswerToNothing => has_id || self.take_damage(about.dir),
            Rule::AnsweredTwice | Rule::IdInUse | Rule::UnknownMethod => has_id,
            Rule::Unanswered | Rule::Slow | Rule::AnswerAfterCancel => {
                has_id || self.has_ended || self.disturbed.is_some_and(|at| at >= about.since)
            }
            Rule::AfterEof
            | Rule::ExitCode
            | Rule::LateExit
            | Rule::LeftBehind
            | Rule::LspNoShutdown => self.has_ended || self.has_changed_handshake,
            _ => has_id || self.has_changed_handshake,
        }
    }

    fn take_damage(&mut self, dir: Dir) -> bool {
        let damage = self.damage(dir);
        if !damage.is_here && damage.expected > 0 {
            *damage = Damage { expected: damage.expected - 1, is_here: true };
        }
        damage.is_here
    }

    fn damage(&mut self, dir: Dir) -> &mut Damage {
        &mut self.damage[usize::from(dir == Dir::S2c)]
    }
}

fn key(id: &str) -> (Dir, String) {
    (Dir::Tap, id.to_owned())
}
