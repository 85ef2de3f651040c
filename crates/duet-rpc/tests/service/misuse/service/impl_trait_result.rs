#[duet_rpc::service]
trait Math {
    async fn list(&self) -> impl Iterator<Item = u8>;
}

fn main() {}
