#[derive(Debug, duet_rpc::RpcError)]
enum Failed {
    #[rpc(code = 5, message = "Overflow at {at}")]
    Overflow { at: usize },
}

fn main() {}
