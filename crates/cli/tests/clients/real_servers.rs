//! The reverse: `duet-rpc call` and its handshakes with language servers and an MCP server of others.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::support::folder::Folder;
use super::support::programs::DUET_RPC;
use super::{fetched, has, skip};

/// A server of somebody else: its name, its command, and the protocol of its handshake.
pub(crate) struct RealServer {
    pub(crate) name: &'static str,
    /// A program in PATH, or in `target/clients/node_modules/.bin`.
    pub(crate) words: &'static [&'static str],
    pub(crate) protocol: &'static str,
}

pub(crate) const CLANGD: RealServer =
    RealServer { name: "clangd", words: &["clangd", "--log=error"], protocol: "lsp" };
pub(crate) const PYLSP: RealServer =
    RealServer { name: "pylsp", words: &["pylsp"], protocol: "lsp" };
pub(crate) const BASH: RealServer = RealServer {
    name: "bash-language-server",
    words: &["bash-language-server", "start"],
    protocol: "lsp",
};
pub(crate) const PYRIGHT: RealServer =
    RealServer { name: "pyright", words: &["pyright-langserver", "--stdio"], protocol: "lsp" };
pub(crate) const EVERYTHING: RealServer = RealServer {
    name: "@modelcontextprotocol/server-everything",
    words: &["mcp-server-everything"],
    protocol: "mcp",
};

impl RealServer {
    /// The command; `None`, with a message, if the server is not installed.
    pub(crate) fn command(&self) -> Option<Vec<String>> {
        let (program, words) = self.words.split_first().expect("a program");
        let program = match fetched(&format!("node_modules/.bin/{program}")) {
            Some(path) if has("node") => path.to_str().expect("a plain path").to_owned(),
            _ if has(program) => (*program).to_owned(),
            _ => {
                skip(self.name, "it is not installed (a Debian package, or scripts/clients)");
                return None;
            }
        };
        Some([program].into_iter().chain(words.iter().map(|word| (*word).to_owned())).collect())
    }

    /// Calls with these words in a folder; returns the results.
    fn call(&self, folder: &Folder, words: &[&str]) -> Option<Vec<Value>> {
        let server = self.command()?;
        let mut command = Command::new(DUET_RPC);
        command.args(["call", "--handshake", self.protocol, "--timeout", "120"]).args(words);
        command.arg("--").args(server).current_dir(folder.path("")).stdin(Stdio::null());
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", self.name);
        let lines = String::from_utf8(output.stdout).expect("UTF-8");
        Some(lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
    }

    /// Hovers at a place, and checks that the result has this text.
    fn hovers(&self, file: &str, content: &str, place: &str, expect: &str) {
        let folder = Folder::new();
        folder.write(file, content);
        let open = format!("{file}:{place}");
        let words = ["--settle", "2", "--open", &open, "textDocument/hover"];
        let words = [&words[..], &["--then", "textDocument/documentSymbol"]].concat();
        let Some(results) = self.call(&folder, &words) else { return };
        let [hover, symbols] = &results[..] else { panic!("{results:?}") };
        assert!(hover["contents"].to_string().contains(expect), "{hover}");
        assert!(symbols[0]["name"].as_str().is_some_and(|name| name.contains("add")), "{symbols}");
    }
}

const PYTHON: &str = "def add(a, b):\n    \"Adds two numbers.\"\n    return a + b\n\nadd(1, 2)\n";

#[test]
fn c6_call_hovers_in_clangd() {
    let code = "int add(int a, int b) { return a + b; }\nint two(void) { return add(1, 1); }\n";
    CLANGD.hovers("main.c", code, "2:25", "int add(int a, int b)");
}

#[test]
fn c6_call_hovers_in_pylsp() {
    PYLSP.hovers("main.py", PYTHON, "5:1", "Adds two numbers.");
}

#[test]
fn c6_call_hovers_in_pyright() {
    PYRIGHT.hovers("main.py", PYTHON, "5:1", "Adds two numbers.");
}

#[test]
fn c6_c8_call_hovers_in_bash_language_server() {
    let code = "#!/bin/bash\n# Adds two numbers.\nadd() { echo $(($1 + $2)); }\nadd 1 2\n";
    BASH.hovers("main.sh", code, "4:2", "Adds two numbers.");
}

#[test]
fn c6_c7_call_lists_and_calls_the_tools_of_server_everything() {
    let params = r#"{"name": "echo", "arguments": {"message": "hello"}}"#;
    let words = ["tools/list", "--then", "tools/call", params, "--then", "ping"];
    let Some(results) = EVERYTHING.call(&Folder::new(), &words) else { return };
    let [tools, echo, ping] = &results[..] else { panic!("{results:?}") };
    let tools = tools["tools"].as_array().expect("a list");
    assert!(tools.iter().any(|tool| tool["name"] == "echo"), "{tools:?}");
    assert_eq!(echo["content"][0]["text"], "Echo: hello");
    assert_eq!(ping, &serde_json::json!({}));
}

/// Runs `doctor` on a server. Returns the rows that are not `ok`, as check and result.
fn examine(server: &RealServer) -> Option<Vec<(String, String)>> {
    let words = server.command()?;
    let folder = Folder::new();
    let mut command = Command::new(DUET_RPC);
    command.args(["doctor", "--timeout", "60", "--"]).args(words);
    let output = command.current_dir(folder.path("")).stdin(Stdio::null()).output();
    let output = output.expect("it starts");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{}: {text}", server.name);
    let detected = format!("handshake: {}\n", server.protocol);
    assert!(text.contains(&detected), "{}: {text}", server.name);
    let rows: Vec<Vec<_>> = text
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(2)
        .map(|line| line.split(" | ").map(str::trim).collect())
        .collect();
    assert!(rows.len() >= 16, "{text}");
    let odd = rows.iter().filter(|row| row[1] != "ok");
    Some(odd.map(|row| (row[0][2..].to_owned(), row[1].to_owned())).collect())
}

#[test]
fn c10_real_servers_have_warnings_and_no_faults() {
    for server in [&CLANGD, &PYLSP, &BASH, &PYRIGHT, &EVERYTHING] {
        let Some(odd) = examine(server) else { continue };
        // None of them answers a message that is not JSON, and each its own way to a broken request.
        let expect = ["not JSON", "invalid request"].map(|check| (check.into(), "warning".into()));
        assert_eq!(odd, expect, "{}", server.name);
    }
}
