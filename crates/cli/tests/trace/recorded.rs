//! Traces that `duet-rpc tap` recorded, read by `duet-rpc trace`.
#![cfg(target_os = "linux")]

use std::process::Command;

use super::support::folder::Folder;
use super::support::programs::DUET_RPC;
use super::support::{has, once, skip};
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

/// A script that ends a session of a real language server as an editor does.
#[test]
fn r5_a_recorded_session_of_clangd_is_clean() {
    if !has("clangd") {
        skip("clangd", "it is not installed");
        return;
    }
    let folder = Folder::new();
    let input = lsp(&[
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"capabilities":{},"rootUri":null}}"#,
        r#"{"jsonrpc":"2.0","method":"initialized","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"shutdown"}"#,
        r#"{"jsonrpc":"2.0","method":"exit"}"#,
    ]);
    let path = record(&folder, &["clangd", "--log=error"], &input);
    // This input is written ahead, without waiting for the answer to `initialize`.
    let allow = ["--allow", "lsp-before-initialized"];
    let output = trace(&[&["check", "--protocol", "lsp", &path][..], &allow].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
}
