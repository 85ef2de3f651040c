#[duet_rpc::service]
trait Math {
    async fn add(&self, a: i64, #[rpc(name = "a")] b: i64) -> i64;
}

fn main() {}
