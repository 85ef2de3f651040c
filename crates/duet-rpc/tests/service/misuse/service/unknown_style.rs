#[duet_rpc::service(rename_all = "SCREAMING")]
trait Math {
    async fn add(&self, a: i64) -> i64;
}

fn main() {}
