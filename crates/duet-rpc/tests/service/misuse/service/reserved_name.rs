#[duet_rpc::service]
trait Math {
    #[rpc(name = "rpc.discover")]
    async fn discover(&self) -> i64;
    #[rpc(aliases("rpc.add"))]
    async fn add(&self) -> i64;
}

fn main() {}
