//! The example `mcp_server`, message by message. The tests of the command run it with the official clients of the
//! Model Context Protocol.

use serde_json::{Value, json};

use crate::process::{Process, Wire};

fn open(capabilities: Value) -> Process {
    open_under("mcp", capabilities)
}

fn open_under(profile: &str, capabilities: Value) -> Process {
    let mut server = Process::start_with("mcp_server", &[profile], Wire::Lines);
    let info = json!({"name": "a test", "version": "1"});
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info,
    });
    server.call("initialize", params).expect("the call is answered");
    server.notify("notifications/initialized", json!({}));
    server
}

fn tool(server: &mut Process, name: &str, arguments: Value) -> Result<Value, Value> {
    server.call("tools/call", json!({"name": name, "arguments": arguments}))
}

/// Asks for primes, with progress.
fn count_primes(server: &mut Process, id: i64, limit: u64, token: &Value) {
    let (arguments, meta) = (json!({"limit": limit}), json!({"progressToken": token}));
    let params = json!({"name": "count_primes", "arguments": arguments, "_meta": meta});
    server.ask(id, "tools/call", params);
}

fn structured(content: Value) -> Result<Value, Value> {
    let text = json!({"type": "text", "text": content.to_string()});
    Ok(json!({"content": [text], "structuredContent": content}))
}

fn failed(text: &str) -> Result<Value, Value> {
    Ok(json!({"content": [{"type": "text", "text": text}], "isError": true}))
}

#[test]
fn protocol_version_is_the_clients_or_the_latest() {
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-12-31", "2025-11-25"),
        ("", "2025-11-25"),
    ] {
        let mut server = Process::start("mcp_server", Wire::Lines);
        let params = json!({"protocolVersion": asked, "capabilities": {}});
        let wanted = json!({
            "protocolVersion": answered,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "numbers-and-words", "version": env!("CARGO_PKG_VERSION")},
            "instructions": "Counts the words of a text, and primes.",
        });
        assert_eq!(server.call("initialize", params), Ok(wanted), "{asked}");
        assert_eq!(server.call("ping", Value::Null), Ok(json!({})));
        assert_eq!(server.close(), Some(0));
    }
}

#[test]
fn tools_return_results_and_errors() {
    let mut server = open(json!({}));
    let listed = server.call("tools/list", json!({})).expect("the call is answered");
    let tools = listed["tools"].as_array().into_iter().flatten();
    let names: Vec<_> = tools.map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["text_statistics", "count_primes", "list_roots", "status"]);

    let text = json!({"text": "one two\n🦀"});
    let counts = json!({"characters": 9, "words": 3, "lines": 2});
    let rows = [
        ("text_statistics", text, structured(counts)),
        ("count_primes", json!({"limit": 0}), structured(json!({"primes": 0}))),
        ("count_primes", json!({"limit": 2}), structured(json!({"primes": 1}))),
        ("count_primes", json!({"limit": 10_000}), structured(json!({"primes": 1229}))),
        ("status", json!({"more": "than it needs"}), structured(json!({"running": 0}))),
        ("list_roots", json!({}), failed("The client does not support `roots/list`.")),
        ("text_statistics", json!({}), failed("Invalid arguments: missing field `text`")),
        (
            "count_primes",
            json!({"limit": 0.5}),
            failed("Invalid arguments: invalid type: floating point `0.5`, expected u64"),
        ),
        (
            "count_primes",
            json!({"limit": 1_000_000_001}),
            failed("The limit is larger than 1000000000."),
        ),
    ];
    for (name, arguments, wanted) in rows {
        assert_eq!(tool(&mut server, name, arguments.clone()), wanted, "{name} {arguments}");
    }
    assert_eq!(server.close(), Some(0));
}

#[test]
fn invalid_tool_calls_are_refused() {
    let mut server = open(json!({}));
    let wrong = |data: Value| json!({"code": -32602, "message": "Invalid params", "data": data});
    let names = json!(["text_statistics", "count_primes", "list_roots", "status"]);
    let unknown = wrong(json!({
        "param": "name", "expected": "one of the accepted values", "received": "fly",
        "accepted": names,
    }));
    assert_eq!(tool(&mut server, "fly", json!({})), Err(unknown));
    let list = wrong(json!({"param": "arguments", "expected": "object", "received": "array"}));
    assert_eq!(tool(&mut server, "status", json!([])), Err(list));
    // Newer clients begin with this request; after the error they send `initialize`.
    let method = json!({"code": -32601, "message": "Method not found: server/discover"});
    assert_eq!(server.call("server/discover", json!({})), Err(method));
    assert_eq!(server.close(), Some(0));
}

#[test]
fn progress_is_sent_to_a_client_that_gave_a_token() {
    for token in [json!("a"), json!(7)] {
        let mut server = open(json!({}));
        count_primes(&mut server, 1, 2500, &token);
        for done in [0, 1000, 2000, 2500] {
            let params = json!({"progressToken": token, "progress": done, "total": 2500});
            let wanted = json!({
                "jsonrpc": "2.0", "method": "notifications/progress", "params": params,
            });
            assert_eq!(server.next(), wanted);
        }
        let result = structured(json!({"primes": 367})).expect("a result");
        assert_eq!(server.next(), json!({"jsonrpc": "2.0", "id": 1, "result": result}));
        assert_eq!(server.close(), Some(0));
    }
}

#[test]
fn p3_a_cancelled_tool_stops_and_is_answered_only_under_the_agent_profile() {
    for (profile, is_answered) in [("mcp", false), ("agent", true)] {
        cancel_two_tools(open_under(profile, json!({})), is_answered);
    }
}

fn cancel_two_tools(mut server: Process, is_answered: bool) {
    for id in [1, 2] {
        count_primes(&mut server, id, 1_000_000_000, &json!(id));
        // The tool has begun, and counts.
        assert_eq!(server.next()["params"]["progressToken"], json!(id));
    }
    for (id, left) in [(1, 1), (2, 0)] {
        server.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
        if is_answered {
            let error = json!({"code": -32800, "message": "Request cancelled"});
            let cancelled = json!({"jsonrpc": "2.0", "id": id, "error": error});
            assert_eq!(message_but_progress(&server), cancelled);
        }
        // The tool stops at its next `await`. If it does not, this loop never ends.
        loop {
            server.ask(3, "tools/call", json!({"name": "status"}));
            let answer = message_but_progress(&server);
            assert_eq!(answer["id"], 3, "{answer}");
            if answer["result"]["structuredContent"] == json!({"running": left}) {
                break;
            }
        }
    }
    assert_eq!(server.close(), Some(0));
}

/// The next message that is not progress.
fn message_but_progress(server: &Process) -> Value {
    loop {
        let message = server.next();
        if message["method"] != "notifications/progress" {
            return message;
        }
    }
}

#[test]
fn the_server_calls_the_client_back() {
    let mut server = open(json!({"roots": {}}));
    let root = json!({"uri": "file:///home/ada", "name": "Ada"});
    let refusal = json!({"code": -32601, "message": "no"});
    let rows = [
        (json!({"result": {"roots": [root]}}), structured(json!({"roots": ["file:///home/ada"]}))),
        (json!({"result": {"roots": []}}), structured(json!({"roots": []}))),
        (
            json!({"error": refusal}),
            failed(
                "The call of the client failed: the remote answered with an error (request 3): no \
                 (-32601)",
            ),
        ),
        (
            json!({"result": 7}),
            failed(
                "The call of the client failed: the remote broke the protocol (request 4): the \
                 result is not of the expected type: result: expected object, received number",
            ),
        ),
    ];
    for (mut answer, wanted) in rows {
        server.ask(1, "tools/call", json!({"name": "list_roots"}));
        let asked = server.next();
        let id = asked["id"].clone();
        assert_eq!(asked, json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"}));
        // While the server waits for our answer, it serves our requests.
        assert_eq!(server.call("ping", Value::Null), Ok(json!({})));
        answer["jsonrpc"] = json!("2.0");
        answer["id"] = id;
        server.send(&answer);
        let wanted = wanted.expect("a result");
        assert_eq!(server.next(), json!({"jsonrpc": "2.0", "id": 1, "result": wanted}));
    }
    assert_eq!(server.close(), Some(0));
}
