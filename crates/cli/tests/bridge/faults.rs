//! X1–X7 in a bridge: the rules of `--fault` on the messages of its clients.

use duet_rpc::proto::frame::Framing;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::client::Client;
use super::support::folder::Folder;
use super::{Bridge, block_on, bridged, wait_for_no};

const WS: &str = "ws://127.0.0.1:0/";

/// Rules, and what becomes of the answers 1, 2, 3 and 9: `id:result`, `id:code` of an error, or `broken`.
const ROWS: [(&str, &[&str]); 22] = [
    ("delay=30ms dir:s2c nth:2", &["1:1", "2:2", "3:3"]),
    ("throttle=2k dir:s2c", &["1:1", "2:2", "3:3"]),
    ("slice=9 dir:s2c", &["1:1", "2:2", "3:3"]),
    ("stall=30ms dir:c2s nth:2", &["1:1", "2:2", "3:3"]),
    ("drop kind:response nth:2", &["1:1", "3:3"]),
    ("drop kind:request nth:2", &["1:1", "3:3"]),
    ("dup kind:response nth:2", &["1:1", "2:2", "2:2", "3:3"]),
    ("dup=3 kind:request nth:2", &["1:1", "2:2", "2:2", "2:2", "3:3"]),
    ("reorder kind:response nth:1", &["2:2", "1:1", "3:3"]),
    ("reorder=9,30ms kind:request nth:1", &["2:2", "3:3", "9:9", "1:1"]),
    ("corrupt=json dir:s2c nth:2", &["1:1", "broken", "3:3"]),
    ("corrupt=json dir:c2s nth:2", &["null:-32700", "1:1", "3:3"]),
    ("corrupt=truncate dir:s2c nth:2", &["1:1", "broken", "3:3"]),
    ("corrupt=print dir:s2c nth:2", &["1:1", "broken", "2:2", "3:3"]),
    ("corrupt=id dir:s2c nth:2", &["1:1", "1000003:2", "3:3"]),
    ("error=-32603:\"try again\" method:work dir:c2s nth:2", &["2:-32603", "1:1", "3:3"]),
    ("error=-32603:\"try again\" method:work dir:s2c nth:2", &["1:1", "2:-32603", "3:3"]),
    ("answer=[0] kind:request nth:2", &["2:[0]", "1:1", "3:3"]),
    ("set=/result=8 dir:s2c nth:2", &["1:1", "2:8", "3:3"]),
    ("set=/params/serial=8 dir:c2s nth:2", &["1:1", "2:8", "3:3"]),
    ("unset=/result dir:s2c nth:2", &["1:1", "2:null", "3:3"]),
    ("cut kind:response nth:2", &["1:1", "end"]),
];

fn show(message: &str) -> String {
    let message: Value = serde_json::from_str(message).expect("JSON");
    match (&message["id"], &message["error"]["code"]) {
        _ if message == "broken" => "broken".to_owned(),
        (id, Value::Null) => format!("{id}:{}", message["result"]),
        (id, code) => format!("{id}:{code}"),
    }
}

fn work(id: u64) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "work", "params": {"serial": id}}).to_string()
}

/// The answers to four requests, up to this number of them.
async fn answers(url: &str, framing: Framing, count: usize) -> Vec<String> {
    let mut client = Client::connect(url, framing).await;
    [1, 2, 3, 9].into_iter().for_each(|id| client.push(&work(id)));
    let mut shown = Vec::new();
    while shown.len() < count {
        shown.push(client.next().await.map_or("end".to_owned(), |message| show(&message)));
    }
    shown
}

#[test]
fn x1_x3_each_fault_happens_to_clients_of_every_transport() {
    let folder = Folder::new();
    for (rule, first) in ROWS {
        // The last answer shows that nothing else came.
        let is_complete = first.iter().any(|it| ["9:9", "end"].contains(it));
        let expected = [first, if is_complete { &[] } else { &["9:9"] }].concat();
        for options in [&[][..], &["--shared"]] {
            let listen = [&*folder.url("socket"), WS];
            let options = [options, &["--to-framing", "ndjson", "--fault", rule]].concat();
            let bridge = Bridge::start(&listen, &options, &[bridged()]);
            block_on(async {
                for (url, framing) in bridge.urls.iter().zip([Framing::Ndjson, Framing::Lsp]) {
                    let shown = answers(url, framing, expected.len()).await;
                    assert_eq!(shown, expected, "{rule} {options:?} {url}");
                }
            });
            assert_eq!(bridge.end(Signal::TERM), (Some(0), String::new()), "{rule}");
        }
    }
}

#[test]
fn x5_same_seed_repeats_the_same_faults_for_each_connection() {
    let run = |seed: &str| {
        let options = ["--fault", "corrupt=id dir:s2c p:0.5", "--seed", seed];
        let bridge = Bridge::start(&[WS], &options, &[bridged()]);
        block_on(async {
            let mut shown = Vec::new();
            for _ in 0..4 {
                shown.push(answers(bridge.url(), Framing::Ndjson, 4).await);
            }
            shown
        })
    };
    let (one, other) = (run("7"), run("8"));
    assert_eq!(one, run("7"));
    assert_ne!(one, other);
    assert_eq!(one[1], other[0], "the second connection of seed 7 has seed 8");
}

#[test]
fn x7_kill_ends_the_server_and_restart_starts_another() {
    let word = format!("kill-{}", std::process::id());
    let server = [bridged(), word.clone()];
    for (options, code) in [
        (&["--restart"][..], "2:2"),
        (&["--restart", "--shared"], "2:2"),
        (&[], "end"),
        (&["--shared"], "null:-32000"),
    ] {
        let options = [options, &["--fault", "kill method:work dir:c2s nth:2"]].concat();
        let bridge = Bridge::start(&[WS], &options, &server);
        block_on(async {
            let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
            client.send(&work(1)).await;
            assert_eq!(client.next().await.as_deref().map(show).as_deref(), Some("1:1"));
            client.push(&work(5));
            client.push(&json!({"jsonrpc": "2.0", "id": 6, "method": "hold"}).to_string());
            client.flush().await;
            // The killed message is gone; the other one has no server any more, or never had one.
            let mut next = client.next().await;
            if next.as_deref().map(show).as_deref() == Some("6:-32000") {
                next = match options.contains(&"--restart") {
                    true => {
                        client.send(&work(2)).await;
                        client.next().await
                    }
                    false => client.next().await,
                };
            }
            assert_eq!(next.as_deref().map_or("end".to_owned(), show), code, "{options:?}");
        });
        bridge.end(Signal::TERM);
        wait_for_no(&word);
    }
}

#[test]
fn x2_x7_rules_that_cannot_work_are_refused_and_unused_ones_are_named() {
    let url = "tcp://127.0.0.1:1";
    for (words, why) in [
        (&["--fault", "half-close", "--", "cat"][..], "it changes the bytes around messages"),
        (&["--fault", "corrupt=length", "--", "cat"], "it changes the bytes around messages"),
        (&["--fault", "kill", "--connect", url], "there is no process to send a signal to"),
        (&["--fault", "drop methd:a", "--", "cat"], "position 6: expected"),
        (&["--seed", "1", "--", "cat"], "--fault"),
    ] {
        let mut command = std::process::Command::new(super::DUET_RPC);
        command.arg("bridge").args(words).stdin(std::process::Stdio::null());
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(why), "{words:?}: {said}");
    }
    let options = ["--fault", "drop method:nothing", "--fault", "dup p:0.000001"];
    let bridge = Bridge::start(&[WS], &options, &[bridged()]);
    block_on(answers(bridge.url(), Framing::Ndjson, 4));
    let (code, said) = bridge.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
    for expected in [
        "the fault rule `drop method:nothing` made no fault: no message matched it\n",
        "the fault rule `dup p:0.000001` made no fault: its nth:, every: or p: chose none",
    ] {
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn x6_each_fault_stands_in_the_log() {
    let options = ["--fault", "set=/result=0 dir:s2c nth:2", "--log-level", "info"];
    let bridge = Bridge::start(&[WS], &options, &[bridged()]);
    block_on(answers(bridge.url(), Framing::Ndjson, 4));
    let (_, said) = bridge.end(Signal::TERM);
    assert!(said.contains("fault: s2c response work 2: set=/result=0 dir:s2c nth:2"), "{said}");
}

#[test]
fn b1_the_log_has_the_framing_that_was_guessed() {
    let guessed = "framing of the server guessed; --to-framing sets it framing=ndjson";
    for (options, is_guessed) in [(&[][..], true), (&["--to-framing", "ndjson"][..], false)] {
        let options = [options, &["--log-level", "info"]].concat();
        let bridge = Bridge::start(&[WS], &options, &[bridged()]);
        block_on(answers(bridge.url(), Framing::Ndjson, 1));
        let (_, said) = bridge.end(Signal::TERM);
        assert_eq!(said.contains(guessed), is_guessed, "{said}");
    }
}

#[test]
fn x1_b13_faults_happen_over_http() {
    let options = ["--fault", "set=/result=\"changed\" dir:s2c", "--fault", "delay=20ms dir:s2c"];
    let bridge = Bridge::start(&["http://127.0.0.1:0/"], &options, &[bridged()]);
    block_on(async {
        let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
        for id in 1..4 {
            let answer = client.call(id, "work", json!({"serial": id})).await;
            assert_eq!(answer["result"], "changed");
        }
    });
}

#[test]
fn x3_delayed_answers_reach_a_client_that_has_closed_its_output() {
    use std::io::{Read, Write};
    for options in [&[][..], &["--shared"]] {
        let rules = ["--fault", "delay=900ms dir:s2c", "--framing", "ndjson"];
        let bridge =
            Bridge::start(&["tcp://127.0.0.1:0"], &[options, &rules].concat(), &[bridged()]);
        let address = bridge.url().strip_prefix("tcp://").expect("TCP").to_owned();
        let mut stream = std::net::TcpStream::connect(address).expect("it listens");
        writeln!(stream, "{}\n{}", work(1), work(2)).expect("it reads");
        stream.shutdown(std::net::Shutdown::Write).expect("it is open");
        let mut all = String::new();
        stream.read_to_string(&mut all).expect("text");
        assert_eq!(all.lines().map(show).collect::<Vec<_>>(), ["1:1", "2:2"], "{options:?}");
    }
}

#[test]
fn x3_x4_stalled_client_that_leaves_leaves_no_process() {
    let folder = Folder::new();
    let word = format!("stall-{}", std::process::id());
    for rule in ["stall dir:c2s nth:2", "stall dir:s2c nth:2"] {
        for options in [&[][..], &["--restart"]] {
            let options = [options, &["--fault", rule]].concat();
            let listen = [&*folder.url("socket"), "tcp://127.0.0.1:0", WS];
            let bridge = Bridge::start(&listen, &options, &[bridged(), word.clone()]);
            for url in &bridge.urls {
                block_on(async {
                    let mut client = Client::connect(url, Framing::Ndjson).await;
                    client.send(&work(1)).await;
                    assert_eq!(client.next().await.as_deref().map(show).as_deref(), Some("1:1"));
                    // The end of a TCP stream stands behind the bytes that nobody has read.
                    let large = format!("[\"{}\"]", "x".repeat(1_000_000));
                    (0..40).for_each(|_| client.push(&large));
                    for _ in 0..100 {
                        client.send_some().await;
                    }
                });
                // The client is gone, and the bridge runs.
                super::children(bridge.worker()).into_iter().for_each(super::wait_for_end_of);
            }
        }
    }
}
