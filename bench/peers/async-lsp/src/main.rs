//! Echo server on async-lsp, with the router and the middleware of its examples.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::time::Duration;

use async_lsp::concurrency::ConcurrencyLayer;
use async_lsp::lsp_types::InitializeResult;
use async_lsp::lsp_types::notification::Initialized;
use async_lsp::lsp_types::request::Initialize;
use async_lsp::panic::CatchUnwindLayer;
use async_lsp::router::Router;
use async_lsp::server::LifecycleLayer;
use async_lsp::stdio::{PipeStdin, PipeStdout};
use async_lsp::{AnyRequest, Error, ErrorCode, MainLoop, ResponseError};
use serde_json::Value;
use tower::ServiceBuilder;

/// The benchmark has this many requests in flight.
const CONCURRENCY: NonZero<usize> = NonZero::new(64).unwrap();

// One thread, as in the crate's examples.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    // The examples prefer these to tokio's stdin and stdout, which go through
    // another thread.
    let (stdin, stdout) = (PipeStdin::lock_tokio()?, PipeStdout::lock_tokio()?);
    let (server, _client) = MainLoop::new_server(|_| {
        ServiceBuilder::new()
            .layer(LifecycleLayer::default())
            .layer(CatchUnwindLayer::default())
            // Its default is the number of cores.
            .layer(ConcurrencyLayer::new(CONCURRENCY))
            .service(router())
    });
    match server.run_buffered(stdin, stdout).await {
        Err(Error::Eof) => Ok(()),
        ended => ended,
    }
}

/// The catch-all handler serves the methods. A separate handler for each would
/// take typed params, and even params of type `Value` would be copied on the
/// way in and on the way out.
fn router() -> Router<()> {
    let mut router = Router::new(());
    router
        .request::<Initialize, _>(|(), _| async { Ok(InitializeResult::default()) })
        .notification::<Initialized>(|(), _| ControlFlow::Continue(()))
        .unhandled_request(|(), request| serve(request));
    router
}

async fn serve(request: AnyRequest) -> Result<Value, ResponseError> {
    match request.method.as_str() {
        "echo" => {}
        "later" => tokio::task::yield_now().await,
        "nap" => tokio::time::sleep(Duration::from_millis(1)).await,
        _ => return Err(ResponseError::new(ErrorCode::METHOD_NOT_FOUND, request.method)),
    }
    Ok(request.params)
}
