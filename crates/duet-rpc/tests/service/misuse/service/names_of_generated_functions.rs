#[duet_rpc::service]
trait Math {
    async fn new(&self) -> i64;
    async fn into_router(&self) -> i64;
}

fn main() {}
