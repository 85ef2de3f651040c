//! A server of the Model Context Protocol with four tools, as an agent starts one: a message a line, over
//! stdin and stdout. One tool is quick, one takes long, reports progress and can be called off, one asks
//! the client back, and one tells how many of the long ones run.
//!
//! ```console
//! cargo build -p duet-rpc --example mcp_server
//! npx @modelcontextprotocol/inspector target/debug/examples/mcp_server
//! ```
//!
//! A request that the client cancels gets no answer, as the protocol demands. With the argument `agent` the
//! server runs under `Profile::agent()` instead: it is cancelled in the same words, and answers -32800.

mod tools;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use duet_rpc::{Context, Failure, Profile, Router, blocking};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The versions that begin with `initialize`, the latest first. A client that knows a later way to begin
/// is told that there is no such method, and then begins with this one.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// What the server knows of its client. The connection keeps it.
#[derive(Default)]
struct Client {
    has_roots: AtomicBool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialize {
    protocol_version: String,
    capabilities: Map<String, Value>,
}

async fn initialize(params: Initialize, cx: Context) -> Result<Value, Failure> {
    let client = cx.peer().extension::<Client>();
    client.has_roots.store(params.capabilities.contains_key("roots"), Ordering::Relaxed);
    // If the client cannot live with what we choose, it is for the client to go.
    let asked_for = VERSIONS.into_iter().find(|version| *version == params.protocol_version);
    Ok(json!({
        "protocolVersion": asked_for.unwrap_or(VERSIONS[0]),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "numbers-and-words", "version": env!("CARGO_PKG_VERSION")},
        "instructions": "Counts the words of a text, and primes.",
    }))
}

async fn list_tools() -> Result<Value, Failure> {
    Ok(json!({"tools": tools::descriptions()}))
}

#[derive(Deserialize)]
struct ToolCall {
    /// A closed list, so that the library itself answers a name that is not in it with -32602.
    name: tools::Name,
    #[serde(default)]
    arguments: Map<String, Value>,
    #[serde(default, rename = "_meta")]
    meta: Meta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    progress_token: Option<Value>,
}

async fn call_tool(call: ToolCall, cx: Context) -> Result<Value, Failure> {
    let progress = Progress { token: call.meta.progress_token, cx: cx.clone() };
    Ok(match tools::run(call.name, Value::Object(call.arguments), &cx, &progress).await {
        // The text is for clients that know nothing of structured content yet.
        Ok(content) => json!({
            "content": [{"type": "text", "text": content.to_string()}],
            "structuredContent": content,
        }),
        // The request was fine and the tool failed. An error of the protocol would be the client's
        // business; this is the model's, which may know better the next time.
        Err(why) => json!({"content": [{"type": "text", "text": why}], "isError": true}),
    })
}

/// Tells the client how far a tool is, if the client wants to know.
struct Progress {
    token: Option<Value>,
    cx: Context,
}

impl Progress {
    async fn report(&self, done: u64, total: u64) -> Result<(), String> {
        let Some(token) = &self.token else { return Ok(()) };
        let params = json!({"progressToken": token, "progress": done, "total": total});
        // A client that does not read makes us wait here, and nothing piles up.
        let sent = self.cx.peer().notify("notifications/progress", params).await;
        sent.map_err(|error| error.to_string())
    }
}

fn main() -> ExitCode {
    let router = Router::new()
        .method("initialize", initialize)
        .method("notifications/initialized", async || ())
        .method("ping", async || json!({}))
        .method("tools/list", list_tools)
        // Some tools compute, and must not keep the thread from reading and writing meanwhile.
        .method("tools/call", blocking(call_tool));
    // Requests run side by side in both.
    let profile = match std::env::args().nth(1).as_deref() {
        Some("agent") => Profile::agent(),
        _ => Profile::mcp(),
    };
    duet_rpc::serve(profile, router)
}
