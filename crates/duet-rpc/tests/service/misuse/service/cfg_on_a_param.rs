#[duet_rpc::service]
trait Math {
    async fn add(&self, #[cfg(test)] a: i64) -> i64;
}

fn main() {}
