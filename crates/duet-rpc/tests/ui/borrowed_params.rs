//! The params of a handler are borrowed.

use duet_rpc::Router;

async fn shout(text: &str) -> String {
    text.to_uppercase()
}

fn main() {
    let _ = Router::new().method("shout", shout);
    let _ = Router::new().method("shout", async |text: &str| text.to_uppercase());
}
