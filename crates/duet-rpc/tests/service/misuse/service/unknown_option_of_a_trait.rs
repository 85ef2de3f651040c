#[duet_rpc::service(rename = "camelCase")]
trait Math {
    async fn add(&self, a: i64) -> i64;
}

fn main() {}
