#[duet_rpc::service]
trait Math {
    #[rpc(quick)]
    #[rpc(quick, name = "plus")]
    async fn add(&self, a: i64) -> i64;
}

fn main() {}
