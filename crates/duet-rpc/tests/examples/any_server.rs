//! The example `any_server`, with our language server and with programs that are not servers.

use std::process::{Command, Output, Stdio};

use crate::printing::promise;
use crate::process::example;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(example("any_server"));
    command.args(arguments).stdin(Stdio::null());
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

#[test]
fn any_server_works_with_our_language_server() {
    let (_, promised) = promise("any_server");
    let server = example("language_server");
    let server = server.to_str().expect("a plain path");
    for arguments in [vec![server], vec!["--", server], vec!["--framing", "lsp", "--", server]] {
        let output = run(&arguments);
        assert_eq!(text(&output.stdout).lines().collect::<Vec<_>>(), promised, "{arguments:?}");
        assert_eq!((text(&output.stderr), output.status.code()), ("", Some(0)), "{arguments:?}");
    }
}

#[test]
fn requests_of_the_server_are_answered() {
    // A server in a few lines of shell: it makes five requests, and writes the answers to stderr.
    let ask = |id: u32, method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    };
    let asks = [
        ask(1, "workspace/configuration", r#"{"items":[{},{"section":"a"}]}"#),
        ask(2, "client/registerCapability", r#"{"registrations":[]}"#),
        ask(3, "window/workDoneProgress/create", r#"{"token":1}"#),
        ask(4, "window/workDoneProgress/create", r#"{"token":2}"#),
        ask(5, "no/such/thing", "{}"),
    ];
    let mut script = r#"
        read initialize
        printf '%s' '{"jsonrpc":"2.0","id":1,"result":{"serverInfo":{"name":"\u001b[31m\nname: x"},'
        echo '"capabilities":{"a":{},"b":false,"c":1,"d":null}}}'
        read initialized
        read shutdown
    "#
    .to_owned();
    for ask in asks {
        script.push_str(&format!("echo '{ask}'\nread answer\necho \"$answer\" >&2\n"));
    }
    script.push_str("echo '{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":null}'\nread exit\nexit 7\n");

    let output = run(&["--framing", "ndjson", "sh", "-c", &script]);
    let wanted = [
        "name: ?[31m?name: x",
        "can: a, c",
        "asked: workspace/configuration, client/registerCapability, window/workDoneProgress/create",
        "end: closed by the remote; the child process ended with exit status: 7",
    ];
    assert_eq!(text(&output.stdout).lines().collect::<Vec<_>>(), wanted);
    let wanted = [
        r#"server stderr: {"jsonrpc":"2.0","id":1,"result":[null,null]}"#,
        r#"server stderr: {"jsonrpc":"2.0","id":2,"result":null}"#,
        r#"server stderr: {"jsonrpc":"2.0","id":3,"result":null}"#,
        r#"server stderr: {"jsonrpc":"2.0","id":4,"result":null}"#,
        r#"server stderr: {"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"Method not found: no/such/thing"}}"#,
    ];
    assert_eq!(text(&output.stderr).lines().collect::<Vec<_>>(), wanted);
    assert_eq!(output.status.code(), Some(1), "a server that ends with 7 has failed");
}

#[test]
fn misbehaving_servers_are_reported() {
    let result = r#"read a; echo '{"jsonrpc":"2.0","id":1,"result":7}'"#;
    let error = r#"read a; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32099,"message":"no"}}'"#;
    // The arguments, the last line on stdout, and the text that stderr must contain.
    let rows: [(&[&str], &str, &[&str]); 6] = [
        (&["/no/such/program"], "", &[r#"cannot start "/no/such/program": No such file"#]),
        (
            &["sh", "-c", "echo first >&2; echo 'oh no' >&2; exit 3"],
            "the child process ended with exit status: 3",
            &[
                "the server failed: the connection is closed",
                "server stderr: first\nserver stderr: oh no\n",
            ],
        ),
        // This server sends nothing, but it reads, and so sees the end.
        (
            &["--timeout", "0.1", "sh", "-c", "cat >/dev/null; echo bye >&2"],
            "end: closed locally; the child process ended with exit status: 0",
            &["the server failed: no answer in time"],
        ),
        // This server neither sends nor reads anything.
        (
            &["--timeout", "0.1", "sleep", "3600"],
            "end: closed locally; the child process ended with signal: 15 (SIGTERM)",
            &["the server failed: no answer in time"],
        ),
        (
            &["--framing", "ndjson", "sh", "-c", result],
            "the child process ended with exit status: 0",
            &["the server failed: the remote broke the protocol"],
        ),
        (
            &["--framing", "ndjson", "sh", "-c", error],
            "the child process ended with exit status: 0",
            &["the server failed: the remote answered with an error (request 1): no (-32099)"],
        ),
    ];
    for (arguments, end, words) in rows {
        let output = run(arguments);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        let last = stdout.lines().last().unwrap_or_default();
        assert!(last.contains(end), "{arguments:?}: {stdout}");
        for word in words {
            assert!(stderr.contains(word), "{arguments:?}: {stderr}");
        }
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    }
}

#[test]
fn wrong_arguments_print_the_usage() {
    let rows: [&[&str]; 6] = [
        &[],
        &["--"],
        &["--framing"],
        &["--framing", "smoke-signals", "x"],
        &["--timeout", "soon", "x"],
        &["--timeout", "-1", "x"],
    ];
    for arguments in rows {
        let output = run(arguments);
        assert!(text(&output.stderr).starts_with("usage: any_server "), "{arguments:?}");
        assert_eq!((text(&output.stdout), output.status.code()), ("", Some(2)), "{arguments:?}");
    }
}
