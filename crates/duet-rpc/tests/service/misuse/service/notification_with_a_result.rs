#[duet_rpc::service]
trait Math {
    #[rpc(notification)]
    async fn log(&self, line: String) -> bool;
    #[rpc(notification)]
    async fn warn(&self, line: String) -> Result<u8, duet_rpc::Failure>;
}

fn main() {}
