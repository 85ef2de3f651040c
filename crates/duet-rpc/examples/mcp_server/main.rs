//! A server of the Model Context Protocol with four tools, on stdin and stdout: a quick tool, a long tool that reports
//! progress and can be cancelled, a tool that calls the client back, and a tool that counts the running long ones.
//!
//! ```console
//! cargo build -p duet-rpc --example mcp_server
//! npx @modelcontextprotocol/inspector target/debug/examples/mcp_server
//! ```
//!
//! A cancelled request gets no answer, because the protocol demands that. With the argument `agent` the server uses
//! `Profile::agent()`, which answers a cancelled request with -32800.

mod agent;
mod tools;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use duet_rpc::Profile;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use agent::{AgentClient, Progress};

/// The protocol versions that start with `initialize`, the latest first. A client that tries a newer start receives
/// the error "Method not found", and falls back to `initialize`.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The server. It has one client, the agent that started it, so its state is a field.
#[derive(Default)]
struct NumbersAndWords {
    client_has_roots: AtomicBool,
    running: tools::Running,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    progress_token: Option<Value>,
}

#[duet_rpc::service(callbacks = agent::Agent, rename_params = "camelCase")]
impl NumbersAndWords {
    #[rpc]
    async fn initialize(
        &self,
        protocol_version: String,
        capabilities: Map<String, Value>,
    ) -> Value {
        self.client_has_roots.store(capabilities.contains_key("roots"), Ordering::Relaxed);
        // A client that does not support our version disconnects.
        let asked_for = VERSIONS.into_iter().find(|version| *version == protocol_version);
        json!({
            "protocolVersion": asked_for.unwrap_or(VERSIONS[0]),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "numbers-and-words", "version": env!("CARGO_PKG_VERSION")},
            "instructions": "Counts the words of a text, and primes.",
        })
    }

    #[rpc(notification, name = "notifications/initialized")]
    fn initialized(&self) {}

    #[rpc]
    fn ping(&self) -> Value {
        json!({})
    }

    #[rpc(name = "tools/list")]
    fn list_tools(&self) -> Value {
        json!({"tools": tools::descriptions()})
    }

    /// Calls a tool. `name` is an enum, so the library answers an unknown name with -32602. Some tools compute for
    /// long, so `blocking` runs them on another thread than the one that reads and writes.
    #[rpc(name = "tools/call", blocking)]
    async fn call_tool(
        &self,
        name: tools::Name,
        #[rpc(default)] arguments: Map<String, Value>,
        #[rpc(default, name = "_meta")] meta: Meta,
        agent: AgentClient,
    ) -> Value {
        let progress = Progress { token: meta.progress_token, agent };
        match self.run(name, Value::Object(arguments), &progress).await {
            // The text is for clients that do not read structured content yet.
            Ok(content) => json!({
                "content": [{"type": "text", "text": content.to_string()}],
                "structuredContent": content,
            }),
            // The request was valid, but the tool failed. The model reads this text and may correct itself. A
            // JSON-RPC error would go to the client instead.
            Err(why) => json!({"content": [{"type": "text", "text": why}], "isError": true}),
        }
    }
}

fn main() -> ExitCode {
    // Both profiles run requests concurrently.
    let profile = match std::env::args().nth(1).as_deref() {
        Some("agent") => Profile::agent(),
        _ => Profile::mcp(),
    };
    duet_rpc::serve(profile, NumbersAndWords::default().into_router())
}
