use tower_lsp_server::jsonrpc::Result;
use tower_lsp_server::ls_types::*;
use tower_lsp_server::{Client, LanguageServer, LspService, Server};

struct Backend {
    client: Client,
}

impl LanguageServer for Backend {
    async fn initialize(&self, _: InitializeParams) -> Result<InitializeResult> {
        let hover_provider = Some(HoverProviderCapability::Simple(true));
        let capabilities = ServerCapabilities { hover_provider, ..Default::default() };
        Ok(InitializeResult { capabilities, ..Default::default() })
    }

    async fn hover(&self, params: HoverParams) -> Result<Option<Hover>> {
        let line = params.text_document_position_params.position.line;
        self.client.log_message(MessageType::LOG, format!("hover in line {line}")).await;
        let contents = HoverContents::Scalar(MarkedString::String(format!("line {line}")));
        Ok(Some(Hover { contents, range: None }))
    }

    async fn shutdown(&self) -> Result<()> {
        Ok(())
    }
}

#[tokio::main]
async fn main() {
    let (service, socket) = LspService::new(|client| Backend { client });
    Server::new(tokio::io::stdin(), tokio::io::stdout(), socket).serve(service).await;
}
