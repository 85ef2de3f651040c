#[derive(Debug, duet_rpc::RpcError)]
enum Failed {
    #[rpc(code = 5)]
    Overflow {
        #[rpc(name = "place")]
        at: usize,
    },
}

fn main() {}
