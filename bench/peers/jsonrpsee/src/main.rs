//! Echo server on jsonrpsee, over WebSocket or HTTP: it prints the port, and ends with its stdin.
//!
//! ```console
//! peer-jsonrpsee ws|http raw|value THREADS
//! ```

use std::error::Error;
use std::hint::black_box;
use std::io::Read;
use std::time::Duration;

use jsonrpsee::RpcModule;
use jsonrpsee::core::{DeserializeOwned, RpcResult, Serialize};
use jsonrpsee::server::{Server, ServerConfig, ServerConfigBuilder};
use jsonrpsee::types::Params;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::runtime::{Builder, Runtime};

/// The work of `spin`, the same in all servers.
const SPINS: u64 = 25_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let [protocol, params, threads] = arguments[..] else { return Err("three arguments".into()) };
    let config = ServerConfig::builder().max_connections(1 << 16).set_tcp_no_delay(true);
    let config = match protocol {
        "ws" => config.ws_only(),
        "http" => config.http_only(),
        _ => return Err("ws or http".into()),
    };
    let methods = match params {
        "raw" => methods::<Box<RawValue>>()?,
        "value" => methods::<Value>()?,
        _ => return Err("raw or value".into()),
    };
    runtime(threads.parse()?)?.block_on(serve(config, methods))
}

// For one thread, the single-threaded runtime costs less than the multi-threaded one.
fn runtime(threads: usize) -> std::io::Result<Runtime> {
    match threads {
        0 | 1 => Builder::new_current_thread().enable_all().build(),
        _ => Builder::new_multi_thread().worker_threads(threads).enable_all().build(),
    }
}

async fn serve(config: ServerConfigBuilder, methods: RpcModule<()>) -> Result<(), Box<dyn Error>> {
    let server = Server::builder().set_config(config.build()).build("127.0.0.1:0").await?;
    println!("{}", server.local_addr()?);
    let handle = server.start(methods);
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    handle.stopped().await;
    Ok(())
}

fn methods<T>() -> Result<RpcModule<()>, Box<dyn Error>>
where
    T: DeserializeOwned + Serialize + Clone + Send + Sync + 'static,
{
    let mut module = RpcModule::new(());
    module.register_method("echo", |params, _, _| echo::<T>(&params))?;
    module.register_method("spin", |params, _, _| {
        spin();
        echo::<T>(&params)
    })?;
    module.register_async_method("later", async |params, _, _| {
        tokio::task::yield_now().await;
        echo::<T>(&params)
    })?;
    module.register_async_method("nap", async |params, _, _| {
        tokio::time::sleep(Duration::from_millis(1)).await;
        echo::<T>(&params)
    })?;
    Ok(module)
}

fn echo<T: DeserializeOwned>(params: &Params<'_>) -> RpcResult<T> {
    params.parse()
}

fn spin() {
    let mut number = 1u64;
    for _ in 0..SPINS {
        number = black_box(number).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (number >> 29);
    }
    black_box(number);
}
