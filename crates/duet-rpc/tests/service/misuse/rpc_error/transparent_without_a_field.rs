#[derive(Debug, duet_rpc::RpcError)]
enum Failed {
    #[rpc(transparent)]
    Other,
    #[rpc(code = 5, from)]
    Coded(u8),
}

fn main() {}
