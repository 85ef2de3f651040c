//! Event streams, and room to send: waiting messages leave as soon as they can (P9).

use std::collections::BTreeMap;

use duet_rpc::CloseReason;

use super::{Kind, Oracle};
use crate::journal::{Emitted, Event};
use crate::world::{CALL_TIMEOUT, DRAIN};

impl Oracle<'_> {
    /// Events arrive in order, and the first event after a gap has the number of dropped events (P9).
    pub(super) fn check_events(&mut self) {
        for side in [0, 1] {
            let mut streams: BTreeMap<&str, u64> = BTreeMap::new();
            let mut objections = Vec::new();
            for message in &self.messages[side] {
                let Kind::Event(topic, sequence, dropped) = &message.kind else { continue };
                let last = streams.insert(topic, *sequence).unwrap_or(0);
                if *sequence != last + 1 + dropped {
                    let event = format!("event {sequence} of {topic} after {last}");
                    objections.push(format!("side {side} sent {event}, {dropped} dropped"));
                }
            }
            self.objections.append(&mut objections);
        }
    }

    /// An event that was accepted and not dropped is sent before the connection becomes idle. It is also sent
    /// before a close that finishes within its deadline.
    pub(super) fn check_delivery(&mut self) {
        if self.world.mishap.is_some() {
            return;
        }
        let quiet = self.when(|event| *event == Event::Quiet).next();
        for emitted in &self.book.streams {
            let Emitted { side, topic, taken, stream } = emitted;
            let by = match quiet {
                Some(quiet) => quiet,
                None if self.closed_in_time(*side) => u64::MAX,
                None => continue,
            };
            let is_it = |kind: &Kind| matches!(kind, Kind::Event(of, ..) if of == topic);
            let sent = self.messages[*side].iter().filter(|it| is_it(&it.kind) && it.sent <= by);
            let (sent, due) = (sent.count() as u64, taken - stream.dropped());
            if sent != due {
                let those = format!("of {due} events of {topic}");
                self.objections.push(format!("side {side} has sent {sent} {those} by {by}"));
            }
        }
    }

    /// Returns `true` if a side closed because nothing was left to do, and not because its time was over.
    fn closed_in_time(&self, side: usize) -> bool {
        let is_graceful = self.outcome.disconnects[side].as_ref().is_some_and(|disconnect| {
            matches!(disconnect.reason(), CloseReason::Closed | CloseReason::RemoteClosed)
        });
        let begins = [Event::Closes(side), Event::ReadEnd(side), Event::State(side, "draining")];
        let begun = self.when(|event| begins.contains(event)).next();
        let shut = self.when(|event| *event == Event::Shut(side)).next();
        is_graceful && begun.zip(shut).is_some_and(|(begun, shut)| shut < begun + DRAIN)
    }

    /// A notification gives up only if there was no room for it.
    pub(super) fn check_room(&mut self) {
        for (at, event) in &self.book.events {
            if let Event::NoRoom(side) = event
                && self.had_room(*side, at.saturating_sub(CALL_TIMEOUT), *at)
            {
                self.objections
                    .push(format!("side {side} gave up at {at} although there was room"));
            }
        }
    }

    /// Returns `true` if the link was empty right before `by`, so that messages that waited since `since`
    /// should have left.
    pub(super) fn had_room(&self, side: usize, since: u64, by: u64) -> bool {
        // Injected bytes are read too.
        let is_clear = self.world.mishap.is_none() && self.world.pieces.is_empty();
        // A remote that is gone takes nothing; its earlier messages may still be read.
        let has_failed = self.when(|event| *event == Event::WriteFailed(side)).any(|at| at < by);
        if !is_clear || has_failed || self.world.framing.is_none() || since + 1 >= by {
            return false;
        }
        let before = self.book.events.iter().filter(|(at, _)| *at < by);
        let under_way = before.fold(0_i64, |under_way, (_, event)| match event {
            Event::Wrote(of, bytes) if *of == side => under_way + *bytes as i64,
            Event::Read(of, bytes) if *of != side => under_way - *bytes as i64,
            _ => under_way,
        });
        under_way == 0
    }
}
