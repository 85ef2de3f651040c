//! The end of the connection: states in order, and a reason that the journal confirms (P5).

use duet_rpc::CloseReason;

use super::{Kind, Oracle};
use crate::journal::Event;

impl Oracle<'_> {
    pub(super) fn check_ends(&mut self) {
        for side in [0, 1] {
            self.check_states(side);
            self.check_reason(side);
            self.check_unmatched(side);
        }
        self.check_released();
    }

    /// A context that outlived its handler is cancelled only by the end of the connection or by a
    /// cancellation. If it were never cancelled, a task would be left at the end.
    fn check_released(&mut self) {
        for (at, event) in &self.book.events {
            let Event::Released { side, number } = *event else { continue };
            let requests = &self.messages[1 - side];
            let id = requests.iter().find_map(|message| match &message.kind {
                Kind::Request(id, asked) if *asked == Some(number) => Some(id),
                _ => None,
            });
            let is_cancelled = requests.iter().any(|message| match &message.kind {
                Kind::Cancel(of) => Some(of) == id && message.arrived.is_some_and(|by| by <= *at),
                _ => false,
            });
            if !is_cancelled && self.world.framing.is_some() && !self.has_ended(side, *at) {
                self.objections.push(format!("{number} of side {side} was released at {at}"));
            }
        }
    }

    fn check_states(&mut self, side: usize) {
        const STATES: [&str; 4] = ["connecting", "connected", "draining", "disconnected"];
        let states = self.book.events.iter().filter_map(|(_, event)| match event {
            Event::State(of, name) if *of == side => STATES.iter().position(|state| state == name),
            _ => None,
        });
        let states: Vec<_> = states.collect();
        if !states.is_sorted_by(|before, after| before < after) || states.last() != Some(&3) {
            self.object(format!("the states of side {side} are {states:?}"));
        }
    }

    fn check_reason(&mut self, side: usize) {
        let Some(disconnect) = &self.outcome.disconnects[side] else { return };
        let saw = |is_it: fn(usize, &Event) -> bool| self.when(|e| is_it(side, e)).next().is_some();
        let is_right =
            match disconnect.reason() {
                // A call of the closing method is a reason too.
                CloseReason::Closed => {
                    saw(|side, event| matches!(event, Event::Closes(of) if *of == side))
                        || self.world.acts.iter().any(|act| {
                            act.by != side && matches!(act.deed, crate::world::Deed::Bye(_))
                        })
                }
                CloseReason::RemoteClosed => {
                    self.world.framing.is_none()
                        || saw(|side, event| matches!(event, Event::ReadEnd(of) if *of == side))
                }
                CloseReason::ReadFailed => {
                    saw(|side, event| matches!(event, Event::ReadFailed(of) if *of == side))
                }
                CloseReason::WriteFailed => {
                    self.world.framing.is_none()
                        || saw(|side, event| matches!(event, Event::WriteFailed(of) if *of == side))
                }
                _ => false,
            };
        let has_cause =
            matches!(disconnect.reason(), CloseReason::ReadFailed | CloseReason::WriteFailed);
        if !is_right || disconnect.failure().is_some() != has_cause {
            let reason = disconnect.reason();
            self.object(format!("side {side} reports the reason {reason:?}: {disconnect:?}"));
        }
    }

    /// An unmatched answer arrived too late, came from the injector, or answers the injector.
    fn check_unmatched(&mut self, side: usize) {
        let given_up = self.book.calls.iter().filter(|call| {
            call.side == side
                && !matches!(
                    call.ended,
                    Some((_, Some(crate::plan::End::Value(_) | crate::plan::End::Code(_))))
                )
        });
        let strange: usize = self.messages[1 - side]
            .iter()
            .map(|message| match &message.kind {
                Kind::Answer(id, _) => usize::from(id == "null" || id.starts_with("\"x")),
                Kind::Answers(answers) => answers.len(),
                _ => 0,
            })
            .sum();
        let (given_up, handed) = (given_up.count(), self.world.pieces.len());
        let unmatched = self.outcome.unmatched[side];
        if unmatched > given_up + strange + handed && self.world.framing.is_some() {
            self.object(format!("side {side} had {unmatched} answers too many, of {given_up}"));
        }
    }
}
