#[duet_rpc::service]
trait Math {
    async fn add(self: std::sync::Arc<Self>, a: i64) -> i64;
}

fn main() {}
