#[derive(Debug, duet_rpc::RpcError)]
#[rpc(code = 1)]
enum Failed {
    #[rpc(code = 5, data = 1)]
    Overflow,
}

fn main() {}
