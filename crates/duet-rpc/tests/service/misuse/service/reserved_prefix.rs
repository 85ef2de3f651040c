#[duet_rpc::service(prefix = "rpc.")]
trait Math {
    async fn discover(&self) -> i64;
}

fn main() {}
