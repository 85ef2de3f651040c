//! Tests of the send window.

use std::sync::Arc;
use std::time::Duration;

use super::SendWindow;
use crate::connection::memory::Budget;

#[tokio::test(start_paused = true)]
async fn p9_room_for_a_handler_is_kept_until_its_thread_runs() {
    let window = Arc::new(SendWindow::new(100, Budget::of_connection(100)));
    window.set(100, 100);
    let handler = Arc::clone(&window);
    let handler = tokio::spawn(async move { drop(handler.wait_to_begin(&Arc::default()).await) });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!handler.is_finished());
    window.set(50, 200);
    // A remote that reads slowly, and messages that always wait.
    window.set(150, 200);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(handler.is_finished(), "it begins");
}

#[tokio::test(start_paused = true)]
async fn p3_a_handler_that_is_cancelled_while_it_waits_for_memory_passes_the_room_on() {
    let window = Arc::new(SendWindow::new(100, Budget::shared(100)));
    let begin = || {
        let window = Arc::clone(&window);
        tokio::spawn(async move { drop(window.wait_to_begin(&Arc::default()).await) })
    };
    window.set(100, 200);
    let (first, second) = (begin(), begin());
    // The tasks run whenever the clock moves.
    let pause = || tokio::time::sleep(Duration::from_secs(1));
    pause().await;
    // The connection has room, and the first handler hears of it; the memory is still in use.
    window.set(50, 150);
    pause().await;
    first.abort();
    pause().await;
    window.set(0, 0);
    let begun = tokio::time::timeout(Duration::from_secs(10), second).await;
    begun.expect("the second handler begins").expect("no panic");
}
