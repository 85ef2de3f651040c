#[duet_rpc::service]
trait Math {
    async fn add(&self, a: i64) -> i64;
}

struct Calculator;

#[duet_rpc::service]
impl Math for Calculator {
    async fn add(&self, a: i64) -> i64 {
        a
    }
}

fn main() {}
