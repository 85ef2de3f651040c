//! A handler holds the guard of a mutex across an await.

use std::sync::Mutex;

use duet_rpc::{Router, State};

fn main() {
    let _ = Router::with_state(Mutex::new(0)).method("count", async |count: State<Mutex<u64>>| {
        let mut count = count.lock().unwrap();
        tokio::task::yield_now().await;
        *count += 1;
        *count
    });
}
