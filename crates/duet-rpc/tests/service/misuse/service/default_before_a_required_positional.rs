#[duet_rpc::service]
trait Math {
    #[rpc(positional)]
    async fn add(&self, #[rpc(default = 1)] a: i64, b: i64) -> i64;
    // By name, the order does not matter.
    async fn named(&self, #[rpc(default = 1)] a: i64, b: i64) -> i64;
}

fn main() {}
