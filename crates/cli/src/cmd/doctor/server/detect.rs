//! Detects the protocol of a server, if the user does not name it.
//!
//! Two servers get `initialize` at the same time, that of LSP with headers and that of MCP as a line. The first answer
//! decides:
//!
//! | answer | framing | handshake |
//! |---|---|---|
//! | with headers: a result with `capabilities` | lsp | lsp |
//! | with headers: anything else | lsp | none |
//! | a line: a result with `protocolVersion` and `capabilities`, or a result of `server/discover` | ndjson | mcp |
//! | a line: anything else; or no answer | ndjson | none |
//!
//! One server for both would not do: most servers are confused by the wrong framing.

use std::io;
use std::time::Duration;

use duet_rpc::proto::frame::Framing;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::process::{ServerSetup, TestedServer};
use crate::args::ProtocolName;
use crate::cmd::handshake;

type Detected = (Framing, Option<ProtocolName>);

/// The framing and the handshake of a server. The error is that of a server that cannot be started.
pub(super) async fn detect(setup: &ServerSetup) -> io::Result<Detected> {
    let mut asked = JoinSet::new();
    asked.spawn(ask_lsp(start(setup, ProtocolName::Lsp)?, setup.answer_time));
    asked.spawn(ask_mcp(start(setup, ProtocolName::Mcp)?, setup.answer_time));
    let mut detected = None;
    while detected.is_none()
        && let Some(answer) = asked.join_next().await
    {
        detected = answer.ok().flatten();
    }
    // Drops the other server, which ends it.
    asked.shutdown().await;
    Ok(detected.unwrap_or((Framing::Ndjson, None)))
}

fn start(setup: &ServerSetup, protocol: ProtocolName) -> io::Result<TestedServer> {
    TestedServer::start(&ServerSetup {
        command: setup.command.clone(),
        framing: handshake::framing(protocol),
        protocol: Some(protocol),
        answer_time: setup.answer_time,
    })
}

async fn ask_lsp(mut server: TestedServer, time: Duration) -> Option<Detected> {
    let params = Value::Object(handshake::initialize(ProtocolName::Lsp));
    let answer = server.call("initialize", &params, time).await.ok()?;
    let is_lsp = answer.pointer("/result/capabilities").is_some();
    Some((Framing::Lsp, is_lsp.then_some(ProtocolName::Lsp)))
}

async fn ask_mcp(mut server: TestedServer, time: Duration) -> Option<Detected> {
    let params = Value::Object(handshake::initialize(ProtocolName::Mcp));
    let answer = server.call("initialize", &params, time).await.ok()?;
    let members = ["/result/protocolVersion", "/result/capabilities"];
    let mut is_mcp = members.iter().all(|member| answer.pointer(member).is_some());
    if answer.get("error").is_some() {
        let params = json!({"_meta": handshake::stateless_meta()});
        let answer = server.call(handshake::DISCOVER, &params, time).await;
        is_mcp = answer.is_ok_and(|answer| answer.get("result").is_some());
    }
    Some((Framing::Ndjson, is_mcp.then_some(ProtocolName::Mcp)))
}
