#[duet_rpc::debug_handler]
struct Calculator;

fn main() {}
