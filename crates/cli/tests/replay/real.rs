//! Real servers: a scripted session is recorded through the tap, replays the same, and is mocked so that the
//! scripted client gets the same answers. `scripts/clients` fetches the servers of npm.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use duet_rpc::proto::Limits;
use duet_rpc::proto::frame::{Decoder, Event, Framing};
use serde_json::{Value, json};

use super::support::daemon::{HANG, frame, guard};
use super::support::folder::Folder;
use super::support::programs::{DUET_RPC, root};
use super::support::{has, skip};
use super::{replay, said, stderr};

/// A server, and a session with it.
struct RealServer {
    name: &'static str,
    command: Vec<String>,
    framing: Framing,
    /// Requests, and notifications, which have no answer.
    messages: Vec<Value>,
    /// Options for values that change with each run.
    options: Vec<&'static str>,
}

/// A client that sends the messages one after the other, and answers the requests of the server.
struct ScriptedClient {
    process: Child,
    stdin: Option<ChildStdin>,
    framing: Framing,
    messages: Receiver<Value>,
}

impl ScriptedClient {
    fn start(words: &[&str], framing: Framing, folder: &Folder) -> Self {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(folder.path("."));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("the program starts");
        let (stdin, mut stdout) = (process.stdin.take(), process.stdout.take().expect("a pipe"));
        let (tell, messages) = channel();
        thread::spawn(move || {
            let mut limits = Limits::default();
            limits.message_bytes = 16 * 1024 * 1024 - 1;
            let mut decoder = Decoder::new(framing, &limits);
            let mut chunk = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = stdout.read(&mut chunk) {
                let mut rest = &chunk[..count];
                while !rest.is_empty() {
                    let taken = decoder.feed(rest);
                    rest = &rest[taken..];
                    while let Some(event) = decoder.next_event() {
                        if let Event::Frame(text) = event {
                            let value = serde_json::from_str(text.as_str()).expect("JSON");
                            let _ = tell.send(value);
                        }
                    }
                }
            }
        });
        ScriptedClient { process, stdin, framing, messages }
    }

    fn send(&mut self, message: &Value) {
        let bytes = frame(self.framing, &message.to_string());
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(&bytes).expect("the server reads");
    }

    /// Plays the session, and returns the answers.
    fn play(mut self, messages: &[Value]) -> Vec<Value> {
        let guard = guard(&self.process);
        let mut answers = Vec::new();
        for message in messages {
            self.send(message);
            while message.get("id").is_some() {
                let came = self.messages.recv_timeout(HANG).expect("an answer");
                match (came.get("method"), came.get("id")) {
                    (Some(_), Some(id)) => {
                        let items = came["params"]["items"].as_array().map_or(0, Vec::len);
                        let result =
                            if items > 0 { json!(vec![Value::Null; items]) } else { Value::Null };
                        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
                    }
                    (None, Some(id)) if *id == message["id"] => {
                        answers.push(came);
                        break;
                    }
                    _ => {}
                }
            }
        }
        self.stdin = None;
        self.process.wait().expect("it ends");
        drop(guard);
        answers
    }
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// A session with a language server about one document.
fn language_server(
    name: &'static str,
    command: Vec<String>,
    folder: &Folder,
    (file, language, text): (&str, &str, &str),
    position: Value,
) -> RealServer {
    folder.write(file, text);
    let uri = format!("file://{}", folder.text(file));
    let root = format!("file://{}", folder.text(""));
    let document = json!({"uri": uri, "languageId": language, "version": 1, "text": text});
    let about = json!({"textDocument": {"uri": uri}});
    let at = json!({"textDocument": {"uri": uri}, "position": position});
    let messages = vec![
        request(0, "initialize", json!({"processId": null, "rootUri": root, "capabilities": {}})),
        notification("initialized", json!({})),
        notification("textDocument/didOpen", json!({"textDocument": document})),
        request(1, "textDocument/documentSymbol", about),
        request(2, "textDocument/hover", at),
        request(3, "shutdown", Value::Null),
        notification("exit", Value::Null),
    ];
    RealServer { name, command, framing: Framing::Lsp, messages, options: Vec::new() }
}

fn fetched(name: &str) -> Option<String> {
    let path = root().join("target/clients/node_modules/.bin").join(name);
    (path.exists() && has("node")).then(|| path.display().to_string())
}

fn check(server: &RealServer, folder: &Folder) {
    let trace = folder.text(&format!("{}.jsonl", server.name));
    let server_words: Vec<&str> = server.command.iter().map(String::as_str).collect();
    let words = [&[DUET_RPC, "tap", "--to", &trace, "--"][..], &server_words].concat();
    let recorded = ScriptedClient::start(&words, server.framing, folder).play(&server.messages);

    let mut options = vec!["--unordered"];
    options.extend(&server.options);
    let output = replay(&trace, &options, &server_words);
    assert_eq!(said(&output).0, 0, "{}: {}{}", server.name, said(&output).1, stderr(&output));

    let words = [DUET_RPC, "mock", &trace, "--on-miss", "error"];
    let mocked = ScriptedClient::start(&words, server.framing, folder).play(&server.messages);
    assert_eq!(mocked, recorded, "{}", server.name);
}

#[test]
fn y1_k1_clangd_replays_the_same_and_is_mocked() {
    if !has("clangd") {
        return skip("`clangd`", "it is not installed");
    }
    let folder = Folder::new();
    let document = ("a.c", "c", "int one;\nint two(void) { return one; }\n");
    let command = vec!["clangd".to_owned(), "--log=error".to_owned()];
    let position = json!({"line": 1, "character": 6});
    check(&language_server("clangd", command, &folder, document, position), &folder);
}

const PYTHON: (&str, &str, &str) =
    ("a.py", "python", "def add(a, b):\n    return a + b\n\nadd(1, 2)\n");

#[test]
fn y1_k1_pylsp_replays_the_same_and_is_mocked() {
    if !has("pylsp") {
        return skip("`pylsp`", "it is not installed");
    }
    let folder = Folder::new();
    let position = json!({"line": 3, "character": 1});
    let mut server = language_server("pylsp", vec!["pylsp".to_owned()], &folder, PYTHON, position);
    // Its linters run after a pause, and may come after the end.
    server.options = vec!["--ignore-method", "textDocument/publishDiagnostics"];
    check(&server, &folder);
}

#[test]
fn y1_k1_bash_language_server_replays_the_same_and_is_mocked() {
    let Some(program) = fetched("bash-language-server") else {
        return skip("`bash-language-server`", "scripts/clients has not fetched it");
    };
    let folder = Folder::new();
    let document = ("a.sh", "shellscript", "one=1\ntwo() { echo \"$one\"; }\n");
    let command = vec![program, "start".to_owned()];
    let position = json!({"line": 1, "character": 1});
    let mut server = language_server("bash-language-server", command, &folder, document, position);
    server.options = vec![
        "--ignore-method",
        "window/logMessage",
        "--ignore-method",
        "textDocument/publishDiagnostics",
    ];
    check(&server, &folder);
}

#[test]
fn y1_k1_pyright_replays_the_same_and_is_mocked() {
    let Some(program) = fetched("pyright-langserver") else {
        return skip("`pyright`", "scripts/clients has not fetched it");
    };
    let folder = Folder::new();
    let command = vec![program, "--stdio".to_owned()];
    let position = json!({"line": 3, "character": 1});
    let mut server = language_server("pyright", command, &folder, PYTHON, position);
    server.options = vec![
        "--ignore-method",
        "window/logMessage",
        "--ignore-method",
        "textDocument/publishDiagnostics",
    ];
    check(&server, &folder);
}

#[test]
fn y1_k1_mcp_server_everything_replays_the_same_and_is_mocked() {
    let Some(program) = fetched("mcp-server-everything") else {
        return skip("`server-everything`", "scripts/clients has not fetched it");
    };
    let folder = Folder::new();
    let initialize = json!({
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    });
    let echo = json!({"name": "echo", "arguments": {"message": "h\u{e9}llo"}});
    let messages = vec![
        request(0, "initialize", initialize),
        notification("notifications/initialized", json!({})),
        request(1, "tools/list", json!({})),
        request(2, "tools/call", echo),
        request(3, "resources/list", json!({})),
        request(4, "nonsense", json!({})),
    ];
    let server = RealServer {
        name: "server-everything",
        command: vec![program, "stdio".to_owned()],
        framing: Framing::Ndjson,
        messages,
        options: Vec::new(),
    };
    check(&server, &folder);
}
