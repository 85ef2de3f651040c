#[duet_rpc::service]
trait Math {
    async fn add(&self, a: i64) -> std::fmt::Result;
}

fn main() {}
