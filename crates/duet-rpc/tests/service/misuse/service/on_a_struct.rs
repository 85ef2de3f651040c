#[duet_rpc::service]
struct Calculator;

fn main() {}
