//! Generated code causes no warning, even with all lints on.
#![deny(
    warnings,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    unused_qualifications,
    single_use_lifetimes,
    unused_crate_dependencies,
    rust_2018_idioms
)]
#![allow(unused_crate_dependencies)]

/// Arithmetic.
#[duet_rpc::service(callbacks = Ui)]
pub trait Math {
    /// Adds.
    #[rpc(deprecated = "use `sum`", aliases("plus"), blocking)]
    async fn add(&self, a: i64, #[rpc(default = 1)] b: i64, ui: UiClient) -> Result<i64, MathError>;

    /// Sums.
    #[deprecated]
    #[rpc(positional)]
    fn sum(&self, list: Vec<i64>, limit: Option<i64>) -> i64;

    /// Logs.
    #[rpc(notification, quick)]
    async fn log(&self, line: String);

    /// Ends.
    #[rpc(shutdown)]
    async fn exit(&self) {}
}

/// The caller.
#[duet_rpc::service]
pub trait Ui {
    /// Asks.
    async fn ask(&self) -> bool;
}

/// Only its client is used.
#[duet_rpc::service]
trait Private {
    async fn ask(&self) -> bool;
}

/// The errors of the service.
#[derive(Debug, duet_rpc::RpcError)]
pub enum MathError {
    /// Too large.
    #[rpc(code = 1)]
    Overflow {
        /// The position of the error.
        at: usize,
    },
    /// The disk.
    #[rpc(internal, from)]
    Disk(std::io::Error),
}

/// A clock.
#[derive(Debug)]
pub struct Clock;

#[duet_rpc::service]
impl Clock {
    /// The time.
    pub async fn now(&self) -> u64 {
        0
    }
}

fn main() {
    let _ = (Clock.into_router(), PrivateClient::METHODS);
}
