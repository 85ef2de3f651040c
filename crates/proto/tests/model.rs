//! Two peers that do anything in any order, against the ledger: the simplest machine that keeps
//! the same rules (L2, L8, M6, M11, P2 to P5).
//!
//! After every step the ledger checks that exactly those messages run that may, that no more are
//! in flight or wait than the limits allow, and that each refusal has its reason. At the end of a
//! game every request was answered exactly once, every call has settled exactly once, and nothing
//! is left behind.

mod support;

use duet_rpc_proto::policy::Order;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use support::Random;
use support::game::{Move, play};

/// The same cases each time, as in `props.rs`; a thousand at least.
fn config() -> ProptestConfig {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let config = ProptestConfig { cases: config.cases.max(1000), ..config };
    match config.rng_seed {
        RngSeed::Random => ProptestConfig { rng_seed: RngSeed::Fixed(3), ..config },
        RngSeed::Fixed(_) => config,
    }
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    prop::collection::vec(any::<Move>(), 0..60)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn l2_sequential_order_holds_in_every_game(sizes in any::<(u8, u8)>(), moves in moves()) {
        play((Order::Sequential, Order::Sequential), sizes, &moves);
    }

    #[test]
    fn l2_barrier_order_holds_in_every_game(sizes in any::<(u8, u8)>(), moves in moves()) {
        play((Order::Barrier, Order::Barrier), sizes, &moves);
    }

    #[test]
    fn l2_concurrent_order_holds_in_every_game(sizes in any::<(u8, u8)>(), moves in moves()) {
        play((Order::Concurrent, Order::Sequential), sizes, &moves);
    }

    #[test]
    fn l2_order_by_key_holds_in_every_game(sizes in any::<(u8, u8)>(), moves in moves()) {
        play((Order::ByKey, Order::Barrier), sizes, &moves);
    }
}

#[test]
fn a_few_long_games_end_well_too() {
    let orders = [Order::Sequential, Order::Barrier, Order::Concurrent, Order::ByKey];
    let mut random = Random(0x5eed);
    let mut byte = move || random.below(256) as u8;
    for round in 0..40 {
        let orders = (orders[round % 4], orders[round / 4 % 4]);
        // Without the moves that end a connection, which would end every long game early.
        let moves: Vec<Move> = (0..1000).map(|_| (byte() % 61, byte())).collect();
        play(orders, (byte(), byte()), &moves);
    }
}
