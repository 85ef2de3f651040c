use std::rc::Rc;

#[duet_rpc::debug_handler]
async fn open(number: (u8,)) -> Result<u8, duet_rpc::Failure> {
    let shared = Rc::new(number.0);
    std::future::ready(()).await;
    Ok(*shared)
}

fn main() {}
