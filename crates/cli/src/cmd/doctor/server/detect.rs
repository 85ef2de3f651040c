//! Detects the protocol of a server, if the user does not name it.
//!
//! Two servers get `initialize` at the same time, that of LSP with headers and that of MCP as a line. The first answer
//! decides:
//!
//! | answer | framing | handshake |
//! |---|---|---|
//! | with headers: error -32601 or -32002, or a result with `protocolVersion` and no `capabilities` | lsp | none |
//! | with headers: anything else | lsp | lsp |
//! | a line: a result with `protocolVersion` and `capabilities`, or a result of `server/discover` | ndjson | mcp |
//! | a line: anything else | ndjson | none |
//! | none, and a server exits; if both do, the one whose stderr and status say more about the reason | its own | its own |
//! | none | ndjson | none |
//!
//! One server for both would not do: most servers are confused by the wrong framing.

use std::io;
use std::time::Duration;

use duet_rpc::proto::frame::Framing;
use duet_rpc::transport::ExitReport;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::checks::telling_line;
use super::process::{NoAnswer, ServerSetup, TestedServer};
use crate::args::ProtocolName;
use crate::cmd::handshake;

type Detected = (Framing, Option<ProtocolName>);

/// The reaction of a server to `initialize`.
enum Reaction {
    Answered(Detected),
    Exited(ProtocolName, ExitReport),
    /// It is silent, or writes without end.
    NoAnswer,
}

/// The framing and the handshake of a server. The error is that of a server that cannot be started.
pub(super) async fn detect(setup: &ServerSetup) -> io::Result<Detected> {
    let mut asked = JoinSet::new();
    asked.spawn(ask_lsp(start(setup, ProtocolName::Lsp)?, setup.answer_time));
    asked.spawn(ask_mcp(start(setup, ProtocolName::Mcp)?, setup.answer_time));
    let (mut answered, mut exits) = (None, Vec::new());
    while answered.is_none()
        && let Some(reaction) = asked.join_next().await
    {
        match reaction {
            Ok(Reaction::Answered(detected)) => answered = Some(detected),
            Ok(Reaction::Exited(protocol, end)) => exits.push((protocol, telling(&end))),
            Ok(Reaction::NoAnswer) | Err(_) => {}
        }
    }
    // Drops the other server, which ends it.
    asked.shutdown().await;
    // A tie goes to LSP: a server for lines that exits because of our header mostly says so.
    let exited = exits.into_iter().max_by_key(|(it, told)| (*told, *it == ProtocolName::Lsp));
    let exited = exited.map(|(protocol, _)| (handshake::framing(protocol), Some(protocol)));
    Ok(answered.or(exited).unwrap_or((Framing::Ndjson, None)))
}

fn start(setup: &ServerSetup, protocol: ProtocolName) -> io::Result<TestedServer> {
    TestedServer::start(&ServerSetup {
        command: setup.command.clone(),
        framing: handshake::framing(protocol),
        protocol: Some(protocol),
        answer_time: setup.answer_time,
    })
}

async fn ask_lsp(mut server: TestedServer, time: Duration) -> Reaction {
    let params = Value::Object(handshake::initialize(ProtocolName::Lsp));
    match server.call("initialize", &params, time).await {
        Ok(answer) => Reaction::Answered((Framing::Lsp, lsp_handshake(&answer))),
        Err(why) => no_answer(server, ProtocolName::Lsp, why).await,
    }
}

async fn ask_mcp(mut server: TestedServer, time: Duration) -> Reaction {
    let params = Value::Object(handshake::initialize(ProtocolName::Mcp));
    let answer = match server.call("initialize", &params, time).await {
        Ok(answer) => answer,
        Err(why) => return no_answer(server, ProtocolName::Mcp, why).await,
    };
    let members = ["/result/protocolVersion", "/result/capabilities"];
    let mut is_mcp = members.iter().all(|member| answer.pointer(member).is_some());
    if answer.get("error").is_some() {
        let params = json!({"_meta": handshake::stateless_meta()});
        let answer = server.call(handshake::DISCOVER, &params, time).await;
        is_mcp = answer.is_ok_and(|answer| answer.get("result").is_some());
    }
    Reaction::Answered((Framing::Ndjson, is_mcp.then_some(ProtocolName::Mcp)))
}

async fn no_answer(mut server: TestedServer, protocol: ProtocolName, why: NoAnswer) -> Reaction {
    if why != NoAnswer::Eof {
        return Reaction::NoAnswer;
    }
    let end = server.close().await;
    match end.exit {
        Some(_) => Reaction::Exited(protocol, end),
        None => Reaction::NoAnswer,
    }
}

/// The handshake of a server that answers `initialize` in the framing of LSP.
fn lsp_handshake(answer: &Value) -> Option<ProtocolName> {
    let is_other = match answer.pointer("/error/code").and_then(Value::as_i64) {
        // It has no `initialize`, or wants another request first.
        Some(code) => code == -32601 || code == -32002,
        // LSP has no such member.
        None => {
            answer.pointer("/result/protocolVersion").is_some()
                && answer.pointer("/result/capabilities").is_none()
        }
    };
    (!is_other).then_some(ProtocolName::Lsp)
}

/// Rates the report of a server that exited, from 0 (no reason) to 3 (names the reason).
fn telling(end: &ExitReport) -> u8 {
    // Words about a message in the wrong framing, which is our fault.
    const OUR_FAULT: [&str; 8] = [
        "content-length",
        "header",
        "json",
        "parse",
        "syntax",
        "decode",
        "character",
        "expected value",
    ];
    let line = telling_line(&end.last_stderr).map(|line| line.to_lowercase());
    match line {
        Some(line) if OUR_FAULT.iter().any(|word| line.contains(word)) => 2,
        Some(_) => 3,
        None => u8::from(end.exit.is_some_and(|exit| !exit.success())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c10_an_answer_with_headers_is_lsp_unless_it_shows_another_handshake() {
        let error = |code: i64| json!({"error": {"code": code, "message": "no"}});
        for (answer, is_lsp) in [
            (json!({"result": {"capabilities": {}}}), true),
            (json!({"result": {"capabilities": {}, "protocolVersion": "1"}}), true),
            (json!({"result": {}}), true),
            (json!({"result": null}), true),
            (json!({"result": "x"}), true),
            (json!({"result": {"protocolVersion": "2.0"}}), false),
            (error(-1), true),
            (error(-32603), true),
            (json!({"error": {"message": "no code"}}), true),
            (error(-32601), false),
            (error(-32002), false),
        ] {
            assert_eq!(lsp_handshake(&answer).is_some(), is_lsp, "{answer}");
        }
    }
}
