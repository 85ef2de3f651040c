#[derive(Debug, duet_rpc::RpcError)]
enum Failed<T> {
    #[rpc(code = 5)]
    Disk(T),
}

fn main() {}
