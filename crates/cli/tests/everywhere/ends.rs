//! Ends of processes: whoever dies, no process is left behind.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::programs::{DUET_RPC, testbed};
use crate::run::{Listening, duet_rpc, finish, wait_until_gone};

/// The server of the tests: it listens, so that its end can be noticed, and ignores its stdin.
const SERVER: [&str; 4] = [DUET_RPC, "rpc", "--listen", "tcp://127.0.0.1:0"];

#[test]
fn w6_b3_no_process_outlives_a_tap_that_is_killed() {
    for words in [
        &["tap", "--no-record", "--"][..],
        &["tap", "--no-record", "--", DUET_RPC, "tap", "--no-record", "--"],
        &["tap", "--no-record", "--fault", "delay=0s", "--"],
    ] {
        let tap = Listening::start(&[words, &SERVER].concat(), 1);
        let address = tap.addresses[0].clone();
        tap.kill();
        wait_until_gone(&address);
    }
}

#[test]
fn b3_no_server_outlives_a_bridge_that_is_killed() {
    let words = ["bridge", "--pool", "1", "--listen", "tcp://127.0.0.1:0", "--"];
    let bridge = Listening::start(&[&words[..], &SERVER].concat(), 2);
    let addresses = bridge.addresses.clone();
    bridge.kill();
    addresses.iter().for_each(|address| wait_until_gone(address));
}

#[test]
fn l5_the_daemon_ends_after_its_input_whatever_a_handler_does() {
    for method in ["test.sleep", "test.block", "test.spin"] {
        let mut command = std::process::Command::new(testbed());
        command.args(["--profile", "agent"]);
        let ask = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":[3600000]}}\n"
        );
        let begun = Instant::now();
        let ran = finish(command, ask.as_bytes());
        assert_eq!(ran.code, Some(0), "{method}: {ran:?}");
        // The measured limit is 2 s from the end of stdin; the start of a process under wine takes part of the rest.
        assert!(begun.elapsed() < Duration::from_secs(20), "{method}: {:?}", begun.elapsed());
    }
}

#[test]
fn l10_the_daemon_ends_with_the_process_that_it_was_given() {
    let mut parent = duet_rpc(&["explain", "ndjson"]);
    let mut parent = parent.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    let id = format!("--exit-with-parent={}", parent.id());
    let daemon = Listening::start(&["rpc", "--listen", "tcp://127.0.0.1:0", &id], 1);
    parent.kill().expect("it runs");
    parent.wait().expect("it ends");
    wait_until_gone(&daemon.addresses[0]);
}
