//! `Checker` finds each fault in a trace that has it, and nothing in clean traces.

mod support;

use duet_rpc_trace::{CheckOptions, Checker, Dir, Kind, Protocol, Record, Rule};
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
        ("unanswered", format!("0 < {ask}\n1 . end\n")),
        (
            "unanswered",
            format!(
                "0 > {ask}\n1 > {{\"method\":\"$/cancelRequest\",\"params\":{{\"id\":7}}}}\n2 . end\n"
            ),
        ),
        // The trace has no end, but the answer is missing for too long.
        ("unanswered", format!("0 > {ask}\n1001 > {{\"method\":\"b\"}}\n")),
        ("framing-mismatch", "0 < noise Content-Length: 75\n".to_owned()),
        ("framing-mismatch", format!("0 < noise {answer}\n")),
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
        // The tap was killed, so the answer may be missing only from the trace.
        format!("0 > {ask}\n1000 > {{\"method\":\"b\"}}\n"),
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

#[test]
fn r4_requests_at_the_end_of_a_cut_trace_are_pending_and_not_faults() {
    let ask = |at: u64, id: u64| format!("{at} > {{\"id\":{id},\"method\":\"m\"}}\n");
    let script = [ask(0, 1), ask(500, 2), ask(1_200, 3)].concat();
    for (end, pending, faults) in [("", 2, 1), ("1300 . end\n", 0, 3), ("1300 < eof\n", 0, 3)] {
        let mut checker = Checker::new(CheckOptions::default());
        for (number, record) in records(&format!("{script}{end}")).iter().enumerate() {
            checker.handle(record, number as u64 + 2);
        }
        let open = checker.pending();
        assert_eq!((open.len(), checker.finish().len()), (pending, faults), "{end}");
        let text = |seq: u64| format!("request m (id {seq}) was open when the trace stopped");
        assert!(open.iter().all(|it| it.line == it.seq + 1 && it.text == text(it.seq)), "{open:?}");
    }
}

#[test]
fn r4_after_a_gap_answers_without_a_request_are_not_faults() {
    let mut options = CheckOptions::default();
    options.protocol = Some(Protocol::Lsp);
    let mut checker = Checker::new(options);
    checker.handle_gap();
    for record in records("0 < {\"id\":7,\"result\":1}\n1 > {\"method\":\"b\"}\n2 . end\n") {
        checker.handle(&record, 2);
    }
    assert_eq!(checker.finish(), []);
}

/// A record of a fault that a rule made in a message.
fn fault(at: u64, dir: Dir, rule: &'static str, id: Option<&'static str>) -> Record<'static> {
    let mut record = Record::new(0, at * 1_000, dir, Kind::Fault);
    record.why = Some(rule.into());
    record.id = id.map(Into::into);
    record
}

/// The findings of a script with a fault before its record `place`: their names, `+` before those that the fault explains.
fn with_fault(script: &str, place: usize, fault: Record<'static>) -> Vec<String> {
    let mut options = CheckOptions::default();
    options.slow = Some(200_000);
    let mut checker = Checker::new(options);
    let mut all = records(script);
    all.insert(place, fault);
    for (number, record) in all.iter_mut().enumerate() {
        record.seq = number as u64 + 1;
        checker.handle(record, record.seq + 1);
    }
    let name = |it: duet_rpc_trace::Finding| {
        format!("{}{}", if it.is_made { "+" } else { "" }, it.rule.name())
    };
    checker.finish().into_iter().map(name).collect()
}

#[test]
fn r4_faults_that_the_tap_made_are_not_blamed_on_the_programs() {
    use Dir::{C2s, S2c};
    let ask = r#"{"jsonrpc":"2.0","id":7,"method":"a"}"#;
    let answer = r#"{"jsonrpc":"2.0","id":7,"result":1}"#;
    let other = ask.replace('7', "8");
    let unknown = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no"}}"#;
    let lost = format!("0 > {ask}\n5 > {other}\n9 < eof\n");
    let noisy = format!("0 > {ask}\n2 < noise a\n3 < {answer}\n4 < noise b\n5 . end\n");
    let broken = format!("0 > {ask}\n0 > {other}\n2 < broken a\n2 < noise b\n9 < eof\n");
    let killed = format!("0 > {ask}\n1 < eof\n2 . exit signal=9\n");
    let crashed = format!("0 > {ask}\n1 < {answer}\n2 . exit code=3\n");
    let twice = format!("0 > {ask}\n1 < {answer}\n2 < {answer}\n3 . end\n");
    let late =
        format!("0 > {ask}\n0 > {other}\n400 < {answer}\n400 < {}\n", answer.replace('7', "8"));
    let wrong_id = format!("0 > {ask}\n1 < {}\n2 . end\n", answer.replace('7', "70"));
    let refused = format!("0 > {ask}\n1 < {unknown}\n2 . end\n");
    for (script, place, (at, dir, rule, id), expected) in [
        (&lost, 1, (1, S2c, "drop dir:s2c nth:2", Some("7")), &["+unanswered", "unanswered"][..]),
        (&lost, 1, (1, S2c, "drop dir:s2c nth:2", Some("9")), &["unanswered", "unanswered"]),
        (&lost, 1, (1, C2s, "kill", None), &["+unanswered", "+unanswered"]),
        (&lost, 1, (1, S2c, "delay=1s", Some("9")), &["+unanswered", "unanswered"]),
        (&noisy, 1, (1, S2c, "corrupt=print dir:s2c", Some("7")), &["+noise", "noise"]),
        (&noisy, 1, (1, C2s, "corrupt=print dir:c2s", Some("7")), &["noise", "noise"]),
        (
            &broken,
            2,
            (1, S2c, "corrupt=truncate", Some("7")),
            &["+broken-frame", "+noise", "+unanswered", "+unanswered"],
        ),
        (&killed, 1, (1, S2c, "kill nth:1", Some("7")), &["+exit-code", "+unanswered"]),
        (&killed, 1, (1, S2c, "half-close nth:1", Some("7")), &["+exit-code", "+unanswered"]),
        (&crashed, 1, (1, S2c, "dup nth:1", Some("7")), &["exit-code"]),
        (&twice, 1, (1, S2c, "dup nth:1", Some("7")), &["+answered-twice"]),
        (&late, 2, (1, S2c, "stall=1s nth:1", Some("7")), &["+slow", "+slow"]),
        (&late, 2, (1, S2c, "drop nth:1", Some("9")), &["slow", "slow"]),
        (&wrong_id, 1, (1, S2c, "corrupt=id", Some("7")), &["+answer-to-nothing", "+unanswered"]),
        (&refused, 1, (1, S2c, "error=-32601:no", Some("7")), &["+unknown-method"]),
        (&refused, 1, (1, S2c, "[redacted]", Some("7")), &["+unknown-method"]),
    ] {
        let found = with_fault(script, place, fault(at, dir, rule, id));
        assert_eq!(found, expected, "{rule}: {script}");
    }
}
