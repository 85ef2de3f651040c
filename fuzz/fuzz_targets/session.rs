//! Invariants, for any moves of two sessions with any limits: the ledger agrees after every move;
//! at the end every request is answered once, every call has settled once, and nothing is left.

#![no_main]

use duet_rpc_fuzz::support::game;
use duet_rpc_proto::policy::Order;
use libfuzzer_sys::fuzz_target;

const ORDERS: [Order; 4] = [Order::Sequential, Order::Barrier, Order::Concurrent, Order::ByKey];
/// More moves find nothing new.
const MOST_MOVES: usize = 500;

fuzz_target!(|bytes: &[u8]| {
    let [orders, a, b, moves @ ..] = bytes else { return };
    let order = |bits: u8| ORDERS[usize::from(bits % 4)];
    let (moves, _) = moves.as_chunks::<2>();
    let moves: Vec<_> = moves.iter().take(MOST_MOVES).map(|&[what, with]| (what, with)).collect();
    game::play((order(*orders), order(orders >> 2)), (*a, *b), &moves);
});
