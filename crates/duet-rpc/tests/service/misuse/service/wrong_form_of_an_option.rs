#[duet_rpc::service]
trait Math {
    #[rpc(name = 5)]
    async fn add(&self, a: i64) -> i64;
    #[rpc(quick = true)]
    async fn sub(&self, a: i64) -> i64;
    #[rpc(aliases = "times")]
    async fn mul(&self, a: i64) -> i64;
    #[rpc(aliases())]
    async fn div(&self, a: i64) -> i64;
}

fn main() {}
