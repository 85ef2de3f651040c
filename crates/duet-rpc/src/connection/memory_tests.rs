//! Tests of the budget.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::{AnswerSize, Budget};
use crate::router::{LONGEST, STEP};

const SOON: Duration = Duration::from_millis(1);

fn known(bytes: usize) -> Arc<AnswerSize> {
    let size = Arc::<AnswerSize>::default();
    size.record(bytes);
    size
}

fn unknown() -> Arc<AnswerSize> {
    Arc::default()
}

#[tokio::test(start_paused = true)]
async fn p9_a_large_answer_is_counted_before_the_next_begins() {
    for size in [unknown(), known(500)] {
        let budget = Budget::shared(400);
        let first = budget.reserve(&size).await;
        assert!(
            timeout(SOON, budget.reserve(&size)).await.is_err(),
            "a large answer is being made"
        );
        budget.add(500);
        size.record(500);
        drop(first);
        assert!(
            timeout(100 * STEP, budget.reserve(&size)).await.is_err(),
            "the answer was not sent"
        );
        budget.remove(101);
        let _second =
            timeout(SOON, budget.reserve(&size)).await.expect("the budget has room again");
    }
}

#[tokio::test(start_paused = true)]
async fn p9_small_answers_are_made_side_by_side_and_beside_a_large_one() {
    let budget = Budget::of_connection(100);
    let mut kept = vec![budget.reserve(&known(500)).await];
    for _ in 0..40 {
        kept.push(
            timeout(SOON, budget.reserve(&known(3))).await.expect("a small answer may begin"),
        );
        kept.push(timeout(SOON, budget.reserve(&unknown())).await.expect("another method"));
    }
    drop(kept);
    let mut kept = Vec::new();
    for _ in 0..3 {
        kept.push(timeout(SOON, budget.reserve(&known(30))).await.expect("the answer fits"));
    }
    assert!(timeout(SOON, budget.reserve(&known(30))).await.is_err());
    kept.pop();
    let _last = timeout(SOON, budget.reserve(&known(30))).await.expect("the budget has room again");
}

#[tokio::test(start_paused = true)]
async fn p9_large_answers_that_many_connections_make_leave_processors_for_others() {
    let budget = Budget::shared(6400);
    let mut kept = Vec::new();
    for _ in 0..8 {
        kept.push(timeout(SOON, budget.reserve(&known(100))).await.expect("the answer fits"));
    }
    assert!(timeout(SOON, budget.reserve(&known(100))).await.is_err());
    let _small = timeout(SOON, budget.reserve(&known(25))).await.expect("a small answer may begin");
    kept.pop();
    let _last =
        timeout(SOON, budget.reserve(&known(100))).await.expect("the budget has room again");
}

#[tokio::test(start_paused = true)]
async fn p9_a_waiter_that_gives_up_lets_the_next_through() {
    for size in [unknown(), known(500)] {
        let budget = Budget::of_connection(100);
        let first = budget.reserve(&size).await;
        let waiting: Vec<_> = (0..10)
            .map(|_| {
                let (budget, size) = (Arc::clone(&budget), Arc::clone(&size));
                tokio::spawn(async move { drop(budget.reserve(&size).await) })
            })
            .collect();
        tokio::task::yield_now().await;
        for (number, waiting) in waiting.iter().enumerate() {
            // The first of the queue, and some in the middle.
            if number % 3 == 0 {
                waiting.abort();
            }
        }
        drop(first);
        for (number, waiting) in waiting.into_iter().enumerate() {
            let ended = timeout(SOON, waiting).await.expect("every waiter gets its turn");
            assert_eq!(ended.is_err(), number % 3 == 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn p9_handler_waits_a_limited_time_for_one_that_computes() {
    for size in [unknown(), known(500)] {
        let (budget, begun) = (Budget::of_connection(100), Instant::now());
        let mut kept = Vec::new();
        for number in 0..4 {
            kept.push(budget.reserve(&size).await);
            // This thread reads its own state while it runs, so it counts as computing.
            let wait = if cfg!(target_os = "linux") { LONGEST } else { STEP };
            assert_eq!(begun.elapsed(), number * wait);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn p9_handler_that_awaits_does_not_delay_the_next_one() {
    let (budget, size) = (Budget::of_connection(100), unknown());
    for _ in 0..10 {
        // This handler never answers.
        drop(timeout(SOON, budget.reserve(&size)).await.expect("there is room"));
    }
}

#[tokio::test(start_paused = true)]
async fn p9_every_waiter_of_a_spent_budget_gets_its_turn() {
    let budget = Budget::shared(100);
    budget.add(100);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..100 {
        let (budget, size) = (Arc::clone(&budget), known(number));
        tasks.spawn(async move {
            let reservation = budget.reserve(&size).await;
            tokio::task::yield_now().await;
            drop(reservation);
        });
    }
    tokio::task::yield_now().await;
    assert!(budget.is_spent_by_many());
    budget.remove(1);
    assert!(timeout(SOON, tasks.join_all()).await.is_ok(), "a handler still waits");
}
