#[duet_rpc::service]
trait Math {
    async fn add(&self, a: i64) -> i64
    where
        Self: Clone;
}

fn main() {}
