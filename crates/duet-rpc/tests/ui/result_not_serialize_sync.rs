//! The result of a synchronous handler does not implement `Serialize`.

use duet_rpc::{Failure, Router};

struct Report;

fn report() -> Result<Report, Failure> {
    Ok(Report)
}

fn main() {
    let _ = Router::new().method("report", report);
    let _ = Router::new().method("report", || Report);
}
