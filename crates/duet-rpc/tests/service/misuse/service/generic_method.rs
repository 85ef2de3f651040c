#[duet_rpc::service]
trait Math {
    async fn add<T: Send>(&self, a: T) -> i64;
}

fn main() {}
