#[derive(Debug, duet_rpc::RpcError)]
enum Failed {
    #[rpc(code = 1)]
    Overflow,
    #[rpc(code = 1)]
    Underflow,
}

fn main() {}
