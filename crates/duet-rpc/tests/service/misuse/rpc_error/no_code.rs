#[derive(Debug, duet_rpc::RpcError)]
enum Failed {
    Overflow,
}

fn main() {}
