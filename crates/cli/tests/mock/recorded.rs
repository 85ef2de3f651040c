//! Recorded sessions: transports, order, and recordings that cannot be used.

use std::process::Command;

use rustix::process::Signal;

use super::support::folder::Folder;
use super::support::listening::{Server, TCP, WS, with_addresses};
use super::support::once;
use super::support::programs::DUET_RPC;
use super::{mock, said, trace};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"system.ping"}"#;

/// Records a session of the daemon.
fn record(folder: &Folder) -> String {
    let file = folder.text("trace.jsonl");
    let echo = r#"{"jsonrpc":"2.0","id":2,"method":"system.echo","params":{"a":1}}"#;
    let mut tap = Command::new(DUET_RPC);
    tap.args(["tap", "--to", &file, "--", DUET_RPC, "rpc", "--profile", "agent"]);
    assert!(once::run(tap, format!("{PING}\n{echo}\n").as_bytes()).status.success());
    file
}

#[test]
fn k1_k3_a_recorded_daemon_answers_with_the_ids_of_the_client() {
    let folder = Folder::new();
    let file = record(&folder);
    let input = [
        r#"{"jsonrpc":"2.0","id":"x","method":"system.echo","params":{"a":1}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"system.ping"}"#,
        r#"{"jsonrpc":"2.0","id":8,"method":"system.ping"}"#,
    ];
    let expected = "\
{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{\"a\":1}}
{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"pong\"}
{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":\"pong\"}
";
    assert_eq!(said(&mock(&file, &[], &input)), (0, expected.to_owned(), String::new()));
}

#[test]
fn k5_each_client_gets_the_session_from_its_start_over_every_transport() {
    let folder = Folder::new();
    let file = record(&folder);
    let mut command = Command::new(DUET_RPC);
    command.args(["mock", &file]);
    let unix = folder.url("socket");
    let server = Server::spawn(with_addresses(command, &[TCP, WS, &unix]), 3);
    for url in &server.urls {
        for _ in 0..2 {
            let mut call = Command::new(DUET_RPC);
            call.args(["call", "--connect", &url.text, "system.ping"]);
            assert_eq!(said(&once::run(call, b"")).1, "\"pong\"\n", "{}", url.text);
        }
    }
    let end = server.end(Signal::TERM);
    assert!(end.status.success(), "{:?}", end.lines);
    let output = mock(&file, &["--listen", "http://127.0.0.1:0/"], &[]);
    assert_eq!(said(&output).0, 2);
    // Any framing is detected.
    let frame = format!("Content-Length: {}\r\n\r\n{PING}", PING.len());
    let mut command = Command::new(DUET_RPC);
    command.args(["mock", &file]);
    let (code, stdout, _) = said(&once::run(command, frame.as_bytes()));
    let expected = "Content-Length: 40\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"pong\"}";
    assert_eq!((code, stdout), (0, expected.to_owned()));
}

#[test]
fn k2_messages_of_the_server_come_where_they_came() {
    let folder = Folder::new();
    let file = trace(
        &folder,
        &[
            r#"<{"method":"hello"}"#,
            r#">{"id":1,"method":"a"}"#,
            r#"<{"id":5,"method":"ask"}"#,
            r#">{"id":5,"result":0}"#,
            r#"<{"method":"thanks"}"#,
            r#"<{"id":1,"result":1}"#,
        ],
    );
    let input = [r#"{"id":1,"method":"a"}"#, r#"{"id":5,"result":0}"#];
    let expected = "\
{\"method\":\"hello\"}
{\"id\":5,\"method\":\"ask\"}
{\"id\":1,\"result\":1}
{\"method\":\"thanks\"}
";
    assert_eq!(said(&mock(&file, &[], &input)), (0, expected.to_owned(), String::new()));
}

#[test]
fn k6_recordings_that_cannot_be_used_are_refused() {
    let folder = Folder::new();
    let cut = "{\"seq\":1,\"at\":0,\"dir\":\"s2c\",\"kind\":\"notification\",\"method\":\"a\",\"cut\":true,\"text\":\"{\"}\n";
    let loss = "{\"seq\":3,\"at\":0,\"dir\":\"s2c\",\"kind\":\"loss\",\"lost\":17}\n";
    for (bytes, what) in [
        (String::new(), "is not a trace: it is empty"),
        ("{\"duet\":1}\n".to_owned(), "the recording has no message of the server"),
        (format!("{{\"duet\":1}}\n{cut}"), "the message of record 1 is not whole"),
        (format!("{{\"duet\":1}}\n{loss}"), "17 bytes were not recorded"),
    ] {
        let file = folder.write("bad.jsonl", bytes);
        let (code, stdout, stderr) = said(&mock(&file, &[], &[]));
        assert_eq!((code, &*stdout), (1, ""), "{what}");
        assert!(stderr.contains(what), "{what}: {stderr}");
    }
}
