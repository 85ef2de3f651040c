//! B1, B2: servers that speak before their client, and servers that end before it speaks.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use duet_rpc::proto::frame::{Framing, write_frame};
use rustix::process::Signal;
use serde_json::json;

use super::client::Client;
use super::support::folder::Folder;
use super::support::programs::DUET_RPC;
use super::{Bridge, block_on, bridged};

const READY: &str = r#"{"jsonrpc":"2.0","method":"ready"}"#;
const WS: &str = "ws://127.0.0.1:0/";

/// The first message of the server, in a framing.
fn ready(framing: Framing) -> String {
    let mut frame = Vec::new();
    let Ok(()) = write_frame(framing, &mut frame, |out| {
        out.extend_from_slice(READY.as_bytes());
        Ok::<_, std::convert::Infallible>(())
    });
    String::from_utf8(frame).expect("text")
}

/// A server that says `ready`, and then repeats every byte that it gets.
fn server(framing: Framing) -> [String; 3] {
    let mut octal = String::new();
    for byte in ready(framing).bytes() {
        octal.push_str(&format!("\\{byte:03o}"));
    }
    ["sh".to_owned(), "-c".to_owned(), format!("printf '{octal}'; exec cat")]
}

#[test]
fn b1_server_that_speaks_first_is_heard_before_its_client_speaks() {
    let folder = Folder::new();
    for framing in Framing::ALL {
        for options in [&[][..], &["--pool", "1"], &["--shared"], &["--restart"]] {
            let listen = [WS, &*folder.url("socket")];
            let bridge = Bridge::start(&listen, options, &server(framing));
            block_on(async {
                for url in &bridge.urls {
                    // A client that has said nothing gets the framing of the server.
                    let mut client = Client::connect(url, framing).await;
                    if options.contains(&"--shared") && url.starts_with("unix") {
                        // The server spoke to the first client, and does not speak again.
                        continue;
                    }
                    let row = format!("{framing} {options:?} {url}");
                    assert_eq!(client.next().await.as_deref(), Some(READY), "{row}");
                    // The server gets its own framing, and repeats the message.
                    let note = r#"{"jsonrpc":"2.0","method":"note","params":[1]}"#;
                    client.send(note).await;
                    assert_eq!(client.next().await.as_deref(), Some(note), "{row}");
                }
            });
            assert_eq!(bridge.end(Signal::TERM).0, Some(0));
        }
    }
}

#[test]
fn b1_first_message_of_the_server_has_the_framing_of_the_client_if_it_is_set() {
    for (framing, expected) in [("auto", Framing::Lsp), ("ndjson", Framing::Ndjson)] {
        for options in [&[][..], &["--shared"]] {
            let options = [options, &["--framing", framing]].concat();
            let bridge = Bridge::start(&["tcp://127.0.0.1:0"], &options, &server(Framing::Lsp));
            let address = bridge.url().strip_prefix("tcp://").expect("TCP");
            let mut stream = TcpStream::connect(address).expect("it listens");
            let expected = ready(expected);
            let mut got = vec![0; expected.len()];
            stream.read_exact(&mut got).expect("the first message");
            assert_eq!(String::from_utf8_lossy(&got), expected, "{options:?}");
        }
    }
}

#[test]
fn b1_first_message_of_the_server_reaches_a_silent_client_on_stdio() {
    let mut command = Command::new(DUET_RPC);
    command.arg("bridge").arg("--").args(server(Framing::Ndjson));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut bridge = command.spawn().expect("it starts");
    let mut stdout = bridge.stdout.take().expect("a pipe");
    let mut got = vec![0; READY.len() + 1];
    stdout.read_exact(&mut got).expect("the first message");
    assert_eq!(String::from_utf8_lossy(&got), ready(Framing::Ndjson));
    drop(bridge.stdin.take());
    assert!(bridge.wait().expect("our child").success());
}

#[test]
fn b1_stray_output_before_the_first_message_decides_nothing() {
    let script = format!("echo Starting; exec {}", bridged());
    for options in [&[][..], &["--shared"]] {
        let bridge = Bridge::start(&[WS], options, &["sh", "-c", &script]);
        block_on(async {
            let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
            assert_eq!(client.call(4, "work", json!({"serial": 4})).await["result"], 4);
        });
    }
}

#[test]
fn b1_server_has_the_framing_of_a_client_that_does_not_initialize() {
    let folder = Folder::new();
    for framing in Framing::ALL {
        let server = [DUET_RPC, "rpc", "--profile", "agent", "--framing", framing.name()];
        for options in [&[][..], &["--shared"], &["--restart"]] {
            let bridge = Bridge::start(&[&folder.url("socket")], options, &server);
            block_on(async {
                let mut client = Client::connect(bridge.url(), framing).await;
                let answer = client.call(1, "system.ping", json!([])).await;
                assert_eq!(answer["result"], "pong", "{framing} {options:?}");
            });
        }
    }
}

#[test]
fn b2_first_request_gets_an_error_if_the_server_has_ended_before_it() {
    for options in [&[][..], &["--shared"], &["--pool", "2"]] {
        let bridge = Bridge::start(&["tcp://127.0.0.1:0"], options, &["sh", "-c", "exit 3"]);
        let address = bridge.url().strip_prefix("tcp://").expect("TCP");
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream
            .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"m\"}\n")
            .expect("it reads");
        let mut all = String::new();
        stream.read_to_string(&mut all).expect("text, and no reset");
        let first = all.lines().next().unwrap_or_default();
        let answer: serde_json::Value = serde_json::from_str(first).expect("an answer");
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!("a"), &json!(-32000)),
            "{all}"
        );
    }
}

#[test]
fn b2_client_that_says_nothing_is_closed_when_its_server_ends() {
    for options in [&[][..], &["--shared"]] {
        let bridge = Bridge::start(&["tcp://127.0.0.1:0"], options, &["sh", "-c", "exit 3"]);
        let address = bridge.url().strip_prefix("tcp://").expect("TCP");
        let mut stream = TcpStream::connect(address).expect("it listens");
        let mut all = String::new();
        stream.read_to_string(&mut all).expect("text");
        assert!(all.is_empty() || all.contains("Connection closed: the server ended"), "{all}");
    }
}

#[test]
fn b2_stdio_bridge_says_why_its_server_is_not_there() {
    for (server, code, words) in [
        ("false", 1, "the server ended (exit status: 1)"),
        ("no-such-program", 5, "is it installed and on PATH?"),
        ("./no-such-program", 5, "is the path right"),
    ] {
        let mut command = Command::new(DUET_RPC);
        command.args(["bridge", "--", server]).stdin(Stdio::null());
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{server}: {said}");
        assert!(said.contains(words), "{server}: {said}");
    }
}
