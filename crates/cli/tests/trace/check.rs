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
a.jsonl:8: noise: the server wrote 11 bytes that are not a message: \"debug: here\" (record 7, 7.0 ms)
a.jsonl:10: unknown-method: the server does not know nope (record 9, 9.0 ms)
a.jsonl:11: slow: textDocument/hover (id 2) took 2.00 s (record 10, 2.00 s)
a.jsonl:7: unanswered: request textDocument/definition (id 3) has no answer (record 6, 6.0 ms)
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
        stderr(&output).contains("[possible values: noise, broken-frame"),
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
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"13\" failures=\"3\""
    ));
    assert!(
        junit.contains("a&lt;&amp;&gt;.jsonl") && junit.contains("&quot;debug: here&quot;"),
        "{junit}"
    );
    let count = |text: &str| junit.matches(text).count();
    assert_eq!((count("<testcase "), count("<failure "), count("</failure>")), (13, 3, 3));
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
