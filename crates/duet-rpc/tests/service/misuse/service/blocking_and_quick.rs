#[duet_rpc::service]
trait Math {
    #[rpc(blocking, quick)]
    async fn add(&self, a: i64) -> i64;
}

fn main() {}
