//! The params of a handler do not implement `Deserialize`.

use duet_rpc::Router;

struct Range {
    from: u32,
    to: u32,
}

async fn length(range: Range) -> u32 {
    range.to - range.from
}

fn main() {
    let _ = Router::new().method("length", length);
}
