//! A handler takes its params as two arguments.

use duet_rpc::{Context, Router};

fn main() {
    let _ = Router::new().method("add", async |a: i64, _cx: Context, b: i64| a + b);
}
