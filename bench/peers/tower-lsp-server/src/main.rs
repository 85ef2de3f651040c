//! Echo server on tower-lsp-server; with the argument `--pipes` on
//! non-blocking pipes.

use std::io;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::pipe;
use tower_lsp_server::jsonrpc::Result;
use tower_lsp_server::ls_types::{InitializeParams, InitializeResult};
use tower_lsp_server::{LanguageServer, LspService, Server};

/// The benchmark has this many requests in flight; the default is 4.
const CONCURRENCY: usize = 64;

fn main() -> io::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("--pipes") {
        on_pipes()
    } else {
        on_stdio();
        Ok(())
    }
}

/// The runtime, stdin and stdout that the crate's documentation shows.
/// One thread would be as fast.
#[tokio::main]
async fn on_stdio() {
    serve(tokio::io::stdin(), tokio::io::stdout()).await;
}

/// Non-blocking pipes, which the API allows but the documentation does not
/// show. Round trips are several times faster, because tokio's stdin and stdout
/// hand every read and write to another thread. One thread is faster here.
#[tokio::main(flavor = "current_thread")]
async fn on_pipes() -> io::Result<()> {
    let stdin = pipe::OpenOptions::new().open_receiver("/dev/stdin")?;
    let stdout = pipe::OpenOptions::new().open_sender("/dev/stdout")?;
    serve(stdin, stdout).await;
    Ok(())
}

async fn serve(stdin: impl AsyncRead + Unpin, stdout: impl AsyncWrite) {
    let (service, socket) = LspService::build(|_client| Echo)
        .custom_method("echo", Echo::echo)
        .custom_method("later", Echo::later)
        .custom_method("nap", Echo::nap)
        .finish();
    Server::new(stdin, stdout, socket).concurrency_level(CONCURRENCY).serve(service).await;
}

struct Echo;

impl Echo {
    async fn echo(&self, params: Value) -> Result<Value> {
        Ok(params)
    }

    async fn later(&self, params: Value) -> Result<Value> {
        tokio::task::yield_now().await;
        Ok(params)
    }

    async fn nap(&self, params: Value) -> Result<Value> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(params)
    }
}

impl LanguageServer for Echo {
    async fn initialize(&self, _: InitializeParams) -> Result<InitializeResult> {
        Ok(InitializeResult::default())
    }

    async fn shutdown(&self) -> Result<()> {
        Ok(())
    }
}
