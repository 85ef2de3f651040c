//! The error of a handler does not convert into a `Failure`.

use duet_rpc::Router;

mod anyhow {
    pub struct Error;
}

async fn read() -> Result<String, anyhow::Error> {
    Err(anyhow::Error)
}

fn main() {
    let _ = Router::new().method("read", read);
}
