struct User;

#[duet_rpc::service]
trait Vault {
    async fn open(&self, #[rpc(context)] user: User, door: u8);
}

fn main() {}
