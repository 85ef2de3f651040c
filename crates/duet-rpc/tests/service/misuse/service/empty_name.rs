#[duet_rpc::service]
trait Math {
    #[rpc(name = "")]
    async fn add(&self, #[rpc(name = "")] a: i64) -> i64;
}

fn main() {}
