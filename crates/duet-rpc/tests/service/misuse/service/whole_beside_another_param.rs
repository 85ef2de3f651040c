#[duet_rpc::service]
trait Math {
    async fn add(&self, #[rpc(whole)] a: Vec<i64>, b: i64) -> i64;
}

fn main() {}
