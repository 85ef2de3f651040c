//! The language server of tower-lsp-server's example `stdio`, on duet-rpc. docs/migrating.md compares the two.

use std::process::ExitCode;

use duet_rpc::{Error, Profile};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const ERROR: u8 = 1;
const INFO: u8 = 3;

/// The methods of the editor that the server calls.
#[duet_rpc::service]
trait Editor {
    #[rpc(notification, name = "window/logMessage")]
    async fn log(&self, r#type: u8, message: String);

    #[rpc(name = "workspace/applyEdit")]
    async fn apply_edit(&self, edit: Value) -> Applied;
}

#[derive(Serialize, Deserialize)]
struct Applied {
    applied: bool,
}

struct Backend;

#[duet_rpc::service(callbacks = Editor, prefix = "textDocument/", rename_all = "camelCase")]
impl Backend {
    #[rpc(name = "initialize")]
    fn initialize(&self) -> Value {
        json!({"capabilities": {
            "textDocumentSync": 2,
            "completionProvider": {"resolveProvider": false, "triggerCharacters": ["."]},
            "executeCommandProvider": {"commands": ["dummy.do_something"]},
            "workspace": {"workspaceFolders": {"supported": true, "changeNotifications": true}},
        }})
    }

    #[rpc(notification, name = "initialized")]
    async fn initialized(&self, editor: EditorClient) -> Result<(), Error> {
        editor.log(INFO, "the editor is ready".to_owned()).await
    }

    #[rpc(name = "shutdown")]
    fn shutdown(&self) {}

    #[rpc(name = "exit", notification, shutdown)]
    fn exit(&self) {}

    #[rpc(notification, name = "workspace/didChangeWorkspaceFolders")]
    async fn did_change_workspace_folders(&self, editor: EditorClient) -> Result<(), Error> {
        editor.log(INFO, "other workspace folders".to_owned()).await
    }

    #[rpc(notification, name = "workspace/didChangeConfiguration")]
    async fn did_change_configuration(&self, editor: EditorClient) -> Result<(), Error> {
        editor.log(INFO, "another configuration".to_owned()).await
    }

    #[rpc(notification, name = "workspace/didChangeWatchedFiles")]
    async fn did_change_watched_files(&self, editor: EditorClient) -> Result<(), Error> {
        editor.log(INFO, "other watched files".to_owned()).await
    }

    #[rpc(name = "workspace/executeCommand")]
    async fn execute_command(&self, editor: EditorClient) -> Result<(), Error> {
        editor.log(INFO, "running the command".to_owned()).await?;
        match editor.apply_edit(json!({})).await {
            Ok(Applied { applied: true }) => editor.log(INFO, "edit applied".to_owned()).await,
            Ok(_) => editor.log(INFO, "edit rejected".to_owned()).await,
            Err(error) => editor.log(ERROR, error.to_string()).await,
        }
    }

    #[rpc(notification)]
    async fn did_open(&self, editor: EditorClient) -> Result<(), Error> {
        editor.log(INFO, "a file was opened".to_owned()).await
    }

    #[rpc(notification)]
    async fn did_change(&self, editor: EditorClient) -> Result<(), Error> {
        editor.log(INFO, "a file was changed".to_owned()).await
    }

    #[rpc(notification)]
    async fn did_save(&self, editor: EditorClient) -> Result<(), Error> {
        editor.log(INFO, "a file was saved".to_owned()).await
    }

    #[rpc(notification)]
    async fn did_close(&self, editor: EditorClient) -> Result<(), Error> {
        editor.log(INFO, "a file was closed".to_owned()).await
    }

    #[rpc]
    fn completion(&self) -> Value {
        json!([{"label": "Hello", "detail": "a greeting"}, {"label": "Bye", "detail": "a goodbye"}])
    }
}

fn main() -> ExitCode {
    duet_rpc::serve(Profile::editor(), Backend.into_router())
}

#[cfg(test)]
mod tests {
    use duet_rpc::{Error, Peer, Profile, Router, transport::memory};
    use serde_json::{Value, json};

    use super::{Applied, Backend};

    #[tokio::test]
    async fn p7_it_serves_an_editor_and_calls_it_back() -> Result<(), Error> {
        let (here, there) = memory::pair();
        let router = Backend.into_router();
        let server = Peer::builder(there).profile(Profile::editor()).router(router).spawn();
        let edits = Router::new().method("workspace/applyEdit", || Applied { applied: true });
        let editor = Peer::builder(here).profile(Profile::editor()).router(edits).spawn();
        let mut log = editor.subscribe::<Value>("window/logMessage");

        let introduction: Value = editor.call("initialize", json!({"capabilities": {}})).await?;
        assert_eq!(introduction["capabilities"]["textDocumentSync"], 2);
        editor.notify("textDocument/didOpen", json!({"textDocument": {"uri": "a"}})).await?;
        let command = json!({"command": "dummy.do_something"});
        editor.call::<()>("workspace/executeCommand", command).await?;
        for line in ["a file was opened", "running the command", "edit applied"] {
            let logged = log.next().await.expect("the connection is open")?;
            assert_eq!(logged, json!({"type": 3, "message": line}));
        }
        let items: Vec<Value> = editor.call("textDocument/completion", json!({})).await?;
        assert_eq!(items.len(), 2);
        editor.call::<()>("shutdown", ()).await?;
        editor.notify("exit", ()).await?;
        server.closed().await;
        Ok(())
    }
}
