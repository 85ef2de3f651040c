//! `trace check`: exit codes and reports.

use serde_json::Value;

use super::support::folder::Folder;
use super::{SESSION, stderr, stdout, trace, write};

#[test]
fn r4_check_exits_with_1_and_names_the_line_of_each_fault() {
    let folder = Folder::new();
    let path = write(&folder, "a.jsonl", SESSION);
    let output = trace(&["check", "--slow", "1s", &path]);
    assert_eq!(output.status.code(), Some(1));
    let said = stdout(&output).replace(&path, "a.jsonl");
    let expected = "\
a.jsonl:8: noise: the server wrote 11 bytes that are not a message: \"debug: here\" (record 7, 7.00 ms)
a.jsonl:10: unknown-method: the server does not know nope (record 9, 9.00 ms)
a.jsonl:11: slow: textDocument/hover (id 2) took 2.00 s (record 10, 2.01 s)
a.jsonl:7: unanswered: request textDocument/definition (id 3) has no answer (record 6, 6.00 ms)
  noise: Print to stderr: stdout carries messages and nothing else.
  unanswered: Answer each request once, even if it fails or is cancelled.
  unknown-method: Check the name of the method, and the capabilities of the other side.
  slow: Look at the messages between the request and its answer.
a.jsonl: 4 faults
";
    assert_eq!(said, expected);
    let allow = ["--allow", "noise", "--allow", "unknown-method", "--allow", "unanswered"];
    let output = trace(&[&["check", &path][..], &allow].concat());
    assert_eq!(
        (output.status.code(), stdout(&output)),
        (Some(0), &*format!("{path}: no faults\n"))
    );
    let output = trace(&["check", "--allow", "everything", &path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("[possible values: noise, framing-mismatch, broken-frame"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn r5_a_protocol_adds_its_rules() {
    let folder = Folder::new();
    let path = write(&folder, "a.jsonl", SESSION);
    for (protocol, expected) in [("lsp", 1), ("mcp", 1)] {
        let output = trace(&["check", "--protocol", protocol, &path]);
        let added = stdout(&output).lines().filter(|line| line.contains(&format!(": {protocol}-")));
        assert_eq!(added.count(), expected, "{}", stdout(&output));
    }
}

#[test]
fn r4_reports_for_programs_have_every_finding() {
    let folder = Folder::new();
    let path = write(&folder, "a<&>.jsonl", SESSION);
    let report = |format: &str, name: &str| {
        let path = if name == "bad" { &path } else { name };
        let output = trace(&["check", "--format", format, path]);
        assert_eq!(output.status.code(), Some(i32::from(name == "bad")));
        stdout(&output).to_owned()
    };
    let clean = write(&folder, "clean.jsonl", "0 > {\"method\":\"a\"}\n");
    let json: Value = serde_json::from_str(&report("json", "bad")).expect("JSON");
    assert_eq!((&json["count"], &json["findings"][0]["line"]), (&3.into(), &8.into()));
    let none: Value = serde_json::from_str(&report("json", &clean)).expect("JSON");
    assert_eq!((&none["count"], &none["findings"]), (&0.into(), &Value::Array(Vec::new())));

    let sarif: Value = serde_json::from_str(&report("sarif", "bad")).expect("JSON");
    let run = &sarif["runs"][0];
    assert_eq!(sarif["version"], "2.1.0");
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    let results = run["results"].as_array().expect("results");
    assert_eq!(results.len(), 3);
    for result in results {
        let index = result["ruleIndex"].as_u64().expect("a number") as usize;
        assert_eq!(result["ruleId"], rules[index]["id"]);
        assert!(result["message"]["text"].is_string() && rules[index]["help"]["text"].is_string());
        let place = &result["locations"][0]["physicalLocation"];
        assert!(place["region"]["startLine"].as_u64().is_some_and(|line| line > 1));
        let uri = place["artifactLocation"]["uri"].as_str().expect("a text");
        assert!(uri.starts_with("file:///") && uri.ends_with("/a%3C%26%3E.jsonl"), "{uri}");
    }
    let none: Value = serde_json::from_str(&report("sarif", &clean)).expect("JSON");
    assert_eq!(none["runs"][0]["results"], Value::Array(Vec::new()));

    let junit = report("junit", "bad");
    assert!(junit.starts_with(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"14\" failures=\"3\""
    ));
    assert!(
        junit.contains("a&lt;&amp;&gt;.jsonl") && junit.contains("&quot;debug: here&quot;"),
        "{junit}"
    );
    let count = |text: &str| junit.matches(text).count();
    assert_eq!((count("<testcase "), count("<failure "), count("</failure>")), (14, 3, 3));
    assert!(report("junit", &clean).contains("failures=\"0\""));
}

#[test]
fn r4_sessions_in_one_file_are_checked_one_by_one() {
    let folder = Folder::new();
    let ask = "0 > {\"id\":1,\"method\":\"a\"}\n";
    let first = String::from_utf8(super::file(ask)).expect("UTF-8");
    let second = first.replace("s-1", "s-2");
    let answer = "{\"seq\":2,\"at\":9,\"dir\":\"s2c\",\"kind\":\"response\",\"msg\":{\"id\":1,\"result\":1}}\n";
    let path = folder.write("two.jsonl", format!("{first}{second}{answer}"));
    let output = trace(&["check", &path]);
    assert!(stdout(&output).ends_with(": no faults\n"), "{}", stdout(&output));
    assert!(stdout(&output).contains(":2: note: request a (id 1) was open when the trace stopped"));
    let ended = first.clone() + "{\"seq\":2,\"at\":9,\"dir\":\"tap\",\"kind\":\"end\"}\n";
    let path = folder.write("ended.jsonl", format!("{ended}{second}{answer}"));
    let output = trace(&["check", &path]);
    assert!(stdout(&output).ends_with(": 1 fault\n"), "{}", stdout(&output));
    // A later part of the same session goes on with it.
    let path = folder.write(
        "parts.jsonl",
        format!("{first}{}\n{answer}", "{\"duet\":1,\"session\":\"s-1\",\"part\":2}"),
    );
    assert_eq!(trace(&["check", &path]).status.code(), Some(0));
}

#[test]
fn r4_three_faults_are_found_among_5000_messages() {
    let folder = Folder::new();
    let mut rows = Vec::new();
    for id in 0..2_500 {
        let at = id * 10;
        rows.push(format!("{at} > {{\"id\":{id},\"method\":\"textDocument/hover\"}}"));
        match id {
            700 => rows.push(format!("{} < noise print", at + 1)),
            // Never answered.
            1_400 => continue,
            _ => {}
        }
        let took = if id == 2_100 { 1_500 } else { 5 };
        rows.push(format!("{} < {{\"id\":{id},\"result\":null}}", at + took));
    }
    // In the order in which they passed.
    rows.sort_by_key(|row| row.split(' ').next().and_then(|at| at.parse::<u64>().ok()));
    let path = write(&folder, "long.jsonl", &rows.join("\n"));
    let output = trace(&["check", "--slow", "1s", &path]);
    let found: Vec<_> = stdout(&output).lines().filter(|line| line.contains("(record ")).collect();
    let expected = [
        "noise: the server wrote 5",
        "slow: textDocument/hover (id 2100)",
        "(id 1400) has no answer",
    ];
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().zip(expected).all(|(line, text)| line.contains(text)), "{found:?}");
    let shown = trace(&["show", "--where", "is:late|unanswered|noise", &path]);
    assert_eq!(stdout(&shown).lines().count(), 5, "{}", stdout(&shown));
}

#[test]
fn r3_commands_that_judge_say_that_a_trace_has_no_end() {
    let folder = Folder::new();
    let cut = write(&folder, "cut.jsonl", "0 > {\"id\":1,\"method\":\"a\"}\n");
    let whole = write(&folder, "whole.jsonl", "0 > {\"method\":\"a\"}\n1 . end\n");
    for command in ["check", "stats", "show"] {
        let output = trace(&[command, &cut]);
        assert_eq!(output.status.code(), Some(0), "{command}");
        assert!(stderr(&output).contains("cut.jsonl has no end: "), "{}", stderr(&output));
        assert_eq!(stderr(&trace(&[command, &whole])), "", "{command}");
    }
    let output = trace(&["check", "--format", "json", &cut]);
    let report: Value = serde_json::from_str(stdout(&output)).expect("JSON");
    assert_eq!((&report["count"], &report["pending"][0]["seq"]), (&0.into(), &1.into()));
}

#[test]
fn r3_any_part_of_a_rotated_trace_stands_for_all_of_them() {
    let folder = Folder::new();
    let header = |part: u32| format!("{{\"duet\":1,\"session\":\"s\",\"part\":{part}}}\n");
    let ask = |id: u64| {
        format!(
            "{{\"seq\":{id},\"at\":{id},\"dir\":\"c2s\",\"kind\":\"request\",\"msg\":{{\"id\":{id},\"method\":\"m\"}}}}\n"
        )
    };
    let answer = |id: u64| {
        format!(
            "{{\"seq\":{0},\"at\":{0},\"dir\":\"s2c\",\"kind\":\"response\",\"msg\":{{\"id\":{id},\"result\":1}}}}\n",
            id + 10
        )
    };
    let end = "{\"seq\":99,\"at\":99,\"dir\":\"tap\",\"kind\":\"end\"}\n";
    let first = folder.write("rot.jsonl", header(1) + &ask(1));
    let second = folder.write("rot.2.jsonl", header(2) + &answer(1) + &ask(2));
    let third = folder.write("rot.3.jsonl", header(3) + &answer(2) + end);
    for path in [&first, &second, &third] {
        let output = trace(&["check", path]);
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{}", stdout(&output));
        assert!(stdout(&trace(&["stats", path])).contains("4 messages"), "{path}");
    }
    // Without the first part, the requests in it are unknown.
    std::fs::remove_file(first).expect("it is there");
    let output = trace(&["check", "--protocol", "lsp", &third]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(stderr(&output).contains("part 1 of the trace is missing"), "{}", stderr(&output));
    // A file with such a name of its own.
    let own = folder.write("rot.4.jsonl", header(1).replace("\"s\"", "\"t\"") + end);
    assert!(stdout(&trace(&["stats", &own])).contains("0 messages"));
}

#[test]
fn r4_advice_of_check_is_a_command_that_works() {
    let folder = Folder::new();
    let path = write(&folder, "it's.jsonl", "0 ! last words\n1 . exit code=3\n2 . end\n");
    let output = trace(&["check", &path]);
    let (_, command) = stdout(&output).split_once("stderr: duet-rpc ").expect("an advice");
    let command = command.lines().next().expect("a line");
    let script = format!("'{}' {command}", env!("CARGO_BIN_EXE_duet-rpc"));
    let output = std::process::Command::new("sh").args(["-c", &script]).output().expect("a shell");
    assert!(stdout(&output).contains("last words"), "{command}: {}", stderr(&output));
}

#[test]
fn r4_faults_of_the_tap_are_notes_and_do_not_fail() {
    let folder = Folder::new();
    let head = super::file("0 > {\"id\":1,\"method\":\"a\"}\n");
    let rest = r#"{"seq":2,"at":9,"dir":"s2c","kind":"fault","id":1,"method":"a","why":"drop dir:s2c","size":9}
{"seq":3,"at":10,"dir":"s2c","kind":"eof"}
{"seq":4,"at":11,"dir":"tap","kind":"end"}
"#;
    let path = folder.write("a.jsonl", [&head, rest.as_bytes()].concat());
    let output = trace(&["check", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    let expected = format!(
        "{path}:2: note: request a (id 1) has no answer (made by the tap, record 1, 0 µs)\n  the tap made 1 fault on purpose: see `--where kind:fault`\n{path}: no faults\n"
    );
    assert_eq!(stdout(&output), expected);
    let report = |format: &str| {
        let output = trace(&["check", "--format", format, &path]);
        assert_eq!(output.status.code(), Some(0), "{format}");
        stdout(&output).to_owned()
    };
    let json: Value = serde_json::from_str(&report("json")).expect("JSON");
    assert_eq!((&json["made"], &json["explained"][0]["rule"]), (&1.into(), &"unanswered".into()));
    assert_eq!((&json["count"], &json["findings"]), (&0.into(), &Value::Array(Vec::new())));
    let sarif: Value = serde_json::from_str(&report("sarif")).expect("JSON");
    assert_eq!(sarif["runs"][0]["results"][0]["level"], "note");
    assert!(report("junit").contains("failures=\"0\""));
}

#[test]
fn r4_several_traces_and_folders_are_checked_together() {
    let folder = Folder::new();
    let bad = write(&folder, "bad.jsonl", SESSION);
    let good = write(&folder, "good.jsonl", "0 > {\"method\":\"a\"}\n1 . end\n");
    // A second part is not a trace of its own.
    let part = "{\"duet\":1,\"session\":\"s-1\",\"part\":2}\n";
    let second = folder.write(
        "good.2.jsonl",
        part.to_owned() + "{\"seq\":9,\"at\":9,\"dir\":\"tap\",\"kind\":\"end\"}\n",
    );
    folder.write("notes.txt", "not a trace\n");
    for words in [&["check", &folder.text("")][..], &["check", &bad, &second, &good]] {
        let output = trace(words);
        assert_eq!(output.status.code(), Some(1));
        assert!(stdout(&output).contains(&format!("\n{bad}: 3 faults\n")), "{}", stdout(&output));
        let end = format!("\n{good}: no faults\n2 traces, 1 with faults\n");
        assert!(stdout(&output).ends_with(&end), "{}", stdout(&output));
    }
    let report = |format: &str| trace(&["check", "--format", format, &bad, &good]);
    let output = report("json");
    let counts: Vec<Value> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["count"].clone())
        .collect();
    assert_eq!(counts, [3, 0]);
    let output = report("junit");
    assert!(stdout(&output).contains("<testsuites tests=\"28\" failures=\"3\""));
    assert_eq!(stdout(&output).matches("<testsuite name=").count(), 2);
    let sarif: Value = serde_json::from_str(stdout(&report("sarif"))).expect("JSON");
    assert_eq!(sarif["runs"][0]["results"].as_array().map(Vec::len), Some(3));
    // A file that is not a trace fails, and the others are checked.
    let text = folder.write("text.jsonl", "hello\n");
    let output = trace(&["check", &text, &good]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("text.jsonl is not a trace"), "{}", stderr(&output));
    assert_eq!(stdout(&output), format!("{good}: no faults\n1 trace, 0 with faults\n"));
}
