#[duet_rpc::service]
trait Math {
    async fn add(&self, (a, b): (i64, i64)) -> i64;
}

fn main() {}
