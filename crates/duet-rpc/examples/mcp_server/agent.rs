//! Methods of the client that the server calls.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[duet_rpc::service(rename_params = "camelCase")]
pub(crate) trait Agent {
    #[rpc(name = "roots/list")]
    async fn list_roots(&self) -> Roots;

    #[rpc(notification, name = "notifications/progress")]
    async fn progress(&self, progress_token: Value, progress: u64, total: u64);
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Roots {
    pub(crate) roots: Vec<Root>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Root {
    pub(crate) uri: String,
}

/// Reports the progress of a tool if the client asked for it.
pub(crate) struct Progress {
    pub(crate) token: Option<Value>,
    pub(crate) agent: AgentClient,
}

impl Progress {
    pub(crate) async fn report(&self, done: u64, total: u64) -> Result<(), String> {
        let Some(token) = self.token.clone() else { return Ok(()) };
        // This waits while the client does not read, so reports do not pile up.
        let sent = self.agent.progress(token, done, total).await;
        sent.map_err(|error| error.to_string())
    }
}
