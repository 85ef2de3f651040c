#[duet_rpc::debug_handler]
async fn add<T: Send>(a: T) {}

fn main() {}
