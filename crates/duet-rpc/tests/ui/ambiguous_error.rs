//! The error implements both `Serialize` and `Into<Failure>`.

use duet_rpc::{Failure, Router};

#[derive(serde::Serialize)]
struct MathError;

impl From<MathError> for Failure {
    fn from(_: MathError) -> Failure {
        Failure::new(-32001, "Overflow")
    }
}

async fn add((a, b): (i64, i64)) -> Result<i64, MathError> {
    a.checked_add(b).ok_or(MathError)
}

fn main() {
    let _ = Router::new().method("add", add);
}
