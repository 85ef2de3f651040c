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
//!
//! `--listen http://127.0.0.1:4000/mcp` serves Streamable HTTP, and `--listen ws://127.0.0.1:4000/mcp` WebSocket. Each
//! needs the feature of its transport.

mod agent;
mod tools;

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};

use duet_rpc::transport::Listener;
use duet_rpc::{Context, Profile, Server};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use agent::{AgentClient, Progress};

/// The protocol versions that start with `initialize`, the latest first. A client that tries a newer start receives
/// the error "Method not found", and falls back to `initialize`.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The server, with the state that all clients share.
#[derive(Default)]
struct NumbersAndWords {
    running: tools::Running,
}

/// The state of one connection. Over HTTP each request is one, so a client there has no roots.
#[derive(Default)]
struct ClientState {
    has_roots: AtomicBool,
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
        cx: Context,
    ) -> Value {
        let client = cx.peer().extension::<ClientState>();
        client.has_roots.store(capabilities.contains_key("roots"), Ordering::Relaxed);
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
        cx: Context,
    ) -> Value {
        let client = cx.peer().extension::<ClientState>();
        let progress = Progress { token: meta.progress_token, agent };
        match self.run(name, Value::Object(arguments), &progress, &client).await {
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

fn main() -> Result<(), Box<dyn Error>> {
    // Both profiles run requests concurrently.
    let (mut profile, mut listener) = (Profile::mcp(), None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match &*argument {
            "agent" => profile = Profile::agent(),
            "mcp" => {}
            "--listen" => {
                let address = arguments.next().ok_or("--listen needs an address")?;
                listener = Some(Listener::bind(&*address)?);
            }
            _ => return Err(format!("unknown argument: {argument}").into()),
        }
    }
    let mut server =
        Server::new().profile(profile).router(NumbersAndWords::default().into_router());
    if let Some(listener) = listener {
        server = server.listen(listener).on_listening(|addresses| {
            addresses.iter().for_each(|address| eprintln!("listening on {address}"));
        });
    }
    Ok(server.run()?)
}
