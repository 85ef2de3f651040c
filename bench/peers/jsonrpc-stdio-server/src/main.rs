//! Echo server on jsonrpc-stdio-server.

use std::time::Duration;

use jsonrpc_stdio_server::ServerBuilder;
use jsonrpc_stdio_server::jsonrpc_core::{IoHandler, Params, Value};

// As in the crate's example; one thread would be as fast. The server opens
// stdin and stdout itself, and takes the next request only when the last one is
// answered: naps run one after the other.
#[tokio::main]
async fn main() {
    let mut methods = IoHandler::default();
    methods.add_sync_method("echo", |params: Params| Ok(Value::from(params)));
    methods.add_method("later", |params: Params| async {
        tokio::task::yield_now().await;
        Ok(Value::from(params))
    });
    methods.add_method("nap", |params: Params| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(Value::from(params))
    });
    ServerBuilder::new(methods).build().await;
}
