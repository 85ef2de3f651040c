#[duet_rpc::service]
trait Math {
    async fn add(&self, #[rpc(whole, default)] a: Vec<i64>) -> i64;
}

fn main() {}
