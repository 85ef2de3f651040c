struct Secret;

#[duet_rpc::service]
trait Vault {
    async fn open(&self, secret: Secret) -> Result<u8, std::num::ParseIntError>;

    #[rpc(positional)]
    async fn close(&self, secret: Secret);
}

fn main() {}
