#[duet_rpc::service]
trait Math<T: Send> {
    async fn add(&self, a: i64) -> i64;
}

fn main() {}
