#[duet_rpc::service]
trait Math {
    async fn name(&self) -> &str;
    async fn checked(&self) -> Result<&'static str, duet_rpc::Failure>;
    async fn first(&self) -> Option<&str>;
}

fn main() {}
