//! `trace convert`: the formats in the programs that they are for.

use std::process::Command;

use super::support::browser::Browser;
use super::support::folder::Folder;
use super::support::programs::root;
use super::support::{has, once, skip};
use super::{SESSION, stderr, stdout, trace, trace_of, write};

#[test]
fn r8_convert_writes_to_stdout_and_counts_records_without_a_place() {
    let folder = Folder::new();
    let path = write(&folder, "a.jsonl", SESSION);
    let output = trace(&["convert", "--to", "vscode", &path]);
    assert_eq!(output.status.code(), Some(0));
    let begin = "[Trace - 03:04:05] Sending request 'initialize - (1)'.\nParams: {\n    \"processId\": 7\n}\n\n\nstarting\n";
    assert!(stdout(&output).starts_with(begin), "{}", stdout(&output));
    let said = "duet-rpc: records without a place in this format: 2 eof, 1 exit, 1 noise\n";
    assert_eq!(stderr(&output), said);
    // An answer that is not shown is an answer.
    let requests = ["convert", "--to", "mermaid", "--where", "kind:request", &path];
    let lost: Vec<_> = stdout(&trace(&requests))
        .lines()
        .filter(|it| it.contains("no answer"))
        .map(str::to_owned)
        .collect();
    assert_eq!(lost, ["    Note right of S: no answer to textDocument/definition (3)"]);
    let output = trace(&["convert", "--to", "mermaid", "--where", "method:nope", &path]);
    let diagram = "sequenceDiagram\n    participant C as client\n    participant S as server\n    C->>S: nope (4)\n    \
        S--xC: nope (4) error -32601 Method not found 1.00 ms\n";
    assert_eq!((stdout(&output), stderr(&output)), (diagram, ""));
    let wrong = [
        &["convert", &path][..],
        &["convert", "--to", "har", "--from", "vscode", &path],
        &["convert", "--to", "pdf", &path],
    ];
    for words in wrong {
        assert_eq!(trace(words).status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn r7_text_without_a_message_is_not_a_log() {
    let script = b"import sys\nprint('hello')\n".as_slice();
    let long = b"line\n".repeat(20_000);
    for text in [script, &long] {
        let output = trace_of(&["convert", "--from", "vscode", "-"], text);
        assert_eq!((output.status.code(), stdout(&output)), (Some(1), ""));
        assert_eq!(stderr(&output), "duet-rpc: stdin: no message of this format found\n");
    }
    // The output panel of a server has other lines before the first message.
    let log = b"Starting\n[Trace - 10:02:33] Sending notification 'exit'.\n";
    let output = trace_of(&["convert", "--from", "vscode", "-"], log);
    assert!(output.status.success() && stdout(&output).lines().count() == 3, "{}", stdout(&output));
}

#[test]
fn r9_redact_warns_if_nothing_was_replaced() {
    let folder = Folder::new();
    let path = write(&folder, "a.jsonl", "0 > {\"method\":\"m\",\"params\":{\"Token\":\"x\"}}\n");
    for (words, code, expected) in [
        (&["--redact", "token"][..], 0, "duet-rpc: values were replaced in 1 record\n"),
        (&["--redact", "tokn"], 0, "duet-rpc: warning: no value was replaced: check the names"),
        (&["--redact", "params/token"], 2, "did you mean /params/token?"),
        (&["--redact-value", "["], 2, "`[` is not a regular expression"),
        (&[], 2, "<--redact <KEY>|--redact-value <REGEX>>"),
    ] {
        let output = trace(&[&["redact", &path][..], words].concat());
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        assert!(stderr(&output).contains(expected), "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn r7_a_pasted_log_becomes_a_trace_that_every_command_reads() {
    let folder = Folder::new();
    let log = trace(&["convert", "--to", "vscode", &write(&folder, "a.jsonl", SESSION)]);
    let output = trace_of(&["convert", "--from", "vscode", "-"], &log.stdout);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let path = folder.write("b.jsonl", &output.stdout);
    let same = trace(&["diff", &folder.text("a.jsonl"), &path]);
    assert_eq!(same.status.code(), Some(0), "{}", stdout(&same));
    let cat = trace(&["cat", "--dir", "c2s", &path]);
    assert!(stdout(&cat).starts_with("Content-Length: 71\r\n\r\n{\"jsonrpc\""), "{}", stdout(&cat));
    let bad = trace_of(&["convert", "--from", "lsp-inspector", "-"], b"\nhello\n");
    assert_eq!(bad.status.code(), Some(1));
    assert!(
        stderr(&bad).starts_with("duet-rpc: stdin: line 2: expected an object"),
        "{}",
        stderr(&bad)
    );
    let empty = trace_of(&["convert", "--from", "vscode", "-"], b"\n");
    assert_eq!(stderr(&empty), "duet-rpc: stdin: no message of this format found\n");
}

/// Runs `browser.mjs` with a browser. Skips the test if something is not installed.
fn in_browser(mode: &str, library: &str, file: &str) -> Option<String> {
    let clients = root().join("target/clients");
    let (ws, library) = (clients.join("node_modules/ws/wrapper.mjs"), clients.join(library));
    let browser = Browser::find().filter(|_| has("node"));
    let Some(browser) = browser.filter(|_| ws.exists() && library.exists()) else {
        skip(mode, "node, a browser, or the packages of scripts/clients are not installed");
        return None;
    };
    let script = root().join("crates/cli/tests/trace/browser.mjs");
    let profile = Folder::new();
    let mut command = Command::new("node");
    command
        .arg(script)
        .args([mode, browser])
        .arg(ws)
        .arg(profile.path("profile"))
        .arg(library)
        .arg(file);
    let output = once::run(command, b"");
    assert!(output.status.success(), "{}", stderr(&output));
    Some(stdout(&output).to_owned())
}

#[test]
fn r8_har_opens_in_the_developer_tools_of_a_real_browser() {
    let folder = Folder::new();
    let output = trace(&["convert", "--to", "har", &write(&folder, "a.jsonl", SESSION)]);
    let file = folder.write("a.har", &output.stdout);
    // The library is not used; the developer tools are part of the browser.
    let Some(rows) = in_browser("har", "node_modules/ws/wrapper.mjs", &file) else { return };
    let expected = "\
http://server/initialize 200 3 ms
http://server/initialized 202 0 ms
http://server/textDocument/hover 200 2000 ms
http://server/textDocument/definition 0 0 ms
http://server/nope 404 1 ms
";
    assert_eq!(rows, expected);
}

#[test]
fn r8_mermaid_renders_in_a_real_browser() {
    let folder = Folder::new();
    let hostile = "0 > {\"id\":\"a;b#c%%{\",\"method\":\"</text><script>alert(1)</script> end: x -->> y\"}\n\
        1 < noise end; Note over C: #35; %% \"\n2 < {\"id\":\"a;b#c%%{\",\"error\":{\"code\":1,\"message\":\"a\\nb;end\"}}\n";
    for (script, messages) in [(SESSION, 8), (hostile, 2)] {
        let output = trace(&["convert", "--to", "mermaid", &write(&folder, "a.jsonl", script)]);
        let file = folder.write("a.mmd", &output.stdout);
        let Some(said) = in_browser("mermaid", "mermaid.min.js", &file) else { return };
        assert_eq!(said, format!("{messages} messages\n"), "{}", stdout(&output));
    }
}
