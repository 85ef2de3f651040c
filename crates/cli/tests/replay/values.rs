//! Order of messages, values that the server makes up, and requests of the server.

use super::support::folder::Folder;
use super::{log, replay, said, server, stderr, trace};

const OPEN: &str = r#">{"id":1,"method":"open"}"#;

#[test]
fn y3_values_of_the_server_are_learned() {
    let folder = Folder::new();
    let golden = trace(
        &folder,
        "golden.jsonl",
        &[
            OPEN,
            r#"<{"id":1,"result":{"session":"s-1-session"}}"#,
            r#"<{"method":"ready","params":{"at":"/s/s-1-session/events"}}"#,
            r#">{"id":2,"method":"use","params":["s-1-session","/s/s-1-session?x"]}"#,
            r#"<{"id":2,"result":"s-1-session"}"#,
        ],
    );
    let server = server(
        &folder,
        &[
            "<",
            r#"{"id":1,"result":{"session":"s-PID-session"}}"#,
            r#"{"method":"ready","params":{"at":"/s/s-PID-session/events"}}"#,
            "<",
            r#"{"id":2,"result":"s-PID-session"}"#,
        ],
    );
    let output = replay(&golden, &[], &server);
    assert_eq!(
        said(&output),
        (0, "3 same, 0 changed, 0 missing, 0 extra\n"),
        "{}",
        stderr(&output)
    );
    let sent = log(&folder)[1].clone();
    let session = sent.split('"').nth(9).expect("the session").to_owned();
    assert!(session != "s-1-session" && session.starts_with("s-"), "{sent}");
    let expected = format!(r#"{{"id":2,"method":"use","params":["{session}","/s/{session}?x"]}}"#);
    assert_eq!(sent, expected);
    // Without learning, the recorded value is sent, and the new ones are differences.
    let output = replay(&golden, &["--no-learn"], &server);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        log(&folder)[3].contains(r#"["s-1-session","/s/s-1-session?x"]"#),
        "{:?}",
        log(&folder)
    );
}

#[test]
fn y3_mapped_texts_are_the_same() {
    let folder = Folder::new();
    let golden = trace(
        &folder,
        "golden.jsonl",
        &[
            r#">{"id":1,"method":"open","params":{"root":"/old/app"}}"#,
            r#"<{"id":1,"result":"/old/app/x"}"#,
        ],
    );
    let server = server(&folder, &["<", r#"{"id":1,"result":"/new/app/x"}"#]);
    let output = replay(&golden, &["--map", "/old=/new"], &server);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(log(&folder), [r#"{"id":1,"method":"open","params":{"root":"/new/app"}}"#]);
    let output = replay(&golden, &["--map", "=x"], &server);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn y4_requests_of_the_server_are_answered() {
    let folder = Folder::new();
    let golden = trace(
        &folder,
        "golden.jsonl",
        &[
            OPEN,
            r#"<{"id":"a","method":"config","params":[1]}"#,
            r#">{"id":"a","result":"one"}"#,
            r#"<{"id":1,"result":0}"#,
        ],
    );
    let server = server(
        &folder,
        &[
            "<",
            r#"{"id":77,"method":"config","params":[1]}"#,
            "<",
            r#"{"id":78,"method":"other"}"#,
            "<",
            r#"{"id":1,"result":0}"#,
        ],
    );
    let output = replay(&golden, &[], &server);
    let expected = "extra   s2c other (record 4)\n2 same, 0 changed, 0 missing, 1 extra\n";
    assert_eq!(said(&output), (1, expected), "{}", stderr(&output));
    let sent = log(&folder);
    assert_eq!(sent[1], r#"{"id":77,"result":"one"}"#);
    assert!(
        sent[2].starts_with(r#"{"jsonrpc":"2.0","id":78,"error":{"code":-32601"#),
        "{}",
        sent[2]
    );
}

#[test]
fn y1_y2_a_missing_notification_does_not_stop_the_replay() {
    let folder = Folder::new();
    let golden = trace(
        &folder,
        "golden.jsonl",
        &[
            OPEN,
            r#"<{"id":1,"result":0}"#,
            r#"<{"method":"ready"}"#,
            r#">{"id":2,"method":"use"}"#,
            r#"<{"id":2,"result":0}"#,
        ],
    );
    let server = server(&folder, &["<", r#"{"id":1,"result":0}"#, "<", r#"{"id":2,"result":0}"#]);
    let output = replay(&golden, &["--patience", "0.1"], &server);
    let expected = "missing s2c ready (record 3)\n2 same, 0 changed, 1 missing, 0 extra\n";
    assert_eq!(said(&output), (1, expected), "{}", stderr(&output));
}
