#[duet_rpc::service]
trait Editor {
    async fn hover(&self, params: (i64, i64)) -> String;
    async fn whole(&self, #[rpc(whole)] params: (i64, i64)) -> String;
    async fn named(&self, method: String, #[rpc(name = "params")] params: Vec<i64>) -> String;
}

fn main() {}
