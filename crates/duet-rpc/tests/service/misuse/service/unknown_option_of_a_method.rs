#[duet_rpc::service]
trait Math {
    #[rpc(notificaton)]
    async fn log(&self, line: String);
}

fn main() {}
