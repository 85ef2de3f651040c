#[duet_rpc::service]
trait Store {
    async fn set(&self, key: String, value: Option<Option<i64>>);
}

fn main() {}
