#[duet_rpc::service]
trait Math {
    async fn add(&self) -> i64;
    #[rpc(aliases("plus", "add"))]
    async fn sum(&self) -> i64;
}

fn main() {}
