#[derive(Debug, duet_rpc::RpcError)]
enum Failed {
    #[rpc(code = -32602)]
    Params,
    #[rpc(code = -32768)]
    First,
    // Servers may use these codes.
    #[rpc(code = -32050)]
    Server,
    #[rpc(code = -32769)]
    Below,
}

fn main() {}
