//! Traces that `duet-rpc tap` recorded, read by `duet-rpc trace`.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};

use super::support::folder::Folder;
use super::support::programs::{DUET_RPC, example, root};
use super::support::{has, once, say_skipped};
use super::{stderr, stdout, trace};

/// Records a session of a server with this input, and returns the path of the trace.
fn record(folder: &Folder, server: &[&str], input: &[u8]) -> String {
    let path = folder.text("trace.jsonl");
    let mut command = Command::new(DUET_RPC);
    command.args(["tap", "--to", &path, "--"]).args(server);
    let output = once::run(command, input);
    assert!(output.status.success(), "{}", stderr(&output));
    path
}

fn lsp(messages: &[&str]) -> Vec<u8> {
    let frame = |json: &&str| format!("Content-Length: {}\r\n\r\n{json}", json.len());
    messages.iter().map(frame).collect::<String>().into_bytes()
}

#[test]
fn r4_r5_recorded_sessions_of_the_daemon_are_clean() {
    let folder = Folder::new();
    let input = lsp(&[
        r#"{"jsonrpc":"2.0","id":1,"method":"version"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"version"}"#,
    ]);
    let editor = record(&folder, &[DUET_RPC, "rpc", "--profile", "editor"], &input);
    let (path, agents) = (folder.text("editor.jsonl"), Folder::new());
    std::fs::rename(editor, &path).expect("it can be renamed");
    let line =
        |id: &str| format!("{{\"id\":\"{id}\",\"jsonrpc\":\"2.0\",\"method\":\"version\"}}\n");
    let input = [line("a"), line("b")].concat();
    let agent = record(&agents, &[DUET_RPC, "rpc", "--profile", "agent"], input.as_bytes());
    for path in [&path, &agent] {
        let output = trace(&["check", "--slow", "10s", path]);
        assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    }
    let same = trace(&["diff", &path, &agent]);
    assert_eq!(same.status.code(), Some(0), "{}", stdout(&same));
}

#[test]
fn r4_a_stray_print_of_a_recorded_server_is_found() {
    let folder = Folder::new();
    let script = r#"echo debug; read -r line; echo '{"jsonrpc":"2.0","id":1,"result":1}'; exit 0"#;
    let input = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\n";
    let path = record(&folder, &["sh", "-c", script], input);
    let output = trace(&["check", &path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains(": noise: the server wrote 6 bytes"), "{}", stdout(&output));
    assert!(stdout(&output).ends_with(": 1 fault\n"), "{}", stdout(&output));
}

/// Records a session of `any_server`, a client of the library, with a language server.
fn record_lsp(folder: &Folder, server: &[&str]) -> String {
    let path = folder.text("trace.jsonl");
    let mut command = Command::new(example("duet-rpc", "any_server"));
    command.args(["--timeout", "60", "--", DUET_RPC, "tap", "--to", &path, "--"]).args(server);
    let output = once::run(command, b"");
    assert!(output.status.success(), "{}", stderr(&output));
    path
}

#[test]
fn r5_recorded_sessions_of_language_servers_are_clean() {
    let fetched = root().join("target/clients/node_modules/.bin/bash-language-server");
    let fetched = fetched.to_str().expect("a plain path");
    let servers: [(&str, &[&str]); 3] = [
        ("clangd", &["clangd", "--log=error"]),
        ("pylsp", &["pylsp"]),
        (fetched, &[fetched, "start"]),
    ];
    for (program, server) in servers {
        if !has(program) {
            // Debian packages, or `scripts/clients`.
            say_skipped(program, "it is not installed");
            continue;
        }
        let folder = Folder::new();
        let path = record_lsp(&folder, server);
        let output = trace(&["check", "--protocol", "lsp", &path]);
        assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
        let stats = trace(&["stats", &path]);
        assert!(stdout(&stats).contains("initialize"), "{}", stdout(&stats));
    }
}

#[test]
fn r5_a_recorded_session_of_an_mcp_server_is_clean() {
    let folder = Folder::new();
    let path = folder.text("trace.jsonl");
    let mut process = Command::new(DUET_RPC)
        .args(["tap", "--to", &path, "--"])
        .arg(example("duet-rpc", "mcp_server"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = process.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    for (message, is_request) in [
        (
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#,
            true,
        ),
        (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, false),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#, true),
        (r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#, true),
    ] {
        writeln!(stdin, "{message}").expect("the server reads");
        if is_request {
            lines.next().expect("an answer").expect("a text");
        }
    }
    drop(stdin);
    assert!(process.wait().expect("it ends").success());
    let output = trace(&["check", "--protocol", "mcp", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
}
