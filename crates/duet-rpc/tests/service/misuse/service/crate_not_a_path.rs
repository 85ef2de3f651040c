#[duet_rpc::service(crate = "1 + 1")]
trait Math {
    async fn add(&self, a: i64) -> i64;
}

fn main() {}
