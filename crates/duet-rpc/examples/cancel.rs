//! Three ways in which a call ends before its answer: its time is over, its future is dropped, or
//! the connection closes. In each the remote stops working on it.
//!
//! ```console
//! $ cargo run -q -p duet-rpc --example cancel
//! timed out: there was no answer in time (request 1)
//! dropped: the winner is ready
//! closed: the connection is closed (request 3): it was closed here
//! the server stopped 3 of 3 handlers
//! ```

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duet_rpc::proto::Profile;
use duet_rpc::transport::memory;
use duet_rpc::{Error, Failure, Peer, Router};

/// Counts when it is dropped: a handler that is cancelled is dropped where it waits, and with it
/// everything that it holds.
struct Held(Arc<AtomicUsize>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let (begun, stopped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (to_begin, to_stop) = (Arc::clone(&begun), Arc::clone(&stopped));
    let router = Router::new().method("forever", move || {
        to_begin.fetch_add(1, Ordering::SeqCst);
        let held = Held(Arc::clone(&to_stop));
        async move {
            let _held = held;
            std::future::pending::<Result<(), Failure>>().await
        }
    });
    let (here, there) = memory::pair();
    let server = Peer::builder(there).profile(Profile::agent()).router(router).spawn();
    let client = Peer::builder(here).profile(Profile::agent()).router(Router::new()).spawn();
    let mut out = std::io::stdout();

    let call = client.call::<()>("forever", ()).timeout(Duration::from_millis(10));
    if let Err(error) = call.await {
        let _ = writeln!(out, "timed out: {error}");
    }

    // The first branch that is ready drops the other, and that cancels the call.
    let winner = tokio::select! {
        biased;
        _ = client.call::<()>("forever", ()) => "the call is ready",
        () = tokio::time::sleep(Duration::from_millis(10)) => "the winner is ready",
    };
    let _ = writeln!(out, "dropped: {winner}");

    let call = tokio::spawn(client.call::<()>("forever", ()));
    while begun.load(Ordering::SeqCst) < 3 {
        tokio::task::yield_now().await;
    }
    client.close().await;
    if let Ok(Err(error)) = call.await {
        let _ = writeln!(out, "closed: {error:#}");
    }
    server.closed().await;
    while stopped.load(Ordering::SeqCst) < 3 {
        tokio::task::yield_now().await;
    }
    let _ = writeln!(out, "the server stopped {} of 3 handlers", stopped.load(Ordering::SeqCst));
    Ok(())
}
