//! X1–X7 in a mock: the rules of `--fault` on the messages of its clients.

use super::support::folder::Folder;
use super::{mock, said, trace};

const SESSION: [&str; 6] = [
    r#">{"id":1,"method":"a"}"#,
    r#"<{"id":1,"result":"one"}"#,
    r#">{"id":2,"method":"b"}"#,
    r#"<{"id":2,"result":"two"}"#,
    r#">{"id":3,"method":"c"}"#,
    r#"<{"id":3,"result":"three"}"#,
];

const INPUT: [&str; 3] =
    [r#"{"id":1,"method":"a"}"#, r#"{"id":2,"method":"b"}"#, r#"{"id":3,"method":"c"}"#];

const ONE: &str = r#"{"id":1,"result":"one"}"#;
const TWO: &str = r#"{"id":2,"result":"two"}"#;
const THREE: &str = r#"{"id":3,"result":"three"}"#;

#[test]
fn x1_x3_x6_each_fault_happens_and_is_named_on_stderr() {
    let folder = Folder::new();
    let file = trace(&folder, &SESSION);
    let failed = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"again"}}"#;
    let rows: [(&str, &[&str], &str); 10] = [
        ("delay=30ms dir:s2c nth:2", &[ONE, TWO, THREE], "s2c response b 2"),
        ("drop dir:s2c nth:2", &[ONE, THREE], "s2c response b 2"),
        ("drop dir:c2s nth:2", &[ONE, THREE], "c2s request b 2"),
        ("dup method:b dir:s2c", &[ONE, TWO, TWO, THREE], "s2c response b 2"),
        ("reorder dir:s2c nth:2", &[ONE, THREE, TWO], "s2c response b 2"),
        // Nothing follows that could overtake it.
        ("reorder=5,9s dir:s2c nth:3", &[ONE, TWO, THREE], "s2c response c 3"),
        ("corrupt=json dir:s2c nth:1", &[r#"{"id":1,"result":"one"!"#, TWO, THREE], "a 1"),
        ("error=-32603:again method:b dir:s2c", &[ONE, failed, THREE], "s2c response b 2"),
        ("unset=/result method:b dir:s2c", &[ONE, r#"{"id":2}"#, THREE], "s2c response b 2"),
        ("stall dir:s2c nth:2", &[ONE], "s2c response b 2"),
    ];
    for (rule, expected, note) in rows {
        let (code, stdout, stderr) = said(&mock(&file, &["--fault", rule], &INPUT));
        assert_eq!(stdout.lines().collect::<Vec<_>>(), expected, "{rule}");
        assert!(stderr.contains(note) && stderr.contains(rule), "{rule}: {stderr}");
        assert_eq!((code, stderr.lines().count()), (0, 1), "{rule}: {stderr}");
    }
    let options = ["--fault", "cut dir:s2c nth:2"];
    assert_eq!(said(&mock(&file, &options, &INPUT)).1, format!("{ONE}\n"));
}

#[test]
fn x2_x5_x7_rules_are_checked_repeat_with_their_seed_and_are_named_if_unused() {
    let folder = Folder::new();
    let file = trace(&folder, &SESSION);
    for rule in ["kill", "half-close", "corrupt=length", "dropp"] {
        let (code, stdout, stderr) = said(&mock(&file, &["--fault", rule], &INPUT));
        assert_eq!((code, &*stdout), (2, ""), "{rule}: {stderr}");
    }
    let run = |seed: u64| {
        let seed = seed.to_string();
        said(&mock(&file, &["--fault", "drop dir:s2c p:0.5", "--seed", &seed], &INPUT)).1
    };
    let runs: Vec<_> = (0..8).map(run).collect();
    assert_eq!((0..8).map(run).collect::<Vec<_>>(), runs);
    assert!(runs.iter().any(|run| *run != runs[0]), "{runs:?}");
    let (code, stdout, stderr) = said(&mock(&file, &["--fault", "drop method:x"], &INPUT));
    assert_eq!((code, stdout.lines().count()), (0, 3));
    assert!(stderr.contains("the fault rule `drop method:x` made no fault"), "{stderr}");
}
