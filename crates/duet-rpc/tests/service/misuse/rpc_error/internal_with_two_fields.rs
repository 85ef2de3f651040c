#[derive(Debug, duet_rpc::RpcError)]
enum Failed {
    #[rpc(internal)]
    Disk(std::io::Error, String),
}

fn main() {}
