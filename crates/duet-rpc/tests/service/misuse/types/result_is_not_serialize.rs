struct Secret;

#[duet_rpc::service]
impl Vault {
    pub async fn open(&self) -> Secret {
        Secret
    }
}

struct Vault;

fn main() {}
