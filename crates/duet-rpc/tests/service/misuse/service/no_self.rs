#[duet_rpc::service]
trait Math {
    async fn add(a: i64) -> i64;
}

fn main() {}
