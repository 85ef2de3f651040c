//! An axum app that serves JSON-RPC at `/rpc`, by POST and by WebSocket, beside its other routes. Ctrl-C stops it: calls
//! that run are answered first.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use duet_rpc::{Failure, Hub, Profile};
use tokio::net::TcpListener;

struct Calculator;

#[duet_rpc::service]
impl Calculator {
    #[rpc]
    fn divide(&self, a: f64, b: f64) -> Result<f64, Failure> {
        if b == 0.0 { Err(Failure::new(1, "division by zero")) } else { Ok(a / b) }
    }

    #[rpc]
    async fn wait(&self, seconds: u64) -> u64 {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        seconds
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let profile = Profile::agent().with(|it| it.limits.message_bytes = 16 * 1024);
    let hub = Hub::builder().profile(profile).router(Calculator.into_router()).build();
    let open = hub.clone();
    let app = Router::new()
        .route("/open", get(async move || format!("{} calls and connections", open.connections())))
        .route_service("/rpc", hub.http_service());

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("listening on http://{}/", listener.local_addr()?);
    let stop = async move {
        let _ = tokio::signal::ctrl_c().await;
        hub.stop().await;
    };
    axum::serve(listener, app).with_graceful_shutdown(stop).await?;
    Ok(())
}
