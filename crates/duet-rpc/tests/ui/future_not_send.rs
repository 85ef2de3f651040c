//! The future of a handler is not `Send`.

use std::rc::Rc;

use duet_rpc::Router;

fn main() {
    let _ = Router::new().method("count", async || {
        let count = Rc::new(1);
        tokio::task::yield_now().await;
        *count
    });
}
