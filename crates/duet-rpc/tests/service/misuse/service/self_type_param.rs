#[duet_rpc::service]
trait Math {
    async fn add(&self, others: Box<Self>) -> i64;
}

fn main() {}
