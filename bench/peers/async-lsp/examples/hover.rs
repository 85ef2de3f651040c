use std::ops::ControlFlow;

use async_lsp::concurrency::ConcurrencyLayer;
use async_lsp::lsp_types::{Hover, HoverContents, MarkedString, notification, request};
use async_lsp::router::Router;
use async_lsp::server::LifecycleLayer;
use async_lsp::stdio::{PipeStdin, PipeStdout};
use async_lsp::{MainLoop, Result};
use tower::ServiceBuilder;

struct State {
    hovers: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let (server, _client) = MainLoop::new_server(|_client| {
        let mut router = Router::new(State { hovers: 0 });
        router
            .request::<request::Initialize, _>(|_, _| async { Ok(Default::default()) })
            .notification::<notification::Initialized>(|_, _| ControlFlow::Continue(()))
            .request::<request::HoverRequest, _>(|state, _| {
                state.hovers += 1;
                let text = format!("hover {}", state.hovers);
                let contents = HoverContents::Scalar(MarkedString::String(text));
                async move { Ok(Some(Hover { contents, range: None })) }
            });
        ServiceBuilder::new()
            .layer(LifecycleLayer::default())
            .layer(ConcurrencyLayer::default())
            .service(router)
    });
    server.run_buffered(PipeStdin::lock_tokio()?, PipeStdout::lock_tokio()?).await
}
