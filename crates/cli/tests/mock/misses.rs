//! Requests that the recording does not have.

use super::support::folder::Folder;
use super::support::programs::DUET_RPC;
use super::{mock, said, trace};

const SESSION: [&str; 4] = [
    r#">{"id":0,"method":"initialize","params":{"processId":7,"name":"x"}}"#,
    r#"<{"id":0,"result":"recorded"}"#,
    r#">{"id":1,"method":"open","params":{"size":1}}"#,
    r#"<{"id":1,"result":"opened"}"#,
];

const OTHER: &str = r#"{"jsonrpc":"2.0","id":5,"method":"open","params":{"size":2}}"#;

#[test]
fn k4_the_nearest_answer_comes_with_the_difference_on_stderr() {
    let folder = Folder::new();
    let file = trace(&folder, &SESSION);
    let (code, stdout, stderr) = said(&mock(&file, &[], &[OTHER]));
    assert_eq!((code, &*stdout), (0, "{\"id\":5,\"result\":\"opened\"}\n"));
    let expected =
        "duet-rpc: open: not in the recording; taken for record 3\n        /params/size: 1 → 2\n";
    assert_eq!(stderr, expected);
    let nothing = r#"{"jsonrpc":"2.0","id":5,"method":"none"}"#;
    let (code, stdout, stderr) = said(&mock(&file, &[], &[nothing]));
    assert_eq!(code, 1);
    assert!(stdout.contains("\"code\":-32601"), "{stdout}");
    assert_eq!(stderr, "duet-rpc: none: not in the recording; answered with an error\n");
}

#[test]
fn k4_misses_are_errors_if_asked_for() {
    let folder = Folder::new();
    let file = trace(&folder, &SESSION);
    let (code, stdout, stderr) = said(&mock(&file, &["--on-miss", "error"], &[OTHER]));
    assert_eq!(code, 1);
    assert!(stdout.contains("\"id\":5,\"error\":{\"code\":-32602"), "{stdout}");
    assert!(stderr.contains("/params/size: 1 → 2"), "{stderr}");
    let options = ["--on-miss", "error", "--ignore", "/params/size"];
    let (code, stdout, _) = said(&mock(&file, &options, &[OTHER]));
    assert_eq!((code, &*stdout), (0, "{\"id\":5,\"result\":\"opened\"}\n"));
}

#[test]
fn k4_misses_are_passed_to_a_real_server() {
    let folder = Folder::new();
    let file = trace(&folder, &SESSION);
    let input = [
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"processId":7,"name":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"open","params":{"size":1}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"system.echo","params":["passed"]}"#,
    ];
    let pass =
        ["--on-miss", "pass", "--", DUET_RPC, "rpc", "--profile", "agent", "--log-level", "error"];
    let (code, stdout, stderr) = said(&mock(&file, &pass, &input));
    let expected = "\
{\"id\":0,\"result\":\"recorded\"}
{\"id\":1,\"result\":\"opened\"}
{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":[\"passed\"]}
";
    assert_eq!((code, &*stdout), (0, expected), "{stderr}");
    // A server that cannot be started, or ends, is an error for the client.
    for words in [&["no-such-program"][..], &["true"]] {
        let options = [&["--on-miss", "pass", "--"], words].concat();
        let (code, stdout, stderr) = said(&mock(&file, &options, &input));
        assert_eq!(code, 1, "{stderr}");
        assert!(stdout.contains("\"id\":2,\"error\":{\"code\":-32603"), "{stdout}{stderr}");
    }
    for options in [&["--on-miss", "pass"][..], &["--", "true"]] {
        assert_eq!(said(&mock(&file, options, &[])).0, 2);
    }
}
