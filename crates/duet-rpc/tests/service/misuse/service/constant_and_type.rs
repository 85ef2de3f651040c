#[duet_rpc::service]
trait Math {
    const LIMIT: i64;
    type Number;
    async fn add(&self, a: i64) -> i64;
}

fn main() {}
