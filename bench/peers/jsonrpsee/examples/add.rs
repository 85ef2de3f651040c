use jsonrpsee::core::{RpcResult, async_trait};
use jsonrpsee::proc_macros::rpc;
use jsonrpsee::server::Server;
use jsonrpsee::types::ErrorObjectOwned;

#[rpc(server, namespace = "math")]
trait Math {
    #[method(name = "add")]
    async fn add(&self, a: i64, b: i64) -> RpcResult<i64>;
}

struct Calculator;

#[async_trait]
impl MathServer for Calculator {
    async fn add(&self, a: i64, b: i64) -> RpcResult<i64> {
        let overflow = || ErrorObjectOwned::owned(1001, "Overflow", None::<()>);
        a.checked_add(b).ok_or_else(overflow)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().build("127.0.0.1:4000").await?;
    server.start(Calculator.into_rpc()).stopped().await;
    Ok(())
}
