struct Broken;

#[duet_rpc::service]
trait Vault {
    async fn open(&self) -> Result<u8, Broken>;
}

fn main() {}
