//! An `async move` closure uses a captured value by reference.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use duet_rpc::Router;

fn main() {
    let count = Arc::new(AtomicU64::new(0));
    let _ = Router::new().method("count", async move || count.fetch_add(1, Ordering::Relaxed));
}
