//! `ws` for Node and `websockets` for Python as WebSocket clients. Each is a script that makes the same
//! checks, and exits with 0 if all passed.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::certified::Certified;
use super::sabotage::{NOTHING, OF_BYTES, SocketTap};
use super::script::patience_with;
use super::support::folder::Folder;
use super::support::listening::{Server, WS};
use super::support::programs::{root, testbed};
use super::{fetched, has, skip};

pub(crate) const TOKEN: &str = "open-sesame";

/// Runs a script to its end. Returns true if it succeeded, and its stderr. Its arguments are the URL of a
/// daemon that accepts messages of 100,000 bytes, the URL of another with a token, and the token. When it
/// prints `waiting`, the first daemon is stopped. With a fault rule, a tap stands before each daemon.
fn run(mut command: Command, rule: Option<&str>) -> (bool, String) {
    let folder = Folder::new();
    let path = folder.write("token", TOKEN);
    let start = |options: &[&str]| {
        let mut command = Command::new(testbed());
        command.args(["--profile", "agent", "--listen", WS]).args(options);
        command.env_remove("DUET_RPC_LOG");
        let server = Server::spawn(command, 1);
        let tap = rule.map(|rule| SocketTap::start(rule, &server.url("ws").text));
        let url = tap.as_ref().map_or_else(|| server.url("ws").text.clone(), |tap| tap.url.clone());
        (server, tap, url)
    };
    let (server, _tap, url) = start(&["--max-message-bytes", "100000"]);
    let (guarded, _guarded_tap, guarded_url) = start(&["--token-file", &path]);
    command.args([&url, &guarded_url, TOKEN]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("the program starts");
    let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let mut stderr = process.stderr.take().expect("a pipe");
    let errors = std::thread::spawn(move || {
        let mut said = String::new();
        stderr.read_to_string(&mut said).map(|_| said)
    });
    let is_waiting = lines.by_ref().map_while(Result::ok).any(|line| line == "waiting");
    if is_waiting {
        let end = server.end(Signal::TERM);
        assert_eq!(end.status.code(), Some(0), "{end:?}");
        assert!(!end.lines.concat().contains("ERROR"), "{:?}", end.lines);
    }
    let status = process.wait().expect("the process can be waited for");
    let said = errors.join().expect("the reader thread does not panic").unwrap_or_default();
    guarded.stop();
    (is_waiting && status.success(), said)
}

/// Checks that the script succeeds with the real daemon and with a tap that changes nothing, and fails with a
/// broken daemon.
fn check(command: impl Fn() -> Command) {
    let (is_well, said) = run(command(), None);
    assert!(is_well, "{said}");
    std::thread::scope(|scope| {
        for (name, rule) in OF_BYTES {
            let mut command = command();
            command.env("PATIENCE", patience_with(name));
            scope.spawn(move || {
                let (is_well, said) = run(command, Some(rule));
                assert_eq!(is_well, name == NOTHING, "{name}: {said}");
            });
        }
    });
}

#[test]
fn t2_t3_ws_for_node_is_served_and_refused() {
    let Some(modules) = fetched("node_modules/ws").filter(|_| has("node")) else {
        return skip("`ws` for Node", "scripts/clients has not fetched it");
    };
    check(|| {
        let mut command = Command::new("node");
        command.arg(root().join("crates/cli/tests/clients/ws.mjs")).arg(&modules);
        command
    });
}

#[test]
fn t2_t3_websockets_for_python_is_served_and_refused() {
    let Some(python) = fetched("python/bin/python") else {
        return skip("`websockets` for Python", "scripts/clients has not fetched it");
    };
    check(|| {
        let mut command = Command::new(&python);
        command.arg(root().join("crates/cli/tests/clients/websockets_client.py"));
        command
    });
}

/// Runs a script over TLS. Its last arguments are the URL of a daemon with a token, the file of its authority, and the
/// token.
fn run_over_tls(mut command: Command, url: &str, authority: &str) {
    let output = command.args([url, authority, TOKEN]).stdin(Stdio::null()).output();
    let output = output.expect("it is here");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Has `ws` for Node call this daemon.
pub(crate) fn node_over_tls(url: &str, authority: &str) {
    let Some(modules) = fetched("node_modules/ws").filter(|_| has("node")) else {
        return skip("`ws` for Node", "scripts/clients has not fetched it");
    };
    let mut command = Command::new("node");
    command.arg(root().join("crates/cli/tests/clients/wss.mjs")).arg(&modules);
    run_over_tls(command, url, authority);
}

/// Has `websockets` for Python call this daemon.
pub(crate) fn python_over_tls(url: &str, authority: &str) {
    let Some(python) = fetched("python/bin/python") else {
        return skip("`websockets` for Python", "scripts/clients has not fetched it");
    };
    let mut command = Command::new(&python);
    command.arg(root().join("crates/cli/tests/clients/wss_client.py"));
    run_over_tls(command, url, authority);
}

#[test]
fn t3_t5_ws_and_websockets_are_served_and_refused_over_tls() {
    let certified = Certified::new();
    let tokens = certified.folder.write("tokens", TOKEN);
    let options = [&["--token-file", &tokens][..], &certified.options()].concat();
    let server = Server::rpc("agent", &["wss://127.0.0.1:0/"], &options);
    node_over_tls(&server.url("wss").text, &certified.authority);
    python_over_tls(&server.url("wss").text, &certified.authority);
    server.stop();
}
