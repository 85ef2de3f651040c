#[derive(duet_rpc::RpcError)]
union Failed {
    a: u8,
}

fn main() {}
