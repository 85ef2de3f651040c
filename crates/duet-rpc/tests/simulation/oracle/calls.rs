//! The ends of calls.

use super::{Kind, Message, Oracle, kind_of};
use crate::journal::{Call, Event};
use crate::plan::{End, STEP};
use crate::world::{Act, Deed};

/// No message of a simulated world is longer.
const LONGEST: usize = 3500;

impl Oracle<'_> {
    /// Each call ends once, in agreement with the received bytes.
    pub(super) fn check_calls(&mut self) {
        for call in &self.book.calls {
            if let Err(why) = self.check_call(call) {
                self.objections.push(format!("{why}: {call:?}"));
            }
        }
    }

    fn check_call(&self, call: &Call) -> Result<(), String> {
        let Some((at, end)) = &call.ended else { return Err("it never ended".into()) };
        if call.is_parked && end.is_none() {
            return Ok(());
        }
        let has_wire = self.world.framing.is_some();
        let [soonest, deadline] = [false, true].map(|counts| self.deadline(call, counts));
        let answers = self.messages[1 - call.side].iter().filter_map(|message| {
            let arrived = message.arrived?;
            match &message.kind {
                Kind::Answer(id, end) if *id == call.id => Some((arrived, end, message.is_late)),
                _ => None,
            }
        });
        // A message that took too long to be read may have been dropped.
        let mut sure = answers.clone().filter(|(.., is_late)| !is_late);
        // No answer can come after the end of the remote's output, so nobody waits for one.
        let is_it =
            |message: &Message| matches!(&message.kind, Kind::Request(id, _) if *id == call.id);
        let input_ended = self.when(|event| *event == Event::ReadEnd(call.side)).next();
        if let Some(input_ended) = input_ended
            && call.begun < input_ended
            && *at > input_ended
            && self.messages[call.side].iter().any(is_it)
        {
            return Err(format!("its remote had closed at {input_ended}"));
        }
        match end {
            Some(end @ (End::Value(_) | End::Code(_))) if has_wire => {
                let is_it =
                    |(arrived, answer, _): (u64, &End, bool)| arrived == *at && answer == end;
                if !answers.clone().any(is_it) && !self.is_refused_as_too_large(call) {
                    return Err("no such answer came then".into());
                }
                if *at > deadline {
                    return Err(format!("its deadline was {deadline}"));
                }
            }
            Some(End::Value(_) | End::Code(_)) => {}
            Some(End::Timeout) => {
                // Progress is not seen on a link in memory.
                if ![soonest, deadline].contains(at) && (has_wire || call.total.is_none()) {
                    return Err(format!("its deadline is {deadline}"));
                }
                if sure.any(|(arrived, ..)| arrived < *at) {
                    return Err("its answer had arrived".into());
                }
                if !self.messages[call.side].iter().any(is_it)
                    && self.had_room(call.side, call.begun, *at)
                {
                    return Err("it was never sent although there was room".into());
                }
            }
            Some(End::Disconnected) => {
                if !self.has_ended(call.side, *at) {
                    return Err("the connection is open".into());
                }
                if sure.any(|(arrived, ..)| arrived < *at) {
                    return Err("its answer had arrived".into());
                }
            }
            Some(End::Capacity) => {
                let most = self.world.sides[call.side].profile.limits.pending_calls;
                let pending = self.pending_beside(call);
                if pending < most {
                    return Err(format!("{pending} were pending, the limit is {most}"));
                }
            }
            Some(End::Other(_)) => return Err("no call may end like this".into()),
            None => {
                if sure.any(|(arrived, ..)| arrived < *at) {
                    return Err("it was dropped although its answer had arrived".into());
                }
            }
        }
        Ok(())
    }

    /// Returns `true` if the remote refused the message of a call as too large when the call ended. The refusal has no
    /// id, and comes before the message is whole.
    fn is_refused_as_too_large(&self, call: &Call) -> bool {
        const INVALID_REQUEST: End = End::Code(-32600);
        let Some((at, Some(INVALID_REQUEST))) = call.ended else { return false };
        let most = self.world.sides[1 - call.side].profile.limits.message_bytes;
        let is_it =
            |body: &[u8]| matches!(kind_of(body), Some(Kind::Request(id, _)) if id == call.id);
        let mut sent = self.book.frames[call.side].iter().filter(|frame| is_it(&frame.body));
        let is_too_large = match sent.next() {
            Some(frame) => frame.body.len() > most,
            None => most < LONGEST,
        };
        let is_refusal = |message: &Message| {
            message.arrived == Some(at)
                && matches!(&message.kind, Kind::Answer(id, INVALID_REQUEST) if id == "null")
        };
        is_too_large
            && (self.world.framing.is_none() || self.messages[1 - call.side].iter().any(is_refusal))
    }

    /// The deadline of a call: progress that is read restarts its time, up to its total. Progress that is
    /// read at that very moment may or may not count.
    fn deadline(&self, call: &Call, what_may_count: bool) -> u64 {
        let mut deadline = call.begun + call.timeout;
        let Some(total) = call.total else { return deadline };
        let last = call.begun + total;
        deadline = deadline.min(last);
        let progress = |message: &Message| match message.kind {
            // A message that took too long to be read may have been dropped.
            Kind::Progress(token) if token == call.number => {
                message.arrived.filter(|_| what_may_count || !message.is_late)
            }
            _ => None,
        };
        for at in self.messages[1 - call.side].iter().filter_map(progress) {
            let is_in_time = at < deadline || (at == deadline && what_may_count);
            if is_in_time && at >= call.begun {
                deadline = last.min(at + call.timeout);
            }
        }
        deadline
    }

    /// Returns `true` if a side had a reason to close by then.
    pub(super) fn has_ended(&self, side: usize, by: u64) -> bool {
        let mut ends = self.when(|event| match event {
            Event::Closes(of)
            | Event::ReadEnd(of)
            | Event::ReadFailed(of)
            | Event::WriteFailed(of) => *of == side,
            Event::State(of, "draining" | "disconnected") => *of == side,
            _ => false,
        });
        ends.any(|at| at <= by)
    }

    /// The number of other calls of the same side that were pending when a call was made.
    fn pending_beside(&self, call: &Call) -> usize {
        let at = call.begun;
        let is_beside = |other: &&Call| {
            other.side == call.side
                && other.id != call.id
                && other.begun <= at
                && other.ended.as_ref().is_none_or(|(ended, _)| *ended >= at)
        };
        self.book.calls.iter().filter(is_beside).count()
    }

    /// If nothing waits for anything else, each call ends as planned. Otherwise it must end in one of the
    /// allowed ways.
    pub(super) fn check_plans(&mut self) {
        for act in &self.world.acts {
            let number = act.number * STEP;
            let (timeout, total, dropped) = match act.deed {
                Deed::Call(timeout) => (timeout, None, None),
                Deed::CallWithProgress(timeout, total) => (timeout, Some(total), None),
                Deed::CallAndDrop(time) => (crate::world::CALL_TIMEOUT, None, Some(time)),
                Deed::Notify | Deed::Events(_) | Deed::Bye(_) | Deed::CallAndPark(_) => continue,
            };
            let is_it = |call: &&Call| call.number == number && call.side == act.by;
            let Some(call) = self.book.calls.iter().find(is_it) else {
                self.objections.push(format!("no call was made of {act:?}"));
                continue;
            };
            let planned = act.plan.end_of_call(number, timeout, total);
            let takes = act.plan.end(number).map(|(time, _)| time);
            let expected = match dropped {
                Some(time) if takes.is_none_or(|takes| takes > time) => None,
                _ => Some(planned),
            };
            let actual = call.ended.as_ref().and_then(|(_, end)| end.clone());
            let is_right = match self.world.is_exact() {
                _ if self.is_refused_as_too_large(call) => true,
                true => actual == expected,
                false => match &actual {
                    Some(end @ (End::Value(_) | End::Code(_))) => self.may_end_so(act, number, end),
                    _ => true,
                },
            };
            if !is_right {
                self.objections.push(format!("expected {expected:?} of {act:?}: {call:?}"));
            }
        }
    }

    /// Returns `true` if a planned call may end like this when other calls delay it.
    fn may_end_so(&self, act: &Act, number: u64, end: &End) -> bool {
        let plan = &act.plan;
        let is_planned = plan.end(number).is_some_and(|(_, e)| e == *end);
        is_planned
            || match end {
                End::Code(-32603) => plan.calls_back(),
                End::Code(-32000) => self.world.has_small_limits(&self.world.sides[1 - act.by]),
                // Its call-back took less time than planned.
                End::Value(_) => plan.calls_back(),
                _ => false,
            }
    }
}
