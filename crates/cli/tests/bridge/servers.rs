//! B11, B12: restart, pool, idle time, number of clients.

use std::process::{Command, Stdio};

use duet_rpc::proto::frame::Framing;
use rustix::process::Signal;
use serde_json::json;

use super::client::Client;
use super::support::programs::DUET_RPC;
use super::{Bridge, block_on, bridged, children, marked, wait_for_end_of};

const WS: &str = "ws://127.0.0.1:0/";

#[test]
fn b11_server_that_dies_is_started_again_and_initialized() {
    for options in [&["--restart"][..], &["--restart", "--shared"]] {
        let bridge = Bridge::start(&[WS], options, &[bridged()]);
        block_on(async {
            let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
            let params = json!({"protocolVersion": "1"});
            assert_eq!(client.call(1, "initialize", params).await["result"]["count"], 1);
            client.send(r#"{"jsonrpc":"2.0","id":2,"method":"hold","params":{"serial":2}}"#).await;
            client.send(r#"{"jsonrpc":"2.0","id":3,"method":"die"}"#).await;
            for id in [2, 3] {
                let answer = client.value().await;
                assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32000)));
            }
            assert_eq!(client.call(4, "work", json!({"serial": 4})).await["result"], 4);
            assert_eq!(client.call(5, "count", json!({})).await["result"], 1);
        });
        let (code, said) = bridge.end(Signal::TERM);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("the server ended (exit status: 3); it is started again"), "{said}");
    }
}

#[test]
fn b11_server_that_dies_again_and_again_is_given_up() {
    let mut bridge = Bridge::start(&[WS], &["--restart=2", "--shared"], &["sh", "-c", "exit 3"]);
    block_on(async {
        let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
        loop {
            client.push(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#);
            match client.next().await {
                None => break,
                Some(answer) => assert!(answer.contains("-32000"), "{answer}"),
            }
        }
    });
    let (code, said) = bridge.wait();
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("the server ended (exit status: 3) more than 2 times in a row"),
        "{said}"
    );
}

#[test]
fn b11_client_is_told_before_the_processes_of_its_server_have_ended() {
    // The server closes its output, and holds up its own end until it is killed.
    let server = ["sh", "-c", "trap '' TERM; exec >&-; read _; sleep 600"];
    for options in [&[][..], &["--shared"], &["--restart=1000"], &["--restart=1000", "--shared"]] {
        let bridge = Bridge::start(&[WS], options, &server);
        block_on(async {
            let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
            client.send(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#).await;
            assert_eq!(client.value().await["error"]["code"], -32000, "{options:?}");
            let server = children(bridge.worker());
            assert!(!server.is_empty(), "it is not killed yet: {options:?}");
        });
    }
}

#[test]
fn b11_client_that_comes_while_the_last_server_ends_gets_the_next_one() {
    // The first server dies of `die`, and leaves a process that has to be killed.
    let script = format!("(trap '' TERM; exec sleep 600) & exec {}", bridged());
    let bridge = Bridge::start(&[WS], &["--shared"], &["sh", "-c", &script]);
    block_on(async {
        for round in 0..3 {
            let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
            let answer = client.call(1, "work", json!({"serial": round})).await;
            assert_eq!(answer["result"], round);
            client.send(r#"{"jsonrpc":"2.0","id":2,"method":"die"}"#).await;
            assert_eq!(client.value().await["error"]["code"], -32000);
        }
    });
}

#[test]
fn b11_without_restart_pending_requests_get_an_error_and_the_connection_ends() {
    for options in [&[][..], &["--shared"]] {
        let bridge = Bridge::start(&[WS], options, &[bridged()]);
        block_on(async {
            let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
            client.send(r#"{"jsonrpc":"2.0","id":"a","method":"die"}"#).await;
            let answer = client.value().await;
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("a"), &json!(-32000)));
            while let Some(reason) = client.next().await {
                assert!(reason.contains("Connection closed"), "{reason}");
            }
            // The next client gets another server.
            let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
            assert_eq!(client.call(4, "work", json!({"serial": 4})).await["result"], 4);
        });
    }
}

#[test]
fn b12_pool_has_servers_ready_and_replaces_those_that_are_taken_or_die() {
    let word = format!("pool-{}", std::process::id());
    let bridge = Bridge::start(&[WS], &["--pool", "2"], &[bridged(), word.clone()]);
    let count = || marked(&word).into_iter().filter(|pid| children(bridge.worker()).contains(pid));
    assert_eq!(count().count(), 2);
    block_on(async {
        let before: Vec<_> = count().collect();
        let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
        assert_eq!(client.call(4, "work", json!({"serial": 4})).await["result"], 4);
        assert_eq!(count().count(), 3);
        // Those that wait die.
        for pid in before {
            let pid = rustix::process::Pid::from_raw(pid).expect("an id");
            let _ = rustix::process::kill_process(pid, Signal::KILL);
            wait_for_end_of(pid.as_raw_nonzero().get());
        }
        drop(client);
        let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
        assert_eq!(client.call(4, "work", json!({"serial": 5})).await["result"], 5);
    });
    assert_eq!(bridge.end(Signal::TERM).0, Some(0));
    assert_eq!(marked(&word), Vec::<i32>::new());
}

#[test]
fn b12_idle_connections_and_idle_shared_servers_end() {
    let word = format!("idle-{}", std::process::id());
    let bridge = Bridge::start(&[WS], &["--idle", "0.3"], &[bridged(), word.clone()]);
    block_on(async {
        let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
        assert_eq!(client.call(4, "work", json!({"serial": 4})).await["result"], 4);
        assert_eq!(client.next().await, None);
        children(bridge.worker()).into_iter().for_each(wait_for_end_of);
    });
    let bridge = Bridge::start(&[WS], &["--idle", "0.3", "--shared"], &[bridged(), word.clone()]);
    block_on(async {
        for _ in 0..2 {
            let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
            let params = json!({"protocolVersion": "1"});
            assert_eq!(client.call(1, "initialize", params).await["result"]["count"], 1);
            assert_eq!(client.call(2, "work", json!({"serial": 2})).await["result"], 2);
            let server = children(bridge.worker())[0];
            drop(client);
            wait_for_end_of(server);
        }
    });
}

#[test]
fn b12_connection_with_a_running_request_is_not_idle() {
    for options in [&["--idle", "0.3"][..], &["--idle", "0.3", "--shared"]] {
        let bridge = Bridge::start(&[WS], options, &[bridged()]);
        block_on(async {
            let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
            client.send(r#"{"jsonrpc":"2.0","id":1,"method":"hold","params":{"serial":1}}"#).await;
            // Two connections that end one after the other: the idle time has passed twice.
            for _ in 0..2 {
                let mut idle = Client::connect(bridge.url(), Framing::Ndjson).await;
                while idle.next().await.is_some() {}
            }
            let cancel = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#;
            client.send(cancel).await;
            assert_eq!(client.value().await["id"], 1, "{options:?}");
        });
    }
}

#[test]
fn b12_clients_over_the_limit_are_refused_with_a_reason() {
    let options = ["--max-clients", "1", "--framing", "ndjson"];
    let bridge = Bridge::start(&["tcp://127.0.0.1:0"], &options, &[bridged()]);
    block_on(async {
        let mut first = Client::connect(bridge.url(), Framing::Ndjson).await;
        assert_eq!(first.call(1, "work", json!({"serial": 4})).await["result"], 4);
        let mut second = Client::connect(bridge.url(), Framing::Ndjson).await;
        assert_eq!(second.value().await["error"]["message"], "Server busy");
        assert_eq!(second.next().await, None);
        assert_eq!(first.call(2, "work", json!({"serial": 5})).await["result"], 5);
    });
}

#[test]
fn b2_requests_that_a_connected_server_never_answers_get_an_error_at_the_end() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("tcp://{}", listener.local_addr().expect("it listens"));
    let mut command = Command::new(DUET_RPC);
    command.args(["bridge", "--framing", "ndjson", "--to-framing", "ndjson"]);
    command.args(["--connect", &address]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("it starts");
    let _silent = listener.accept().expect("the bridge connects");
    let mut stdin = process.stdin.take().expect("a pipe");
    let request = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}\n";
    std::io::Write::write_all(&mut stdin, request).expect("it reads");
    drop(stdin);
    let output = process.wait_with_output().expect("our child");
    let (answer, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(answer.contains("\"id\":1"), "{answer} {said}");
    assert!(answer.contains("The server did not answer in time"), "{answer}");
    assert!(said.contains("the server did not answer in time requests=1"), "{said}");
}

#[test]
fn b2_server_that_cannot_be_started_or_reached_is_reported() {
    let bridge = Bridge::start(&[WS], &[], &["/nonexistent"]);
    block_on(async {
        let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
        let answer = client.call(1, "m", json!([])).await;
        assert_eq!(answer["error"]["message"], "The server cannot be started or reached");
        assert_eq!(client.next().await, None);
    });
    let (_, said) = bridge.end(Signal::TERM);
    assert!(said.contains("cannot start \\\"/nonexistent\\\""), "{said}");
    for (words, code, expected) in [
        (&["--", "/nonexistent"][..], 5, "cannot start \"/nonexistent\""),
        (&["--connect", "unix:///nonexistent/socket"], 5, "No such file"),
        (&["--shared", "--", "cat"], 2, "--shared needs --listen"),
        (&["--pool", "1", "--connect", "tcp://127.0.0.1:1"], 2, "cannot be used with"),
        (&[], 2, "COMMAND"),
    ] {
        let mut command = Command::new(DUET_RPC);
        command.arg("bridge").args(words).stdin(Stdio::null());
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(expected), "{words:?}: {said}");
    }
}
