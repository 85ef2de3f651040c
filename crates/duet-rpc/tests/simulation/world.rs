//! World: the scenario of a seed. Two peers, the link between them, their actions, and the failures.

use std::time::Duration;

use duet_rpc::checks::Paced;
use duet_rpc::proto::Limits;
use duet_rpc::proto::frame::{Framing, FramingChoice};
use duet_rpc::proto::policy::{Dialect, IdStyle, Order};
use duet_rpc::{Profile, blocking, quick};

use crate::injector::Piece;
use crate::plan::{Plan, timeout};
use crate::random::Random;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) seed: u64,
    /// `None` for a link in memory, which carries whole messages.
    pub(crate) framing: Option<Framing>,
    pub(crate) sides: [Side; 2],
    pub(crate) ways: [WayTerms; 2],
    pub(crate) mishap: Option<(When, Mishap)>,
    pub(crate) acts: Vec<Act>,
    /// Bytes that an injector puts on the link, between messages.
    pub(crate) pieces: Vec<Piece>,
    /// The side that closes, and the time.
    pub(crate) close: Option<(usize, u64)>,
    /// The side that closes at the end, if none has before.
    pub(crate) last: usize,
    /// Damage to the link, set only to test the oracle.
    pub(crate) lie: Option<Lie>,
}

#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) profile: Profile,
    /// The pace that the router sets for its handlers, because measuring the pace would need the real clock.
    pub(crate) is_quick: bool,
}

/// The properties of one direction, from the side of this number to the other.
#[derive(Clone, Debug)]
pub(crate) struct WayTerms {
    /// Maximum number of bytes in transit.
    pub(crate) room: usize,
    /// Maximum number of bytes of one read or write.
    pub(crate) most_written: u64,
    pub(crate) most_read: u64,
    /// The frequency of delays, and the longest delay in milliseconds.
    pub(crate) delayed: u64,
    pub(crate) delay: u64,
    /// The frequency of reads and writes that are interrupted, or not ready although they could be.
    pub(crate) interrupted: u64,
    pub(crate) hesitant: u64,
    /// `true` if bytes leave only when they are flushed.
    pub(crate) buffers: bool,
    /// `true` if closing a writer waits until all of its bytes were read.
    pub(crate) lingers: bool,
    /// The times at which nothing is delivered, each from one moment to another.
    pub(crate) stalls: Vec<(u64, u64)>,
}

/// The moment at which the link breaks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// The link breaks after this side has written this many bytes.
    Byte(usize, usize),
    At(u64),
}

/// The way in which the link breaks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mishap {
    /// The other side receives the bytes of this side, and then the end. This side cannot write any more.
    Ends(usize),
    /// Bytes in transit are lost, and nothing can be read or written.
    Reset,
    /// This side can only read the bytes that are in transit.
    CannotRead(usize),
    /// This side can write no more, and the other does not notice.
    CannotWrite(usize),
    /// Bytes of this side no longer arrive, and nobody notices.
    Silence(usize),
    /// Bytes of both sides no longer arrive, and nobody notices.
    Dead,
}

/// Damage to the bytes of this side. No real link does this.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lie {
    LosesByte(usize, usize),
    ChangesByte(usize, usize),
    RepeatsMessage(usize, usize),
    LosesMessage(usize, usize),
}

#[derive(Debug)]
pub(crate) struct Act {
    pub(crate) by: usize,
    /// The time, in milliseconds.
    pub(crate) at: u64,
    pub(crate) deed: Deed,
    pub(crate) number: u64,
    pub(crate) plan: Plan,
    /// The padding of the message, in bytes.
    pub(crate) pad: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Deed {
    Notify,
    /// A call with this timeout, in milliseconds.
    Call(u64),
    /// A call whose timeout progress restarts, up to this total.
    CallWithProgress(u64, u64),
    /// A call that is dropped this many milliseconds later.
    CallAndDrop(u64),
    /// A call that is polled once, and dropped this many milliseconds later.
    CallAndPark(u64),
    /// This many events on a stream that holds only a few; after a notification, if its padding is not empty.
    Events(u64),
    /// A call of the method that closes the connection.
    Bye(u64),
}

/// The time that a notification waits for room, and the default timeout of calls.
pub(crate) const CALL_TIMEOUT: u64 = 2_000;
/// The timeout of a call that is polled once: so long that it never expires.
pub(crate) const PARKED_TIMEOUT: u64 = 60_000;
/// The number of events that a stream holds.
pub(crate) const FEW_EVENTS: usize = 3;
/// The time that a closing peer waits for its handlers.
pub(crate) const DRAIN: u64 = 300;

impl World {
    pub(crate) fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        // In a third of the worlds the model knows the end of each call: nothing waits for anything else.
        let is_tame = random.once_in(3);
        let framing = match random.below(16) {
            0 => None,
            1..=5 => Some(Framing::Lsp),
            6..=10 => Some(Framing::Ndjson),
            _ => Some(Framing::Length),
        };
        let dialect = random.pick(&[
            Dialect::Dollar,
            Dialect::Dollar,
            Dialect::Notifications,
            Dialect::Notifications,
            Dialect::None,
        ]);
        let ids =
            random.pick(&[IdStyle::Counter, IdStyle::Counter, IdStyle::Counter, IdStyle::Uuid]);
        let has_timeouts = !is_tame && random.once_in(4);
        // Many messages are sent within a moment, and there is little room.
        let is_rush = !is_tame && random.once_in(4);
        let side = |random: &mut Random| {
            let profile = Profile::agent().with(|it| {
                it.framing = match framing {
                    Some(Framing::Lsp) if random.once_in(4) => FramingChoice::Auto,
                    Some(framing) => framing.into(),
                    None => Framing::Ndjson.into(),
                };
                it.dialect = dialect;
                it.ids = ids;
                it.read_timeout = has_timeouts.then_some(Duration::from_millis(50));
                it.call_timeout = Some(Duration::from_millis(CALL_TIMEOUT));
                it.drain_timeout = Duration::from_millis(DRAIN);
                it.order = Order::Concurrent;
            });
            let is_quick = random.once_in(2);
            if is_tame {
                return Side { profile, is_quick };
            }
            let order = random.pick(&[
                Order::Concurrent,
                Order::Barrier,
                Order::Barrier,
                Order::Sequential,
                Order::ByKey,
            ]);
            let limits = match random.below(3) {
                0 if !is_rush => Limits::default(),
                _ => small_limits(random, is_rush),
            };
            Side {
                profile: profile.with(|it| {
                    it.order = order;
                    it.limits = limits;
                }),
                is_quick,
            }
        };
        let sides = [side(&mut random), side(&mut random)];
        // If bytes are sent one by one, the messages are small, because each byte costs a turn.
        let is_fine = random.once_in(6);
        let pace = Pace { is_tame, is_fine, is_rush };
        let ways = [0, 1].map(|_| WayTerms::random(&mut random, pace));
        let mishap =
            (!is_tame && framing.is_some() && random.once_in(3)).then(|| mishap(&mut random));
        let most = random.pick(if is_fine { &[2, 5] } else { &[3, 6, 6, 20] });
        let count = 2 + random.below(most);
        let acts = (0..count).map(|number| Act::random(&mut random, number, pace));
        let mut acts: Vec<_> = acts.collect();
        let pieces = match framing {
            Some(framing) if random.once_in(3) => Piece::some(&mut random, framing),
            _ => Vec::new(),
        };
        let close =
            (!is_tame && random.once_in(4)).then(|| (random.below(2) as usize, random.below(400)));
        if let Some((by, at)) = close.filter(|_| random.once_in(2)) {
            // Events directly before the close, and a message that must be sent before them.
            let (deed, number) = (Deed::Events(1 + random.below(6)), count);
            let pad = if is_fine { 30 } else { 3000 };
            acts.push(Act { by, at, deed, number, plan: Plan::Now, pad });
        }
        let last = random.below(2) as usize;
        World { seed, framing, sides, ways, mishap, acts, pieces, close, last, lie: None }
    }

    /// Returns `true` if only the plans decide the ends of calls.
    pub(crate) fn is_exact(&self) -> bool {
        let is_concurrent = |side: &Side| side.profile.order == Order::Concurrent;
        self.sides.iter().all(is_concurrent) && self.is_free() && self.lives_on()
    }

    /// Returns `true` if no limit is reached and the link has no delays.
    pub(crate) fn is_free(&self) -> bool {
        let is_fast = |way: &WayTerms| way.delayed == 0 && way.stalls.is_empty();
        !self.sides.iter().any(|side| self.has_small_limits(side))
            && (self.framing.is_none() || self.ways.iter().all(is_fast))
            && !self.may_lose_messages()
    }

    /// Returns `true` if nothing ends the connection before everything is done.
    pub(crate) fn lives_on(&self) -> bool {
        self.mishap.is_none()
            && self.close.is_none()
            && !self.acts.iter().any(|act| matches!(act.deed, Deed::Bye(_)))
    }

    /// Returns `true` if messages may take too long to be read, and are dropped.
    pub(crate) fn may_lose_messages(&self) -> bool {
        self.sides[0].profile.read_timeout.is_some()
    }

    /// Returns `true` if every endless handler is cancelled once nobody waits for it. Otherwise the dialect
    /// has no cancellation, or the cancellation is lost, or it is not read because too many bytes precede it.
    pub(crate) fn must_get_quiet(&self) -> bool {
        let is_heard = self.dialect() != Dialect::None
            && !self.may_lose_messages()
            && !self.sides.iter().any(|side| self.has_small_limits(side));
        is_heard || !self.acts.iter().any(|act| act.plan.is_endless())
    }

    pub(crate) fn has_small_limits(&self, side: &Side) -> bool {
        side.profile.limits != Limits::default()
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.sides[0].profile.dialect
    }

    /// Returns `true` if ids, and so the bytes, differ between runs.
    pub(crate) fn has_random_ids(&self) -> bool {
        self.sides[0].profile.ids == IdStyle::Uuid
    }
}

impl Side {
    pub(crate) fn pace<H>(&self, handler: H) -> Paced<H> {
        if self.is_quick { quick(handler) } else { blocking(handler) }
    }
}

/// Limits so small that each of them is reached.
fn small_limits(random: &mut Random, is_rush: bool) -> Limits {
    Limits::default().with(|it| {
        it.message_bytes = random.pick(&[2500, 1024 * 1024]);
        it.in_flight = random.pick(&[1, 2, 3, 1024]);
        it.waiting = random.pick(&[1, 2, 4, 1024]);
        it.waiting_bytes = random.pick(&[300, 1500, 4 * 1024 * 1024]);
        it.pending_calls = random.pick(&[2, 5, 1000]);
        it.outgoing_bytes = match random.pick(&[1, 100, 1000, 1024 * 1024]) {
            large @ 1001.. if is_rush => large / 1024,
            size => size,
        };
        it.batch_bytes = random.pick(&[50, 200, 1024 * 1024]);
        it.answered_faults = random.pick(&[1, 3, 1000]);
    })
}

impl WayTerms {
    fn random(random: &mut Random, pace: Pace) -> Self {
        let Pace { is_tame, is_fine, is_rush } = pace;
        let is_slow = !is_tame && random.once_in(2);
        let stalls = if is_slow && random.once_in(3) { 1 + random.below(3) } else { 0 };
        let stalls = (0..stalls).map(|_| {
            let from = random.below(300);
            (from, from + random.pick(&[5, 30, 100, 400]))
        });
        let mut stalls: Vec<_> = stalls.collect();
        if is_rush {
            // Messages of the burst have to wait, and then leave quickly.
            stalls.push((random.below(25), random.pick(&[45, 95, 145])));
        }
        WayTerms {
            room: if is_fine {
                random.pick(&[1, 7, 100])
            } else {
                random.pick(&[500, 4096, 65536])
            },
            most_written: random.pick(if is_fine { &[1, 3, 50] } else { &[200, 2000, 100_000] }),
            most_read: random.pick(if is_fine { &[1, 3, 50] } else { &[200, 2000, 100_000] }),
            delayed: if is_slow { random.pick(&[1, 2, 10]) } else { 0 },
            delay: random.pick(&[1, 10, 60]),
            interrupted: random.pick(&[0, 0, 3, 20]),
            hesitant: random.pick(&[0, 0, 3, 20]),
            buffers: random.once_in(4),
            lingers: random.once_in(4),
            stalls,
        }
    }
}

fn mishap(random: &mut Random) -> (When, Mishap) {
    let side = random.below(2) as usize;
    let when = match random.once_in(2) {
        true => When::At(random.below(400)),
        false => {
            let most = random.pick(&[10, 100, 1000, 5000]);
            When::Byte(random.below(2) as usize, random.below(most) as usize)
        }
    };
    let mishap = match random.below(8) {
        0 | 1 => Mishap::Ends(side),
        2 | 3 => Mishap::Reset,
        4 => Mishap::CannotRead(side),
        5 => Mishap::CannotWrite(side),
        6 => Mishap::Silence(side),
        _ => Mishap::Dead,
    };
    (when, mishap)
}

/// The kind of a world: the model knows every end, bytes are sent one by one, or messages come in a burst.
#[derive(Clone, Copy)]
struct Pace {
    is_tame: bool,
    is_fine: bool,
    is_rush: bool,
}

impl Act {
    fn random(random: &mut Random, number: u64, pace: Pace) -> Self {
        let Pace { is_tame, is_fine, is_rush } = pace;
        let own_timeout = timeout(random, 0);
        let deed = match random.below(if is_rush { 40 } else { 36 }) {
            0..=6 => Deed::Notify,
            7..=12 => Deed::CallAndDrop(random.below(30) * 10 + 3),
            13..=15 | 37..=39 => {
                let more = if is_rush { 3 } else { 1 };
                let timeout = random.below(10 * more) * 10 + 4;
                Deed::CallWithProgress(timeout, random.below(40 * more) * 10 + 9)
            }
            16 | 17 | 32 => Deed::Events(random.below(12)),
            33 | 34 | 36 => Deed::CallAndPark(random.pick(&[53, 403, 2503])),
            18 if !is_tame && random.once_in(4) => Deed::Bye(own_timeout),
            _ => Deed::Call(own_timeout),
        };
        let mut plan = Plan::random(random, 0, is_fine);
        // An endless handler would block everything after it.
        if let (Deed::Notify, true) = (deed, plan.is_endless()) {
            plan = Plan::Now;
        }
        if let Deed::CallWithProgress(..) = deed {
            plan = Plan::progress(random);
        }
        let (by, at) = (random.below(2) as usize, random.below(if is_rush { 3 } else { 20 }) * 10);
        let pads: &[_] = match (is_fine, is_rush) {
            (true, _) => &[0, 30],
            (false, false) => &[0, 0, 0, 30, 300, 3000],
            (false, true) => &[0, 300, 3000],
        };
        let pad = random.pick(pads);
        Act { by, at, deed, number, plan, pad }
    }
}
