#[duet_rpc::service]
trait Math {
    async fn add(&self, line: &str) -> i64;
}

fn main() {}
