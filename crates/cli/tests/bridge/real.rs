//! B1: a scripted session with real servers gives the same answers directly, over WebSocket, over a Unix socket, and
//! with a shared server. `scripts/clients` fetches the servers of npm.

use std::path::PathBuf;

use duet_rpc::Profile;
use duet_rpc::proto::frame::{Framing, FramingChoice};
use duet_rpc::transport::{Child, MessagePipe};
use serde_json::{Value, json};
use tokio::process::Command;

use super::client::Client;
use super::support::folder::Folder;
use super::support::programs::root;
use super::support::{has, skip};
use super::{Bridge, block_on};

/// A real server, and a session with it.
struct RealServer {
    name: &'static str,
    command: Vec<String>,
    framing: Framing,
    initialize: Value,
    initialized: &'static str,
    notifications: Vec<Value>,
    requests: Vec<(&'static str, Value)>,
}

fn fetched(name: &str) -> Option<PathBuf> {
    let path = root().join("target/clients/node_modules/.bin").join(name);
    (path.exists() && has("node")).then_some(path)
}

/// A session with a language server about one document.
fn language_server(
    name: &'static str,
    command: Vec<String>,
    folder: &Folder,
    (file, language, text): (&str, &str, &str),
    requests: &[(&'static str, Value)],
) -> RealServer {
    std::fs::write(folder.path(file), text).expect("it can be written");
    let uri = format!("file://{}", folder.path(file).display());
    let at = |params: &Value| {
        let mut params = params.clone();
        params["textDocument"] = json!({"uri": uri});
        params
    };
    let document = json!({"uri": uri, "languageId": language, "version": 1, "text": text});
    let root = format!("file://{}", folder.path("").display());
    RealServer {
        name,
        command,
        framing: Framing::Lsp,
        initialize: json!({"processId": null, "rootUri": root, "capabilities": {}}),
        initialized: "initialized",
        notifications: vec![
            json!({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": document}}),
        ],
        requests: requests.iter().map(|(method, params)| (*method, at(params))).collect(),
    }
}

fn servers(folder: &Folder) -> Vec<Result<RealServer, &'static str>> {
    let position = json!({"position": {"line": 1, "character": 6}});
    let found = |program: &'static str| has(program).then_some(program.to_owned());
    let npm = |program: &'static str| fetched(program).map(|path| path.display().to_string());
    let python = ("a.py", "python", "def add(a, b):\n    return a + b\n\nadd(1, 2)\n");
    vec![
        found("clangd").ok_or("clangd").map(|program| {
            let document = ("a.c", "c", "int one;\nint two(void) { return one; }\n");
            let requests =
                [("textDocument/hover", position.clone()), ("textDocument/documentSymbol", json!({}))];
            let command = vec![program, "--log=error".to_owned()];
            language_server("clangd", command, folder, document, &requests)
        }),
        found("pylsp").ok_or("pylsp").map(|program| {
            let requests = [
                ("textDocument/documentSymbol", json!({})),
                ("textDocument/hover", json!({"position": {"line": 3, "character": 1}})),
            ];
            language_server("pylsp", vec![program], folder, python, &requests)
        }),
        npm("bash-language-server").ok_or("bash-language-server").map(|program| {
            let document = ("a.sh", "shellscript", "one=1\ntwo() { echo \"$one\"; }\n");
            let requests = [("textDocument/documentSymbol", json!({}))];
            let command = vec![program, "start".to_owned()];
            language_server("bash-language-server", command, folder, document, &requests)
        }),
        npm("pyright-langserver").ok_or("pyright").map(|program| {
            let requests = [("textDocument/documentSymbol", json!({}))];
            let command = vec![program, "--stdio".to_owned()];
            language_server("pyright", command, folder, python, &requests)
        }),
        npm("mcp-server-everything").ok_or("server-everything").map(|program| RealServer {
            name: "server-everything",
            command: vec![program, "stdio".to_owned()],
            framing: Framing::Ndjson,
            initialize: json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
            initialized: "notifications/initialized",
            notifications: Vec::new(),
            requests: vec![
                ("tools/list", json!({})),
                ("tools/call", json!({"name": "echo", "arguments": {"message": "h\u{e9}llo"}})),
                ("resources/list", json!({})),
                ("nonsense", json!({})),
            ],
        }),
    ]
}

/// Plays the session, and returns the answers as text.
async fn play(client: &mut Client, server: &RealServer) -> Vec<String> {
    let mut answers = Vec::new();
    let mut requests = vec![("initialize", server.initialize.clone())];
    requests.extend(server.requests.iter().cloned());
    for (id, (method, params)) in requests.into_iter().enumerate() {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        client.send(&request.to_string()).await;
        answers.push(answer(client, id).await);
        if id == 0 {
            let method = server.initialized;
            client.push(&json!({"jsonrpc": "2.0", "method": method, "params": {}}).to_string());
            server.notifications.iter().for_each(|it| client.push(&it.to_string()));
        }
    }
    answers
}

/// Waits for an answer. Requests of the server get an answer meanwhile.
async fn answer(client: &mut Client, id: usize) -> String {
    loop {
        let text = client.next().await.expect("the server is there");
        let message: Value = serde_json::from_str(&text).expect("JSON");
        if message["method"].is_string() && message.get("id").is_some() {
            let items = message["params"]["items"].as_array().map_or(0, Vec::len);
            let result = if items > 0 { json!(vec![Value::Null; items]) } else { Value::Null };
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            client.send(&answer.to_string()).await;
        } else if message["method"].is_null() && message["id"] == id {
            return text;
        }
    }
}

#[test]
fn b1_b6_real_servers_answer_the_same_through_a_bridge() {
    let folder = Folder::new();
    for server in servers(&folder) {
        let server = match server {
            Ok(server) => server,
            Err(name) => {
                skip(name, "it is not installed, or scripts/clients has not fetched it");
                continue;
            }
        };
        let direct = block_on(async {
            let mut command = Command::new(&server.command[0]);
            command.args(&server.command[1..]);
            let framing = FramingChoice::Fixed(server.framing);
            let profile = Profile::agent().with(|it| {
                it.framing = framing;
                it.limits.message_bytes = 64 * 1024 * 1024;
            });
            let child = Child::spawn(command).expect("it starts");
            let mut client = Client::over(MessagePipe::new(Box::new(child), &profile));
            play(&mut client, &server).await
        });
        assert!(direct.iter().all(|answer| answer.len() > 30), "{}: {direct:?}", server.name);
        let socket = folder.url("socket");
        for (options, listen) in [
            (&[][..], "ws://127.0.0.1:0/"),
            (&[], &*socket),
            (&["--shared"], "ws://127.0.0.1:0/"),
            (&["--restart"], &*socket),
        ] {
            let bridge = Bridge::start(&[listen], options, &server.command);
            let bridged = block_on(async {
                let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
                play(&mut client, &server).await
            });
            assert_eq!(bridged, direct, "{} {options:?} {listen}", server.name);
        }
    }
}
