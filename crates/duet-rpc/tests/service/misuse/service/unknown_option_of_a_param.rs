#[duet_rpc::service]
trait Math {
    async fn add(&self, #[rpc(optional)] a: i64) -> i64;
}

fn main() {}
