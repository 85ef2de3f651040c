#[duet_rpc::service(rename_all = "camelCase")]
trait Math {
    async fn get_value(&self) -> i64;
    async fn fetch(&self) -> i64;
    #[rpc(name = "getValue")]
    async fn other(&self) -> i64;
}

fn main() {}
