const CODE: i64 = 5;

#[derive(Debug, duet_rpc::RpcError)]
enum Failed {
    #[rpc(code = CODE)]
    Constant,
    #[rpc(code = "1")]
    Text,
    #[rpc(code = 1.5)]
    Fraction,
}

fn main() {}
