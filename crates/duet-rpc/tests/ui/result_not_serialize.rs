//! The result of a handler does not implement `Serialize`.

use duet_rpc::Router;

struct Report;

fn main() {
    let _ = Router::new().method("report", async || Report);
}
