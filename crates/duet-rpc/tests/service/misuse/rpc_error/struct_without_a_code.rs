#[derive(Debug, duet_rpc::RpcError)]
struct Failed;

fn main() {}
