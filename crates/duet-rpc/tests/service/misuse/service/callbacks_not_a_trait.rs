#[duet_rpc::service(callbacks = "EditorUi")]
trait Math {
    async fn add(&self, a: i64) -> i64;
}

fn main() {}
