//! Cancellation: a call ends without an answer when it times out, when its future is dropped, or when the connection
//! closes. The remote stops the handler in all three cases.
//!
//! ```console
//! $ cargo run -q -p duet-rpc --example cancel
//! timed out: no answer in time (request 1)
//! dropped: the winner is ready
//! closed: the connection is closed (request 3): closed locally
//! the server stopped 3 of 3 handlers
//! ```

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duet_rpc::transport::memory;
use duet_rpc::{Error, Peer, Profile, Router, State};

#[derive(Default)]
struct Counts {
    begun: AtomicUsize,
    stopped: AtomicUsize,
}

/// Counts the handlers that were stopped. A cancelled handler is dropped at its current `await`, with all its values.
struct Held(Arc<Counts>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.stopped.fetch_add(1, Ordering::SeqCst);
    }
}

async fn forever(counts: State<Arc<Counts>>) {
    counts.begun.fetch_add(1, Ordering::SeqCst);
    let _held = Held(Arc::clone(&counts));
    std::future::pending::<()>().await;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let counts = Arc::new(Counts::default());
    let router = Router::with_state(Arc::clone(&counts)).method("forever", forever);
    let (here, there) = memory::pair();
    let server = Peer::builder(there).profile(Profile::agent()).router(router).spawn();
    let client = Peer::builder(here).profile(Profile::agent()).router(Router::new()).spawn();
    let mut out = std::io::stdout();

    let call = client.call::<()>("forever", ()).timeout(Duration::from_millis(10));
    if let Err(error) = call.await {
        let _ = writeln!(out, "timed out: {error}");
    }

    // The first branch that is ready drops the other one, which cancels the call.
    let winner = tokio::select! {
        biased;
        _ = client.call::<()>("forever", ()) => "the call is ready",
        () = tokio::time::sleep(Duration::from_millis(10)) => "the winner is ready",
    };
    let _ = writeln!(out, "dropped: {winner}");

    let call = tokio::spawn(client.call::<()>("forever", ()));
    while counts.begun.load(Ordering::SeqCst) < 3 {
        tokio::task::yield_now().await;
    }
    client.close().await;
    if let Ok(Err(error)) = call.await {
        let _ = writeln!(out, "closed: {error:#}");
    }
    server.closed().await;
    while counts.stopped.load(Ordering::SeqCst) < 3 {
        tokio::task::yield_now().await;
    }
    let stopped = counts.stopped.load(Ordering::SeqCst);
    let _ = writeln!(out, "the server stopped {stopped} of 3 handlers");
    Ok(())
}
