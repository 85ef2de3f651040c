type Outcome<T> = Result<T, duet_rpc::Failure>;

#[duet_rpc::service]
trait Vault {
    async fn open(&self) -> Outcome<u8>;
}

fn main() {}
