//! `trace show`, `trace stats` and `trace redact`.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};

use super::support::folder::Folder;
use super::{SESSION, file, stderr, stdout, trace, trace_of, write};

#[test]
fn r10_the_timeline_has_pairs_latencies_and_states() {
    let folder = Folder::new();
    let path = write(&folder, "a.jsonl", SESSION);
    let output = trace(&["show", &path]);
    let expected = "\
# s-1  /usr/bin/server --stdio  2026-01-02T03:04:05.000000Z
    1    0.000000  → initialize                     1                     71 B  {\"processId\":7}
    2    0.001000  ! stderr                                                8 B  starting
    3    0.003000  ← initialize                     1        3.00 ms      53 B  {\"capabilities\":{}}
    4    0.004000  → initialized                                          52 B  {}
    5    0.005000  → textDocument/hover             2                     74 B  [late] {\"line\":1}
    6    0.006000  → textDocument/definition        3                     59 B  [unanswered]
    7    0.007000  ← noise                                                11 B  debug: here
    8    0.008000  → nope                           4                     40 B
    9    0.009000  ← nope                           4        1.00 ms      77 B  error -32601 Method not found
   10    2.005000  ← textDocument/hover             2         2.00 s      38 B  [late] null
   11    2.006000  → eof
   12    2.007000  ← eof
   13    2.008000  · exit                                                       code 0
";
    assert_eq!(stdout(&output), expected);
    let full = trace(&["show", "--full", "--where", "seq:1", &path]);
    let body = "        {\n          \"jsonrpc\": \"2.0\",\n          \"id\": 1,\n";
    assert!(stdout(&full).contains(body), "{}", stdout(&full));
}

/// The `seq` of the records that are shown.
fn seqs(words: &[&str], input: &[u8]) -> Vec<u64> {
    let output = trace_of(words, input);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let lines = stdout(&output).lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
}

#[test]
fn r1_where_chooses_records() {
    let folder = Folder::new();
    let path = write(&folder, "a.jsonl", SESSION);
    for (filter, expected) in [
        ("took:>1s", &[5, 10][..]),
        ("is:late", &[5, 10]),
        ("is:unanswered", &[6]),
        ("is:failed", &[8, 9]),
        ("is:noise | dir:err", &[2, 7]),
        ("method:textDocument/* -kind:response", &[5, 6]),
        ("method:nope", &[8, 9]),
        ("kind:error", &[9]),
        ("id:2|3 dir:c2s", &[5, 6]),
        ("\"method not\"", &[9]),
    ] {
        assert_eq!(seqs(&["show", &path, "--where", filter], b""), expected, "{filter}");
    }
    assert_eq!(seqs(&["show", &path, "--where", "is:late", "--slow", "3s"], b""), [0; 0]);
    // From stdin, a request is shown before its end is known.
    assert_eq!(seqs(&["show", "-", "--where", "took:>1s"], &file(SESSION)), [10]);
}

#[test]
fn r10_json_output_is_a_trace() {
    let folder = Folder::new();
    let path = write(&folder, "a.jsonl", SESSION);
    let output = trace(&["show", "--json", "--where", "-dir:err", &path]);
    let part = folder.write("b.jsonl", &output.stdout);
    assert_eq!(stdout(&output).lines().count(), 13, "{}", stdout(&output));
    let answer = stdout(&output).lines().find(|line| line.contains("\"seq\":3,")).expect("it");
    assert!(answer.contains("\"took\":3000"), "{answer}");
    let again = trace(&["show", "--json", &part]);
    assert_eq!(stdout(&again), stdout(&output));
}

#[test]
fn r10_text_of_a_trace_cannot_control_the_terminal() {
    let folder = Folder::new();
    let script = "0 > {\"id\":\"\\u001b[2J\",\"method\":\"\\u001b[31m\\u009b\\u202e\",\"params\":[\"\\n\"]}\n\
        1 < {\"id\":\"\\u001b[2J\",\"error\":{\"code\":1,\"message\":\"\\u001b]0;x\\u0007\"}}\n\
        2 < noise \u{1b}[2J\u{9b}1m\u{202e}\n3 ! \u{1b}c\n4 < broken \u{7}\n";
    let path = write(&folder, "a.jsonl", script);
    let bad =
        |text: &str| text.chars().any(|it| it != '\n' && (it.is_control() || it == '\u{202e}'));
    for words in [
        &["show"][..],
        &["show", "--full"],
        &["stats"],
        &["check"],
        &["convert", "--to", "mermaid"],
        &["check", "--format", "junit"],
        &["check", "--format", "sarif"],
    ] {
        let words: Vec<_> = words.iter().copied().chain([path.as_str()]).collect();
        let output = trace(&words);
        assert!(!bad(stdout(&output)) && !bad(stderr(&output)), "{words:?}: {:?}", stdout(&output));
    }
}

#[test]
fn r10_follow_prints_records_as_they_come() {
    let folder = Folder::new();
    let whole = file(&format!("{SESSION}2009 . end\n"));
    let (head, tail) = whole.split_at(whole.len() - 300);
    let path = folder.write("a.jsonl", head);
    let mut process = Command::new(env!("CARGO_BIN_EXE_duet-rpc"))
        .args(["trace", "show", "-f", &path])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    assert!(lines.next().expect("a line").expect("a text").starts_with("# s-1"));
    assert!(lines.next().expect("a line").expect("a text").contains("initialize"));
    let mut file = OpenOptions::new().append(true).open(&path).expect("the file is there");
    file.write_all(tail).expect("it can be written");
    let last = lines.map(|line| line.expect("a text")).last().expect("a line");
    assert!(last.contains("· end"), "{last}");
    assert!(process.wait().expect("it ends").success());
}

#[test]
fn r10_stats_has_a_row_for_each_method() {
    let folder = Folder::new();
    let path = write(&folder, "a.jsonl", SESSION);
    let expected = "\
method                   dir  count  errors  open      p50      p95      p99      max  bytes
initialize               c2s      1                3.00 ms  3.00 ms  3.00 ms  3.00 ms  124 B
initialized              c2s      1                                                     52 B
nope                     c2s      1       1        1.00 ms  1.00 ms  1.00 ms  1.00 ms  117 B
textDocument/definition  c2s      1             1                                       59 B
textDocument/hover       c2s      1                 2.00 s   2.00 s   2.00 s   2.00 s  112 B

8 messages in 2.01 s, 1 record of stray or broken bytes

slowest  method              id  request   answer
 2.00 s  textDocument/hover  2   record 5  record 10
3.00 ms  initialize          1   record 1  record 3
1.00 ms  nope                4   record 8  record 9
";
    assert_eq!(stdout(&trace(&["stats", &path])), expected);
    let json = trace(&["stats", "--json", "--where", "is:late", &path]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let hover = &json["methods"][0];
    assert_eq!(
        (&hover["method"], &hover["max"]),
        (&"textDocument/hover".into(), &2_000_000.into())
    );
    assert_eq!(json["methods"].as_array().map(Vec::len), Some(1));
    let slowest = serde_json::json!([{"took": 2_000_000, "method": "textDocument/hover", "id": "2", "request": 5, "answer": 10}]);
    assert_eq!(json["slowest"], slowest);
}

#[test]
fn r10_stats_names_the_records_of_the_five_slowest_requests() {
    let folder = Folder::new();
    // Each answer comes at once after its request, but for the times here, in milliseconds.
    let times = [3, 9, 1, 7, 9, 2, 8, 400, 1];
    let mut at = 0;
    let rows = times.iter().enumerate().map(|(id, took)| {
        at += took;
        format!(
            "{} > {{\"id\":{id},\"method\":\"search\"}}\n{at} < {{\"id\":{id},\"result\":0}}\n",
            at - took
        )
    });
    let path = write(&folder, "a.jsonl", &rows.collect::<String>());
    let output = trace(&["stats", &path]);
    let (_, slowest) = stdout(&output).split_once("slowest ").expect("a table");
    let ids: Vec<_> = slowest.lines().skip(1).map(|line| &line[17..18]).collect();
    assert_eq!(ids, ["7", "1", "4", "6", "3"], "{slowest}");
    let none = write(&folder, "b.jsonl", "0 > {\"method\":\"a\"}\n");
    assert!(!stdout(&trace(&["stats", &none])).contains("slowest"));
}

#[test]
fn r9_redact_writes_a_trace_without_the_values() {
    let folder = Folder::new();
    let script = "0 > {\"id\":1,\"method\":\"login\",\"params\":{\"password\":\"hunter2\",\"n\":1.0}}\n\
        1 ! password hunter2\n2 < {\"id\":1,\"result\":null}\n";
    let path = write(&folder, "a.jsonl", script);
    let output = trace(&["redact", "--redact", "password", "--redact-value", "hunter[0-9]", &path]);
    assert_eq!(output.status.code(), Some(0));
    assert!(!stdout(&output).contains("hunter2"), "{}", stdout(&output));
    assert!(stdout(&output).contains(r#""params":{"password":"[redacted]","n":1.0}"#));
    assert!(stdout(&output).starts_with(r#"{"duet":1,"#), "{}", stdout(&output));
    assert!(stdout(&output).contains(r#""redact":["password","value"]"#));
    assert_eq!(stderr(&output), "duet-rpc: values were replaced in 2 records\n");
    let bad = trace(&["redact", "--redact-value", "(", &path]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(stderr(&bad).starts_with("duet-rpc: cannot redact: "), "{}", stderr(&bad));
    assert_eq!(trace(&["redact", &path]).status.code(), Some(2), "no rule");
}
