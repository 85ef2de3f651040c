struct Secret;

#[duet_rpc::service]
impl Vault {
    pub async fn open(&self, secret: Secret) {}
}

struct Vault;

fn main() {}
