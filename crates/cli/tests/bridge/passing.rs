//! B1, B4, B5, B13: messages pass as they are, with bounded memory.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use duet_rpc::proto::frame::Framing;
use rustix::process::Signal;
use serde_json::json;

use super::client::Client;
use super::support::daemon::frame;
use super::support::folder::Folder;
use super::support::programs::DUET_RPC;
use super::{Bridge, block_on, bridged, status};

const FRAMINGS: [(&str, Framing); 3] =
    [("lsp", Framing::Lsp), ("ndjson", Framing::Ndjson), ("length", Framing::Length)];

/// Bodies that a bridge which parses and writes messages would change.
const BODIES: [&str; 6] = [
    r#"{"jsonrpc":"2.0","method":"a"}"#,
    r#"{ "id" : 1.0 , "result":"\u0061", "jsonrpc":"2.0","x":[1e3, 12345678901234567890]}"#,
    r#"{"id":1,"id":2,"unknown":{"b":1,"a":2}}"#,
    r#"[{"jsonrpc":"2.0","method":"n"},[]]"#,
    "\"\u{e9}\u{1f600}\"",
    "7",
];

#[test]
fn b1_bodies_pass_byte_for_byte_from_any_transport_to_any_framing() {
    let folder = Folder::new();
    for (to, _) in FRAMINGS {
        // `cat` sends each message back, so it passes in both directions.
        let listen = [&*folder.url(to), "tcp://127.0.0.1:0", "ws://127.0.0.1:0/"];
        let bridge = Bridge::start(&listen, &["--to-framing", to], &["cat"]);
        block_on(async {
            for (url, (_, framing)) in
                bridge.urls.iter().flat_map(|url| FRAMINGS.map(|framing| (url, framing)))
            {
                let mut client = Client::connect(url, framing).await;
                let large = format!("[\"{}\"]", "x".repeat(3_000_000));
                let bodies = BODIES.into_iter().chain([&*large]);
                for body in bodies.clone() {
                    client.push(body);
                }
                for body in bodies {
                    let back = client.next().await.expect("it comes back");
                    assert!(back == body, "{url} {framing} {to}: {back:.100} is not {body:.100}");
                }
            }
        });
        assert_eq!(bridge.end(Signal::TERM), (Some(0), String::new()));
    }
}

#[test]
fn b1_line_ends_become_spaces_only_where_a_line_is_a_message() {
    let body = "{\n\"id\":\r\n1}";
    for (to, expected) in [("lsp", body), ("length", body), ("ndjson", "{ \"id\":  1}")] {
        let bridge = Bridge::start(&["ws://127.0.0.1:0/"], &["--to-framing", to], &["cat"]);
        block_on(async {
            let mut client = Client::connect(bridge.url(), Framing::Lsp).await;
            client.send(body).await;
            assert_eq!(client.next().await.as_deref(), Some(expected), "{to}");
        });
    }
}

#[test]
fn b1_stdin_and_stdout_are_a_client_and_the_exit_code_is_that_of_the_server() {
    for ((name, framing), (to, _)) in
        FRAMINGS.into_iter().flat_map(|one| FRAMINGS.map(|other| (one, other)))
    {
        for name in [name, "auto"] {
            let mut command = Command::new(DUET_RPC);
            command.args(["bridge", "--framing", name, "--to-framing", to]);
            command.args(["--", "sh", "-c", "cat; exit 7"]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut process = command.spawn().expect("it starts");
            let sent: Vec<u8> = BODIES[..4].iter().flat_map(|body| frame(framing, body)).collect();
            process.stdin.take().expect("a pipe").write_all(&sent).expect("it reads");
            let output = process.wait_with_output().expect("our child");
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.stdout == sent, "{name} {to}: {text}");
            assert_eq!(output.status.code(), Some(7), "{name} {to}");
        }
    }
}

#[test]
fn b1_a_server_at_an_address_is_reached_over_every_transport() {
    let folder = Folder::new();
    let listen =
        [&*folder.url("socket"), "tcp://127.0.0.1:0", "ws://127.0.0.1:0/", "http://127.0.0.1:0/"];
    let far =
        Bridge::start(&listen, &["--framing", "length", "--to-framing", "ndjson"], &[bridged()]);
    for url in &far.urls {
        let options = ["--connect", url, "--to-framing", "length"];
        let near =
            Bridge::start::<&str>(&["ws://127.0.0.1:0/", "http://127.0.0.1:0/"], &options, &[]);
        block_on(async {
            for own in &near.urls {
                let mut client = Client::connect(own, Framing::Ndjson).await;
                let answer = client.call(3, "work", json!({"serial": "s"})).await;
                assert_eq!(
                    answer,
                    json!({"jsonrpc": "2.0", "id": 3, "result": "s"}),
                    "{url} {own}"
                );
            }
        });
        assert_eq!(near.end(Signal::TERM), (Some(0), String::new()), "{url}");
    }
}

#[test]
fn b4_side_that_does_not_read_makes_the_other_wait_and_memory_stays_bounded() {
    const MOST_KB: i64 = 40 * 1024;
    // The server reads nothing.
    let bridge =
        Bridge::start(&["tcp://127.0.0.1:0"], &["--to-framing", "ndjson"], &["sleep", "1000"]);
    block_on(async {
        let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
        let body = format!("[\"{}\"]", "x".repeat(100_000));
        for _ in 0..600 {
            client.push(&body);
        }
        let (mut left, mut same) = (usize::MAX, 0);
        // The same rest for long enough means that the bridge takes no more.
        while same < 300 {
            let now = client.send_some().await;
            same = if now == left { same + 1 } else { 0 };
            left = now;
        }
        assert!(left > 30_000_000, "only {left} bytes have to wait");
    });
    let used = status(bridge.worker(), "VmHWM").expect("it runs");
    assert!(used < MOST_KB, "{used} kB");
    // The client reads nothing.
    let bridge =
        Bridge::start(&["tcp://127.0.0.1:0"], &["--to-framing", "ndjson"], &["yes", "[1]"]);
    block_on(async {
        let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
        client.send("[]").await;
        let server = loop {
            if let Some(server) = super::children(bridge.worker()).first() {
                break *server;
            }
            tokio::task::yield_now().await;
        };
        let written = || {
            let io = std::fs::read_to_string(format!("/proc/{server}/io")).expect("it runs");
            io.lines().find_map(|line| line.strip_prefix("wchar: ")).expect("a number").to_owned()
        };
        let (mut before, mut same) = (String::new(), 0);
        while same < 300 {
            let now = written();
            same = if now == before { same + 1 } else { 0 };
            before = now;
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        assert!(before.parse::<u64>().expect("a number") < 30_000_000, "{before}");
        // Everything that waited arrives.
        for _ in 0..10_000 {
            assert_eq!(client.next().await.as_deref(), Some("[1]"));
        }
    });
    let used = status(bridge.worker(), "VmHWM").expect("it runs");
    assert!(used < MOST_KB, "{used} kB");
}

#[test]
fn b5_bad_frames_of_a_client_are_answered_and_text_of_a_server_is_skipped() {
    let script = "echo starting; cat";
    let options = ["--framing", "ndjson", "--to-framing", "ndjson"];
    let bridge = Bridge::start(&["tcp://127.0.0.1:0"], &options, &["sh", "-c", script]);
    let address = bridge.url().strip_prefix("tcp://").expect("TCP").to_owned();
    let mut stream = std::net::TcpStream::connect(address).expect("it listens");
    stream.write_all(b"nonsense\n[1]\n[2\n").expect("it reads");
    stream.shutdown(std::net::Shutdown::Write).expect("it is open");
    let mut all = String::new();
    stream.read_to_string(&mut all).expect("text");
    let fault = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#;
    let mut lines: Vec<_> = all.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[1]", fault, fault]);
    let (code, said) = bridge.end(Signal::TERM);
    assert_eq!(code, Some(0));
    assert!(said.contains("the server sent bytes that are not a message"), "{said}");
}

#[test]
fn b13_http_requests_share_a_server_and_get_their_answers() {
    let bridge = Bridge::start(&["http://127.0.0.1:0/"], &[], &[bridged()]);
    block_on(async {
        let (mut one, mut two) = (
            Client::connect(bridge.url(), Framing::Ndjson).await,
            Client::connect(bridge.url(), Framing::Ndjson).await,
        );
        for client in [&mut one, &mut two] {
            let answer = client.call(1, "initialize", json!({"protocolVersion": "1"})).await;
            assert_eq!(answer["result"], json!({"count": 1}));
        }
        // A request that is held must not keep others waiting.
        one.send(r#"{"jsonrpc":"2.0","id":7,"method":"hold","params":{"serial":7}}"#).await;
        assert_eq!(two.call(7, "work", json!({"serial": 8})).await["result"], 8);
        // HTTP has no way to ask a client.
        let answer = two.call(9, "ask", json!({"serial": 9})).await;
        assert!(answer["result"].is_null(), "{answer}");
        // A bad body is answered too.
        two.send("[1").await;
        assert_eq!(two.value().await["error"]["code"], -32700);
    });
}
