#[derive(Debug, duet_rpc::RpcError)]
enum Failed {
    #[rpc(internal, code = 5, message = "Disk")]
    Disk(std::io::Error),
}

fn main() {}
