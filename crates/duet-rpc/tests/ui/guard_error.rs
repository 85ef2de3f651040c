//! The error of a guard does not convert into a `Failure`.

use std::num::ParseIntError;

use duet_rpc::{Arrival, Router};

fn numbers_alone(message: &Arrival<'_>) -> Result<(), ParseIntError> {
    message.method().parse::<u64>().map(|_| ())
}

fn main() {
    let _ = Router::new().guard(numbers_alone);
}
