#[duet_rpc::service]
trait Math {
    async fn add(&self, #[rpc(default)] cx: duet_rpc::Context) -> i64;
}

fn main() {}
