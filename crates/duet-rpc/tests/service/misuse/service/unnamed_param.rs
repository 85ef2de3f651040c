#[duet_rpc::service]
trait Math {
    async fn add(&self, _: i64) -> i64;
}

fn main() {}
