#[duet_rpc::service]
trait Math {
    async fn add(&self, line: &str) -> i64;
    async fn sum(&self, lines: Option<Vec<&str>>) -> i64;
}

fn main() {}
