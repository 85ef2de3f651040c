#[duet_rpc::service]
trait Ui {
    async fn ask(&self) -> bool;
}

#[duet_rpc::service]
trait Editor {
    async fn save(&self, ui: UiClient) -> bool;
}

fn main() {}
