#[duet_rpc::debug_handler]
async fn add(a: i64, cx: duet_rpc::Context, b: i64) -> i64 {
    a + b
}

fn main() {}
