#[duet_rpc::service]
trait Math {
    async fn add(&self, a: impl Into<i64>) -> i64;
}

fn main() {}
