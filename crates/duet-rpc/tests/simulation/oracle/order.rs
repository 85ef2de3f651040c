//! The order of handlers, and their number at the same time (L2, P4).

use std::collections::{BTreeMap, BTreeSet};

use duet_rpc::proto::policy::Order;

use super::{Kind, Oracle};
use crate::actions::LAST;
use crate::handlers::lane_of;
use crate::injector::STRANGERS;
use crate::journal::Event;

/// A message that reached a side.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    number: u64,
    at: u64,
    is_request: bool,
    is_late: bool,
}

impl Oracle<'_> {
    pub(super) fn check_order(&mut self) {
        for side in [0, 1] {
            self.check_order_of(side);
        }
    }

    /// The messages that reached a side, in their order.
    fn arrived(&self, side: usize) -> Vec<Arrived> {
        let mut found = Vec::new();
        for (at, event) in &self.book.events {
            let at = *at;
            match event {
                Event::Arrived(to, n) if *to == side => {
                    let Some(message) = self.messages[1 - side].get(*n) else { continue };
                    let (number, is_request) = match &message.kind {
                        Kind::Request(_, Some(number)) => (*number, true),
                        Kind::Notification(Some(number)) => (*number, false),
                        _ => continue,
                    };
                    if message.arrived.is_some() {
                        found.push(Arrived { number, at, is_request, is_late: message.is_late });
                    }
                }
                Event::Handed(to, n) if *to == side => {
                    for &(number, is_request) in &self.world.pieces[*n].messages {
                        // Injected messages are not always accepted.
                        found.push(Arrived { number, at, is_request, is_late: true });
                    }
                }
                _ => {}
            }
        }
        found
    }

    fn check_order_of(&mut self, side: usize) {
        let profile = &self.world.sides[side].profile;
        let arrived = self.arrived(side);
        let place_of: BTreeMap<u64, usize> =
            arrived.iter().enumerate().map(|(place, message)| (message.number, place)).collect();
        let has_wire = self.world.framing.is_some();
        let (mut begun, mut running) = (BTreeSet::new(), BTreeSet::new());
        let mut latest: BTreeMap<u64, usize> = BTreeMap::new();
        let mut objections = Vec::new();
        for (at, event) in &self.book.events {
            match event {
                Event::Starts { side: of, number } if *of == side => {
                    let number = *number;
                    if !begun.insert(number) {
                        objections.push(format!("side {side} has begun {number} twice"));
                    }
                    if !has_wire {
                        continue;
                    }
                    let Some(&place) = place_of.get(&number) else {
                        objections
                            .push(format!("side {side} has begun {number}, which did not come"));
                        continue;
                    };
                    let own = arrived[place];
                    if own.at > *at {
                        objections.push(format!("side {side} has begun {number} before it came"));
                    }
                    let lane = match profile.order {
                        Order::Sequential | Order::Barrier => Some(0),
                        Order::ByKey => lane_of(number),
                        Order::Concurrent => None,
                        other => panic!("the oracle does not know {other:?}"),
                    };
                    if let Some(lane) = lane {
                        let last = latest.insert(lane, place);
                        if last.is_some_and(|last| last > place) {
                            objections
                                .push(format!("side {side} has begun {number} after a later one"));
                        }
                        let blocks = |other: &usize| {
                            let other = &arrived[*other];
                            match profile.order {
                                Order::Barrier => !other.is_request,
                                Order::ByKey => lane_of(other.number) == Some(lane),
                                _ => true,
                            }
                        };
                        if let Some(other) = running.iter().copied().find(blocks) {
                            let other = arrived[other].number;
                            objections.push(format!("side {side} runs {number} beside {other}"));
                        }
                    }
                    running.insert(place);
                    let most = profile.limits.in_flight.max(1);
                    if running.len() > most && profile.order != Order::Sequential {
                        objections.push(format!("side {side} runs {} at a time", running.len()));
                    }
                }
                Event::Stops { side: of, number } if *of == side => {
                    if let Some(place) = place_of.get(number) {
                        running.remove(place);
                    }
                }
                _ => {}
            }
        }
        if self.world.is_exact() {
            for act in &self.world.acts {
                let number = act.number * crate::plan::STEP;
                let is_message = !matches!(act.deed, crate::world::Deed::Events(_));
                if is_message && act.by != side && !begun.contains(&number) {
                    objections.push(format!("side {side} has not begun {number}"));
                }
            }
        }
        // Checks that every notification reaches its handler. No answer would show that it is lost.
        let may_drop = self.world.has_small_limits(&self.world.sides[side]);
        for message in arrived.iter().filter(|message| !message.is_request && !message.is_late) {
            let is_last = message.number >= LAST || message.number >= STRANGERS;
            if self.world.lives_on()
                && self.outcome.was_quiet
                && !is_last
                && !may_drop
                && !begun.contains(&message.number)
            {
                objections.push(format!("side {side} has lost {message:?}"));
            }
        }
        self.objections.append(&mut objections);
    }
}
