//! The daemon, `call` and `bridge`: stdio in each framing, and every transport that all systems have.

use crate::programs::{DUET_RPC, testbed};
use crate::run::{Listening, PROFILES, Ran, duet_rpc, finish, frames, fresh, run};

/// A request for the version, and its answer.
const VERSION: &str = r#"{"jsonrpc":"2.0","id":1,"method":"version"}"#;
const VERSION_IS: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"version":"0.1.0"}}"#;

/// A text with all kinds of characters that a console or a text mode would change.
const ODD: &str =
    r#"{"jsonrpc":"2.0","id":"ä","method":"version","params":{"x":"ü\r\n\u001a€😀"}}"#;
const ODD_IS: &str = r#"{"jsonrpc":"2.0","id":"ä","result":{"version":"0.1.0"}}"#;

#[test]
fn f1_f10_f20_f30_l3_the_daemon_serves_stdin_in_each_framing_to_its_end() {
    for (profile, framing) in PROFILES {
        let ran = run(&["rpc", "--profile", profile], &frames(framing, &[VERSION, ODD]));
        assert_eq!(ran.stdout, frames(framing, &[VERSION_IS, ODD_IS]), "{profile}: {ran:?}");
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stderr.contains("duet-rpc started"), "{ran:?}");
    }
}

#[test]
fn l4_shutdown_ends_the_daemon() {
    let shutdown = r#"{"jsonrpc":"2.0","id":1,"method":"shutdown"}"#;
    let ran = run(&["rpc", "--profile", "agent"], &frames(PROFILES[2].1, &[shutdown]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.text().contains(r#""id":1,"result":{"message":"Shutting"#), "{ran:?}");
    assert!(ran.stderr.contains("asked to shut down"), "{ran:?}");
}

#[test]
fn l1_l9_stray_prints_go_to_stderr_in_each_framing() {
    let print = r#"{"jsonrpc":"2.0","id":1,"method":"test.print"}"#;
    let printed = r#"{"jsonrpc":"2.0","id":1,"result":null}"#;
    for (profile, framing) in PROFILES {
        let mut command = std::process::Command::new(testbed());
        command.args(["--profile", profile]);
        let ran = finish(command, &frames(framing, &[print]));
        assert_eq!(ran.stdout, frames(framing, &[printed]), "{profile}: {ran:?}");
        assert!(ran.stderr.contains("stray"), "{ran:?}");
    }
}

#[test]
fn c1_exit_codes_tell_what_happened() {
    let missing = "no-such-program-anywhere";
    for (words, code, said) in [
        (&["version"][..], 0, ""),
        (&["--help"], 0, ""),
        (&["nonsense"], 2, "nonsense"),
        (&["rpc", "--profile", "none"], 2, "none"),
        (&["call", "version"], 0, ""),
        (&["call", "no.such.method"], 3, "Method not found"),
        (&["call", "--timeout", "1", "version", "--", DUET_RPC, "explain", "ndjson"], 4, "answer"),
        (&["call", "version", "--", missing], 5, "cannot start"),
        (&["call", "version", "--connect", "tcp://127.0.0.1:1"], 5, "127.0.0.1:1"),
        (&["call", "version", "--", DUET_RPC, "version"], 6, "ended without an answer"),
        (&["tap", "--no-record", "--", missing], 127, "cannot start"),
        (&["tap", "--no-record", "--", DUET_RPC, "nonsense"], 2, "nonsense"),
        (&["tap", "--to", &fresh("t.jsonl"), "--", DUET_RPC, "nonsense"], 2, "nonsense"),
    ] {
        let ran = run(words, b"");
        assert_eq!(ran.code, Some(code), "{words:?}: {ran:?}");
        assert!(ran.stderr.contains(said), "{words:?}: {ran:?}");
    }
}

#[test]
fn g1_the_log_goes_to_the_file_that_the_environment_names() {
    let log = fresh("log");
    let mut command = duet_rpc(&["rpc", "--profile", "agent"]);
    command.env("DUET_RPC_LOG", &log);
    let ran = finish(command, &frames(PROFILES[2].1, &[VERSION]));
    assert_eq!((ran.code, ran.stderr.as_str(), ran.text()), (Some(0), "", VERSION_IS));
    let written = std::fs::read_to_string(&log).expect("a log");
    assert!(written.contains("duet-rpc started") && !written.contains('\u{1b}'), "{written}");
}

#[test]
fn l1_a_log_file_that_is_stdout_is_refused() {
    let path = fresh("out");
    let file = std::fs::File::create(&path).expect("a file");
    let mut command = duet_rpc(&["rpc", "--profile", "agent"]);
    command.env("DUET_RPC_LOG", &path).stdout(file).stdin(std::process::Stdio::null());
    let output = command.stderr(std::process::Stdio::piped()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("it is stdin or stdout, which carry messages"), "{said}");
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), "");
}

fn call(address: &str) -> Ran {
    run(&["call", "--connect", address, "version"], b"")
}

#[test]
fn t2_the_daemon_serves_every_transport_to_call() {
    let listen = ["tcp://127.0.0.1:0", "ws://127.0.0.1:0/", "http://127.0.0.1:0/"];
    let words = ["rpc", "--profile", "agent", "--listen", listen[0], "--listen", listen[1]];
    let daemon = Listening::start(&[&words[..], &["--listen", listen[2]]].concat(), 3);
    for address in &daemon.addresses {
        let ran = call(address);
        assert_eq!((ran.code, ran.text()), (Some(0), r#"{"version":"0.1.0"}"#), "{address}");
    }
}

#[test]
fn t3_a_token_guards_the_web() {
    let token = fresh("token");
    std::fs::write(&token, "a-token-of-some-length\n").expect("a file");
    let listen = ["rpc", "--listen", "ws://127.0.0.1:0/", "--token-file", &token];
    let daemon = Listening::start(&listen, 1);
    let address = &daemon.addresses[0];
    let ran = run(&["call", "--connect", address, "--token-file", &token, "version"], b"");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(call(address).code, Some(5));
}

#[test]
fn b1_b2_a_bridge_gives_stdio_servers_to_clients_of_sockets_and_of_stdin() {
    let words = ["bridge", "--listen", "ws://127.0.0.1:0/", "--listen", "tcp://127.0.0.1:0"];
    let server = ["--", DUET_RPC, "rpc", "--profile", "agent"];
    let bridge = Listening::start(&[&words[..], &server].concat(), 2);
    for address in &bridge.addresses {
        assert_eq!(call(address).text(), r#"{"version":"0.1.0"}"#, "{address}");
    }
    // And back again: stdin and stdout to a WebSocket.
    let words = ["bridge", "--framing", "lsp", "--connect", &bridge.addresses[0]];
    let ran = run(&words, &frames(PROFILES[0].1, &[VERSION, ODD]));
    assert_eq!(ran.stdout, frames(PROFILES[0].1, &[VERSION_IS, ODD_IS]), "{ran:?}");
    assert_eq!(ran.code, Some(0), "{ran:?}");
}
