//! `Checker` finds each fault in a trace that has it, and nothing in clean traces.

mod support;

use duet_rpc_trace::{CheckOptions, Checker, Protocol, Rule};
use support::records;

/// A session with a language server, after one with clangd.
const LSP: &str = r#"
    0 > {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"processId":1,"workDoneToken":"i"}}
    2 ! I[10:00:00] Starting LSP over stdin/stdout
    3 < {"jsonrpc":"2.0","method":"window/logMessage","params":{"type":3,"message":"hello"}}
    4 < {"jsonrpc":"2.0","method":"$/progress","params":{"token":"i","value":{"kind":"begin"}}}
    9 < {"jsonrpc":"2.0","id":0,"result":{"capabilities":{}}}
    10 > {"jsonrpc":"2.0","method":"initialized","params":{}}
    11 < {"jsonrpc":"2.0","id":0,"method":"window/workDoneProgress/create","params":{"token":"t"}}
    12 > {"jsonrpc":"2.0","id":0,"result":null}
    13 > {"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///a.c"}}}
    14 > {"jsonrpc":"2.0","id":1,"method":"textDocument/hover","params":{}}
    15 > {"jsonrpc":"2.0","id":2,"method":"textDocument/completion","params":{}}
    16 > {"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":2}}
    20 < {"jsonrpc":"2.0","method":"textDocument/publishDiagnostics","params":{}}
    90 < {"jsonrpc":"2.0","id":1,"result":null}
    900 < {"jsonrpc":"2.0","id":2,"error":{"code":-32800,"message":"cancelled"}}
    901 > {"jsonrpc":"2.0","id":3,"method":"$/unknown"}
    902 < {"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"method not found"}}
    910 > {"jsonrpc":"2.0","id":4,"method":"shutdown"}
    911 < {"jsonrpc":"2.0","id":4,"result":null}
    912 > {"jsonrpc":"2.0","method":"exit"}
    913 > eof
    914 < eof
    950 . exit code=0
    951 . end
"#;

/// A session with an MCP server, after one with server-everything.
const MCP: &str = r#"
    0 > {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}
    1 ! Starting default (STDIO) server...
    5 < {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}
    6 > {"jsonrpc":"2.0","method":"notifications/initialized"}
    7 > {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}
    8 < {"jsonrpc":"2.0","id":0,"method":"roots/list"}
    9 > {"jsonrpc":"2.0","id":0,"result":{"roots":[]}}
    10 < {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}
    11 > {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":2}}}
    12 < {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}
    13 > {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}
    14 > {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"b"}}
    20 < {"jsonrpc":"2.0","id":3,"result":{"content":[]}}
    30 > eof
    40 . signal signal=15
    41 < eof
    42 . exit signal=15
    43 . end
"#;

fn names(script: &str, protocol: Option<Protocol>, slow: Option<u64>) -> Vec<&'static str> {
    let mut options = CheckOptions::default();
    (options.protocol, options.slow) = (protocol, slow);
    let mut checker = Checker::new(options);
    for (number, record) in records(script).iter().enumerate() {
        checker.handle(record, number as u64 + 2);
    }
    let found = checker.finish();
    for finding in &found {
        assert!(finding.line == finding.seq + 1 && !finding.text.is_empty(), "{finding:?}");
    }
    found.into_iter().map(|finding| finding.rule.name()).collect()
}

#[test]
fn r4_clean_sessions_have_no_findings() {
    assert_eq!(names(LSP, None, Some(1_000_000)), [""; 0]);
    assert_eq!(names(LSP, Some(Protocol::Lsp), Some(1_000_000)), [""; 0]);
    assert_eq!(names(MCP, None, Some(1_000_000)), [""; 0]);
    assert_eq!(names(MCP, Some(Protocol::Mcp), Some(1_000_000)), [""; 0]);
}

#[test]
fn r4_each_fault_is_found_once() {
    let ask = r#"{"jsonrpc":"2.0","id":7,"method":"a"}"#;
    let answer = r#"{"jsonrpc":"2.0","id":7,"result":1}"#;
    let rows = [
        ("noise", "0 < noise hello\n".to_owned()),
        ("noise", "0 > noise hello\n".to_owned()),
        ("broken-frame", "0 < broken {\"a\"\n".to_owned()),
        ("invalid-message", "0 < invalid 17\n".to_owned()),
        ("unanswered", format!("0 > {ask}\n1 < eof\n")),
        ("unanswered", format!("0 < {ask}\n")),
        (
            "unanswered",
            format!("0 > {ask}\n1 > {{\"method\":\"$/cancelRequest\",\"params\":{{\"id\":7}}}}"),
        ),
        ("answered-twice", format!("0 > {ask}\n1 < {answer}\n2 < {answer}\n")),
        ("answer-to-nothing", format!("0 < {answer}\n")),
        ("answer-to-nothing", format!("0 > {answer}\n")),
        ("answer-to-nothing", "0 < {\"id\":null,\"error\":{\"code\":-32700}}\n".to_owned()),
        (
            "answer-after-cancel",
            format!(
                "0 > {ask}\n1 > {{\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":7}}}}\n102 < {answer}\n"
            ),
        ),
        (
            "unknown-method",
            format!(
                "0 > {ask}\n1 < {{\"id\":7,\"error\":{{\"code\":-32601,\"message\":\"no\"}}}}\n"
            ),
        ),
        ("slow", format!("0 > {ask}\n201 < {answer}\n")),
        ("id-in-use", format!("0 > {ask}\n0 > {ask}\n1 < {answer}\n2 < {answer}\n")),
        ("after-eof", format!("0 > {ask}\n1 < {answer}\n2 > eof\n3 > {{\"method\":\"b\"}}\n")),
        ("after-eof", format!("0 > eof\n1 < {ask}\n")),
        ("exit-code", "0 . exit code=3\n".to_owned()),
        ("exit-code", "0 . exit signal=11\n".to_owned()),
        ("late-exit", "0 > eof\n2001 . exit code=0\n".to_owned()),
        ("left-behind", "0 . exit code=0 left=2\n".to_owned()),
    ];
    for (rule, script) in rows {
        assert_eq!(names(&script, None, Some(200_000)), [rule], "{script}");
    }
}

#[test]
fn r4_traffic_that_only_looks_like_a_fault_is_not_reported() {
    let ask = r#"{"jsonrpc":"2.0","id":7,"method":"a"}"#;
    let answer = r#"{"jsonrpc":"2.0","id":7,"result":1}"#;
    for script in [
        // The same id in both directions, and again after its answer.
        format!("0 > {ask}\n0 < {ask}\n1 < {answer}\n1 > {answer}\n2 > {ask}\n3 < {answer}\n"),
        // The answer and the cancellation crossed.
        format!(
            "0 > {ask}\n1 > {{\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":7}}}}\n90 < {answer}\n"
        ),
        // Cancelled without an answer, as MCP wants it.
        format!(
            "0 > {ask}\n1 > {{\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":7}}}}\n"
        ),
        // Cancelled and answered late, as LSP wants it.
        format!(
            "0 > {ask}\n1 > {{\"method\":\"$/cancelRequest\",\"params\":{{\"id\":7}}}}\n9 < {answer}\n"
        ),
        // Answers after the end of the client's stream.
        format!("0 > {ask}\n1 > eof\n2 < {answer}\n"),
        // Messages were lost.
        format!("0 > {ask}\n1 < loss\n2 < {answer}\n3 < {answer}\n"),
        // The tap passed the signal on.
        "0 . signal signal=2\n1 . exit signal=2\n".to_owned(),
        "0 > eof\n2000 . exit code=0 left=0\n".to_owned(),
        "0 ! error: all is lost\n".to_owned(),
        String::new(),
    ] {
        assert_eq!(names(&script, None, Some(200_000)), [""; 0], "{script}");
    }
    // The answer to a message that nobody understood.
    let script = "0 > broken x\n1 < {\"id\":null,\"error\":{\"code\":-32700}}\n";
    assert_eq!(names(script, None, None), ["broken-frame"]);
}

/// Replaces a line of a script; an empty replacement removes it.
fn edit(script: &str, edits: &[(&str, &str)]) -> String {
    let mut text = script.to_owned();
    for (line, by) in edits {
        let whole = text.lines().find(|it| it.contains(line)).unwrap_or_else(|| panic!("{line}"));
        text = text.replacen(&whole.to_owned(), by, 1);
    }
    text
}

#[test]
fn r5_each_fault_of_lsp_is_found_once() {
    let open = r#"13 > {"jsonrpc":"2.0","method":"textDocument/didOpen","params":{}}"#;
    let hover = r#"{"jsonrpc":"2.0","id":9,"method":"textDocument/hover"}"#;
    let rows: [(&str, &[(&str, &str)]); 12] = [
        ("lsp-initialize-first", &[("0 > {", open)]),
        (
            "lsp-initialize-twice",
            &[(
                "didOpen",
                &format!(
                    "13 > {}\n13 < {}",
                    r#"{"jsonrpc":"2.0","id":8,"method":"initialize"}"#, r#"{"id":8,"result":1}"#
                ),
            )],
        ),
        ("lsp-initialize-twice", &[("didOpen", "13 > {\"method\":\"initialized\"}")]),
        ("lsp-before-initialized", &[("2 ! ", open)]),
        ("lsp-before-initialized", &[("\"initialized\"", "")]),
        (
            "lsp-before-initialized",
            &[("2 ! ", "2 < {\"method\":\"textDocument/publishDiagnostics\"}")],
        ),
        (
            "lsp-after-shutdown",
            &[(
                "911 < ",
                &format!(
                    "911 < {}\n911 > {hover}\n911 < {}",
                    r#"{"id":4,"result":null}"#, r#"{"id":9,"result":null}"#
                ),
            )],
        ),
        ("lsp-after-shutdown", &[("\"exit\"", &format!("912 > {{\"method\":\"exit\"}}\n{open}"))]),
        ("lsp-no-shutdown", &[("\"shutdown\"", ""), ("911 <", "")]),
        ("lsp-no-shutdown", &[("\"exit\"", "")]),
        ("lsp-no-shutdown", &[("\"shutdown\"", ""), ("911 <", ""), ("\"exit\"", "")]),
        (
            "lsp-no-shutdown",
            &[("\"shutdown\"", ""), ("911 <", ""), ("code=0", "950 . exit code=1")],
        ),
    ];
    for (rule, edits) in rows {
        let script = edit(LSP, edits);
        let mut found = names(&script, Some(Protocol::Lsp), None);
        // Without `initialize`, its answer answers nothing.
        found.retain(|name| *name != "answer-to-nothing" || rule != "lsp-initialize-first");
        assert_eq!(found, [rule], "{script}");
    }
}

#[test]
fn r5_each_fault_of_mcp_is_found_once() {
    let call = |id: u32| format!("{{\"id\":{id},\"method\":\"tools/list\"}}");
    let result = |id: u32| format!("{{\"id\":{id},\"result\":{{}}}}");
    let rows: [(&str, &[(&str, &str)]); 9] = [
        ("mcp-initialize-first", &[("0 > {", &format!("0 > {}\n1 < {}", call(8), result(8)))]),
        (
            "mcp-initialize-twice",
            &[
                (
                    "7 > ",
                    &format!("7 > {}\n8 < {}", r#"{"id":8,"method":"initialize"}"#, result(8)),
                ),
                ("10 < ", ""),
            ],
        ),
        ("mcp-before-initialized", &[("1 ! ", &format!("1 > {}\n2 < {}", call(8), result(8)))]),
        ("mcp-before-initialized", &[("notifications/initialized", "")]),
        (
            "mcp-before-initialized",
            &[("1 ! ", "1 < {\"method\":\"notifications/tools/list_changed\"}")],
        ),
        (
            "mcp-id-reused",
            &[("14 > ", &format!("14 > {}", call(1))), ("20 < ", &format!("20 < {}", result(1)))],
        ),
        (
            "mcp-id-reused",
            &[
                ("14 > ", "14 > {\"id\":null,\"method\":\"a\"}"),
                ("20 < ", "20 < {\"id\":null,\"result\":1}"),
            ],
        ),
        ("mcp-batch", &[("20 < ", &format!("20 < [{}]", result(3)))]),
        (
            "mcp-initialize-cancelled",
            &[(
                "1 ! ",
                "1 > {\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":0}}",
            )],
        ),
    ];
    for (rule, edits) in rows {
        let script = edit(MCP, edits);
        let mut found = names(&script, Some(Protocol::Mcp), None);
        found.retain(|name| *name != "answer-to-nothing" || rule != "mcp-initialize-first");
        assert_eq!(found, [rule], "{script}");
    }
    let discover = edit(
        MCP,
        &[
            ("0 > {", "0 > {\"id\":0,\"method\":\"server/discover\"}"),
            ("notifications/initialized", ""),
        ],
    );
    assert_eq!(names(&discover, Some(Protocol::Mcp), None), [""; 0]);
}

#[test]
fn r4_allowed_rules_are_not_reported_and_names_are_unique() {
    let mut options = CheckOptions::default();
    options.allow = vec![Rule::Noise];
    let mut checker = Checker::new(options);
    for record in records("0 < noise x\n1 . exit code=1\n") {
        checker.handle(&record, 0);
    }
    assert_eq!(checker.take_findings().len(), 1);
    assert_eq!(checker.finish(), []);
    for rule in Rule::ALL {
        assert_eq!(Rule::from_name(rule.name()), Some(rule));
        assert!(rule.summary().ends_with('.') && !rule.advice().is_empty());
    }
}
