//! The bound of a case: how much memory the daemon may take, as `docs/limits.md` states it.

use crate::harness::prelude::*;

/// One case: who asks for what.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The profile of the daemon.
    pub profile: Profile,
    /// The transport of the clients.
    pub over: Transport,
    /// The number of clients.
    pub connections: usize,
    /// The size of each answer, in bytes.
    pub answer: usize,
}

const MIB: u64 = 1024 * 1024;

/// Memory of an idle daemon, with its threads.
const AT_REST: u64 = 24 * MIB;
/// `outgoing_bytes`: what may wait to be sent on one connection before no further request begins.
const OUTGOING: u64 = MIB;
/// Other memory of a connection: the requests that wait, and buffers.
const PER_CONNECTION: u64 = MIB;
/// What may wait to be sent on all connections of a server together.
const BUDGET: u64 = 64 * MIB;
/// The number of answers in the making, if each is larger than all that may wait: one waits to be sent, and
/// others began before it was there.
const MADE_AT_ONCE: u64 = 4;
/// An answer takes this many times its size while it is made: as a value, and as JSON.
const COPIES: u64 = 2;
/// A handler whose answer is smaller than this is quick, and runs on the thread of its connection.
const QUICK: u64 = 4 * MIB;

impl Case {
    /// How much memory the daemon may take, in bytes.
    pub fn bound(&self) -> u64 {
        let (connections, answer) = (self.connections as u64, self.answer as u64);
        let on_each = OUTGOING + PER_CONNECTION + if answer < QUICK { answer } else { 0 };
        let shared = if self.over == Transport::Stdio { 0 } else { BUDGET };
        AT_REST + connections * on_each + COPIES * (shared + MADE_AT_ONCE * answer)
    }

    /// The number of requests of each client: more than are ever answered.
    pub(super) fn requests(&self) -> usize {
        match self.answer {
            0..100_000 => 20_000 / self.connections.min(10),
            _ => 64,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { profile, over, connections, answer } = self;
        write!(f, "{profile} over {over}, {connections} x {answer} bytes")
    }
}
