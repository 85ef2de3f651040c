//! `trace diff`.

use serde_json::Value;

use super::support::folder::Folder;
use super::{SESSION, file, stderr, stdout, trace, trace_of, write};

#[test]
fn r6_diff_exits_with_1_and_shows_each_change() {
    let folder = Folder::new();
    let first = write(&folder, "a.jsonl", SESSION);
    let changed = SESSION
        .replace("\"processId\":7", "\"processId\":8")
        .replace("    4 > {\"jsonrpc\":\"2.0\",\"method\":\"initialized\",\"params\":{}}\n", "")
        .replace("\"method\":\"nope\"", "\"method\":\"new\"");
    let second = write(&folder, "b.jsonl", &changed);
    let output = trace(&["diff", &first, &second]);
    assert_eq!(output.status.code(), Some(1));
    let expected = "\
changed c2s initialize (record 1)
        /params/processId: 7 → 8
missing c2s initialized (record 4)
extra   c2s new (record 7)
missing c2s nope (record 8)
2 same, 1 changed, 2 missing, 1 extra
";
    assert_eq!(stdout(&output), expected);
    let lenient = [
        "--ignore",
        "/params/processId",
        "--ignore-method",
        "n*",
        "--ignore-method",
        "initialized",
    ];
    let output = trace(&[&["diff", &first, &second][..], &lenient].concat());
    let said = (output.status.code(), stdout(&output));
    assert_eq!(said, (Some(0), "3 same, 0 changed, 0 missing, 0 extra\n"));

    let output = trace(&["diff", "--json", &first, &second]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&json["same"], &json["differences"][0]["changes"][0]["new"]),
        (&2.into(), &8.into())
    );
}

#[test]
fn r6_a_trace_can_come_from_stdin() {
    let folder = Folder::new();
    let path = write(&folder, "a.jsonl", SESSION);
    for words in [["diff", &path, "-"], ["diff", "-", &path]] {
        assert_eq!(trace_of(&words, &file(SESSION)).status.code(), Some(0));
    }
    let both = trace(&["diff", "-", "-"]);
    assert_eq!(both.status.code(), Some(1));
    assert_eq!(stderr(&both), "duet-rpc: only one of the traces can be stdin\n");
    let bad = trace(&["diff", "--ignore", "params", &path, &path]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(stderr(&bad).contains("expected a JSON pointer such as /params/processId"));
}

#[test]
fn r6_unordered_ignores_the_order() {
    let folder = Folder::new();
    let first = write(&folder, "a.jsonl", "0 > {\"method\":\"a\"}\n1 > {\"method\":\"b\"}\n");
    let second = write(&folder, "b.jsonl", "0 > {\"method\":\"b\"}\n1 > {\"method\":\"a\"}\n");
    assert_eq!(trace(&["diff", &first, &second]).status.code(), Some(1));
    assert_eq!(trace(&["diff", "--unordered", &first, &second]).status.code(), Some(0));
}
