//! The option `openrpc` without the feature.

#[duet_rpc::service]
trait Ui {
    async fn ask(&self) -> bool;
}

#[duet_rpc::service(openrpc, callbacks = Ui)]
trait Plotter {
    async fn line(&self, ui: UiClient) -> bool;
}

struct Pen;

#[duet_rpc::service(openrpc)]
impl Pen {
    pub fn width(&self) -> u32 {
        1
    }
}

fn main() {}
