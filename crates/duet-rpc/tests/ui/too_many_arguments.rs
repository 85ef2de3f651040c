//! A handler has more than five arguments.

use duet_rpc::{Context, Router};

fn main() {
    let _ = Router::new().method(
        "many",
        |_: Context, _: Context, _: Context, _: Context, _: Context, _: Context| 1,
    );
}
