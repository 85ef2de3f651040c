//! Model test: two sessions that do anything in any order, compared with the ledger, the simplest
//! machine with the same rules (L2, L8, M6, M11, P2 to P5).
//!
//! After every step the ledger checks that exactly the messages run that may run, that no more are
//! in flight or wait than the limits allow, and that each refusal has a reason. At the end of a
//! game every request was answered exactly once, every call has settled exactly once, and nothing
//! is left.

#[path = "support/cases.rs"]
mod cases;
mod support;

use duet_rpc_proto::policy::Order;
use duet_rpc_proto::session::{EventQueue, Priority};
use proptest::prelude::*;
use support::Random;
use support::game::{Move, play};

/// The same cases each time, at least a thousand.
fn config() -> ProptestConfig {
    let config = cases::config(3);
    ProptestConfig { cases: config.cases.max(1000), ..config }
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

proptest! {
    #![proptest_config(config())]

    /// Compares the queue with a plain list of all waiting events.
    #[test]
    fn p9_an_event_queue_drops_and_counts_as_a_plain_list_does(
        bounds in (0..6_usize, 0..40_usize),
        moves in prop::collection::vec((0..4_u8, 0..20_usize), 0..60),
    ) {
        let (most_events, most_bytes) = bounds;
        let mut queue = EventQueue::new(most_events, most_bytes);
        let mut waiting: Vec<(u64, Priority, usize)> = Vec::new();
        let (mut pushed, mut taken, mut came) = (0_u64, 0_u64, 0_u64);
        for (what, bytes) in moves {
            if what == 0 {
                let event = queue.pop();
                let expect = (!waiting.is_empty()).then(|| waiting.remove(0).0);
                prop_assert_eq!(event.as_ref().map(|event| event.sequence), expect);
                if let Some(event) = event {
                    prop_assert_eq!(event.dropped, event.sequence - taken - 1);
                    (taken, came) = (event.sequence, came + 1);
                }
                continue;
            }
            pushed += 1;
            let priority = if what == 1 { Priority::High } else { Priority::Low };
            queue.push(priority, (), bytes);
            if bytes <= most_bytes {
                waiting.push((pushed, priority, bytes));
            }
            let is_over = |waiting: &[(u64, Priority, usize)]| {
                let bytes: usize = waiting.iter().map(|(.., bytes)| bytes).sum();
                waiting.len() > most_events || bytes > most_bytes
            };
            while is_over(&waiting) {
                let low = waiting.iter().position(|(_, priority, _)| *priority == Priority::Low);
                waiting.remove(low.unwrap_or(0));
            }
            prop_assert_eq!(queue.len(), waiting.len());
            prop_assert_eq!(queue.dropped_in_all(), pushed - came - waiting.len() as u64);
        }
    }
}

#[test]
fn a_few_long_games_agree_with_the_ledger() {
    let orders = [Order::Sequential, Order::Barrier, Order::Concurrent, Order::ByKey];
    let mut random = Random(0x5eed);
    let mut byte = move || random.below(256) as u8;
    for round in 0..40 {
        let orders = (orders[round % 4], orders[round / 4 % 4]);
        // Without the moves that close a connection, which would end every long game early.
        let moves: Vec<Move> = (0..1000).map(|_| (byte() % 61, byte())).collect();
        play(orders, (byte(), byte()), &moves);
    }
}
