//! Answers: every request is answered once, and no other message is answered.

use std::collections::BTreeMap;

use super::{Counts, Kind, Message, Oracle};
use crate::journal::Event;
use crate::plan::End;
use crate::world::{DRAIN, Deed};

impl Oracle<'_> {
    pub(super) fn check_answers(&mut self) {
        for side in [0, 1] {
            self.check_answers_of(side);
        }
    }

    /// Checks the answers of a side to the messages that reached it.
    fn check_answers_of(&mut self, side: usize) {
        let mut objections = Vec::new();
        // The time at which each request reached the side, and `true` if that is certain.
        let mut asked: BTreeMap<&str, (u64, bool)> = BTreeMap::new();
        let mut cancelled: BTreeMap<&str, u64> = BTreeMap::new();
        for message in &self.messages[1 - side] {
            match &message.kind {
                Kind::Request(id, _) => {
                    if let Some(at) = message.arrived
                        && asked.insert(id, (at, !message.is_late)).is_some()
                    {
                        objections.push(format!("side {} has used the id {id} twice", 1 - side));
                    }
                }
                Kind::Cancel(id) => {
                    if let Some(at) = message.arrived {
                        cancelled.entry(id).or_insert(at);
                    }
                }
                _ => {}
            }
        }
        let mut faults = 0;
        for (at, event) in &self.book.events {
            if let Event::Handed(to, n) = event
                && *to == side
            {
                let piece = &self.world.pieces[*n];
                faults += piece.faults;
                for id in &piece.requests {
                    asked.insert(id, (*at, true));
                }
            }
        }

        // A message that did not arrive as a whole may have arrived in part.
        let handed =
            self.when(|event| matches!(event, Event::Handed(to, _) if *to == side)).count();
        let pieces = self.world.pieces.iter().filter(|piece| piece.to == side);
        faults += pieces.count() - handed;

        let mut answered = Counts::new();
        let mut to_nobody = 0;
        let limits = &self.world.sides[side].profile.limits;
        let dialect = self.world.dialect();
        for message in &self.messages[side] {
            let answers = match &message.kind {
                Kind::Answer(id, end) => std::slice::from_ref(&(id.clone(), end.clone())).to_vec(),
                Kind::Answers(answers) => answers.clone(),
                _ => continue,
            };
            for (id, end) in answers {
                if id == "null" {
                    to_nobody += 1;
                    continue;
                }
                *answered.entry(id.clone()).or_default() += 1;
                match asked.get(&*id) {
                    Some((at, _)) if *at <= message.sent => {}
                    _ => objections
                        .push(format!("side {side} has answered {id}, which was not requested")),
                }
                let was_cancelled = cancelled.get(&*id).is_some_and(|at| *at <= message.sent);
                let is_allowed = match end {
                    End::Code(-32800) => was_cancelled && dialect.answers_cancelled(),
                    // `check_busy` checks refusals.
                    End::Code(code) => matches!(code, -32603 | -32003..=-32000),
                    _ => true,
                };
                if !is_allowed {
                    objections.push(format!("side {side} has answered {id} with {end:?}"));
                }
            }
        }
        for (id, times) in &answered {
            if *times > 1 {
                objections.push(format!("side {side} has answered {id} {times} times"));
            }
        }
        // Bytes that are not a message are answered at most once; messages that are too large or late
        // count as such.
        let oversize = self.book.frames[1 - side].iter();
        let mut oversize = oversize.filter(|frame| frame.body.len() > limits.message_bytes).count();
        // A message that is too large is answered before it is whole, and may never become whole.
        oversize += usize::from(limits.message_bytes < 3000);
        // So is a message that the end of the input cuts off.
        let cut =
            self.when(|event| matches!(event, Event::ReadEnd(of) if *of == side)).take(1).count();
        if to_nobody > faults + oversize + cut {
            objections.push(format!("side {side} has answered {to_nobody} faults of {faults}"));
        }
        if self.world.lives_on() && self.outcome.was_quiet {
            for (id, (at, is_sure)) in &asked {
                if *is_sure && !answered.contains_key(*id) && !self.may_stay_unanswered(side, id) {
                    objections
                        .push(format!("side {side} has not answered {id}, which came at {at}"));
                }
            }
        }
        self.objections.append(&mut objections);
        self.check_answers_at_closing(side);
        self.check_told_before_answered(side);
    }

    /// Returns `true` if a request to this side was cancelled, and so needs no answer (P3).
    fn may_stay_unanswered(&self, side: usize, request: &str) -> bool {
        let cancels = |message: &Message| {
            matches!(&message.kind, Kind::Cancel(id) if id == request) && message.arrived.is_some()
        };
        let is_cancelled = self.messages[1 - side].iter().any(cancels);
        is_cancelled && !self.world.dialect().answers_cancelled()
    }

    /// A side that closes finishes and answers running requests, if there is time.
    fn check_answers_at_closing(&mut self, side: usize) {
        let is_closed_by_hand = self.world.mishap.is_none()
            && self.world.is_free()
            && !self.world.acts.iter().any(|act| matches!(act.deed, Deed::Bye(_)));
        let Some((by, _)) = self.world.close.filter(|_| is_closed_by_hand) else { return };
        let closed = self.when(|event| *event == Event::Closes(side)).next();
        let Some(closed) = closed.filter(|_| by == side) else { return };
        for message in &self.messages[1 - side] {
            let Kind::Request(id, Some(number)) = &message.kind else { continue };
            let number = *number;
            let begun = self.when(|event| *event == Event::Starts { side, number }).next();
            let ended = self.when(|event| *event == Event::Stops { side, number }).next();
            let is_due =
                begun.is_some_and(|at| at < closed) && ended.is_some_and(|at| at < closed + DRAIN);
            let is_it = |answer: &Message| matches!(&answer.kind, Kind::Answer(of, _) if of == id);
            let is_answered = self.messages[side].iter().any(is_it);
            if is_due && !is_answered && !self.may_stay_unanswered(side, id) {
                self.objections.push(format!("side {side} has closed and not answered {id}"));
            }
        }
    }

    /// Messages of a handler are sent before its answer.
    fn check_told_before_answered(&mut self, side: usize) {
        for (_, event) in &self.book.events {
            let Event::Told { side: by, number, is_sent: true } = event else { continue };
            let numbers = self.messages[1 - side].iter().find_map(|message| match &message.kind {
                Kind::Request(id, Some(asked)) if asked + 1 == *number => Some(id),
                _ => None,
            });
            let Some(id) = numbers.filter(|_| *by == side) else { continue };
            let place = |is_it: &dyn Fn(&Kind) -> bool| {
                self.messages[side].iter().position(|message| is_it(&message.kind))
            };
            let told = place(&|kind| matches!(kind, Kind::Notification(Some(n)) if n == number));
            let answered =
                place(&|kind| matches!(kind, Kind::Answer(of, End::Value(_)) if of == id));
            if answered.is_some_and(|answered| told.is_none_or(|told| told > answered)) {
                self.objections
                    .push(format!("side {side} has answered {id} before it sent {number}"));
            }
        }
    }
}
