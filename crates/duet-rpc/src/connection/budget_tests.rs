//! Tests of handlers that wait for room.

use std::sync::Arc;
use std::time::Duration;

use duet_rpc_proto::Profile;

use super::Shared;
use crate::connection::memory::Budget;
use crate::transport::TransportKind;

/// A connection with a limit of 100 waiting bytes.
fn connection(budget: Arc<Budget>) -> Arc<Shared> {
    let profile = Profile::agent().with(|it| it.limits.outgoing_bytes = 100);
    Arc::new(Shared::new(&profile, TransportKind::Bytes, Some(budget)))
}

#[tokio::test(start_paused = true)]
async fn p9_room_for_a_handler_is_kept_until_its_thread_runs() {
    let shared = connection(Budget::of_connection(100));
    shared.mailbox.count_outbox(100, 100);
    let handler = Arc::clone(&shared);
    let handler = tokio::spawn(async move { drop(handler.wait_to_begin(&Arc::default()).await) });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!handler.is_finished());
    shared.mailbox.count_outbox(50, 200);
    // The remote reads slowly, and messages always wait.
    shared.mailbox.count_outbox(150, 200);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(handler.is_finished(), "the handler begins");
}

#[tokio::test(start_paused = true)]
async fn p3_a_handler_that_is_cancelled_while_it_waits_for_memory_passes_the_room_on() {
    let shared = connection(Budget::shared(100));
    let begin = || {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move { drop(shared.wait_to_begin(&Arc::default()).await) })
    };
    shared.mailbox.count_outbox(100, 200);
    let (first, second) = (begin(), begin());
    // The tasks run whenever the clock moves.
    let pause = || tokio::time::sleep(Duration::from_secs(1));
    pause().await;
    // The connection has room and wakes the first handler, but the shared memory is still in use.
    shared.mailbox.count_outbox(50, 150);
    pause().await;
    first.abort();
    pause().await;
    shared.mailbox.count_outbox(0, 0);
    let begun = tokio::time::timeout(Duration::from_secs(10), second).await;
    begun.expect("the second handler begins").expect("no panic");
}
