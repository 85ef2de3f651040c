struct Calculator;

impl Calculator {
    #[duet_rpc::debug_handler]
    async fn add(&self, a: i64) -> i64 {
        a
    }
}

fn main() {}
