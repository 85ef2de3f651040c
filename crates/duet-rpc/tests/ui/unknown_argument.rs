//! An argument is neither params nor an extractor.

use duet_rpc::{Context, Router};

struct Database;

fn main() {
    let _ = Router::new().method("get", async |_cx: Context, (key,): (String,), _db: Database| key);
}
