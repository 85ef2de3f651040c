use std::rc::Rc;

#[duet_rpc::service]
trait Vault {
    async fn open(&self) -> u8;
}

struct Door;

impl Vault for Door {
    async fn open(&self) -> u8 {
        let shared = Rc::new(1);
        std::future::ready(()).await;
        *shared
    }
}

fn main() {}
