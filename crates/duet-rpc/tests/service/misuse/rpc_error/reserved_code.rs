#[derive(Debug, duet_rpc::RpcError)]
enum Failed {
    #[rpc(code = -32602)]
    Params,
    #[rpc(code = -32768)]
    First,
    #[rpc(code = -32000)]
    Busy,
    // These are for applications.
    #[rpc(code = -32001)]
    Last,
    #[rpc(code = -32099)]
    Least,
    #[rpc(code = -32769)]
    Below,
}

fn main() {}
