//! The command behind a real NATS broker: workers, calls, gateways, load, and foreign clients.
#![cfg(all(unix, feature = "nats"))]

#[path = "../../../nats/tests/support/mod.rs"]
#[allow(dead_code, reason = "the tests of the library use the rest")]
mod broker;
mod foreign;
mod gateway;
#[path = "../support/mod.rs"]
mod support;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use broker::{Broker, has_nats};
use rustix::process::Signal;
use support::listening::{HTTP, Server, WS};
use support::once::run;
use support::programs::DUET_RPC;

/// A worker of the service `math`, with the methods of the agent profile.
fn worker(broker: &Broker) -> Server {
    Server::rpc("agent", &[&format!("{}/math", broker.url())], &[])
}

/// Runs the command. Returns its exit code, stdout and stderr.
fn command(words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(DUET_RPC);
    command.args(words).env_remove("DUET_RPC_LOG");
    let output = run(command, b"");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn n3_n4_a_call_reaches_a_worker_and_fails_at_once_without_one() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let url = format!("{}/math", broker.url());
    let (code, stdout, stderr) = command(&["call", "--connect", &url, "system.ping"]);
    assert_eq!((code, &*stdout), (Some(6), ""), "{stderr}");
    assert!(stderr.contains("no worker serves math"), "{stderr}");

    let workers = [worker(&broker), worker(&broker)];
    for _ in 0..5 {
        let (code, stdout, stderr) = command(&["call", "--connect", &url, "system.ping"]);
        assert_eq!((code, stdout.trim()), (Some(0), "\"pong\""), "{stderr}");
    }
    // The client of the worker is `call` itself, which answers by order.
    let (code, stdout, stderr) = command(&[
        "call",
        "--connect",
        &url,
        "--answer",
        "client.name=\"Ada\"",
        "system.callback",
        r#"{"method":"client.name"}"#,
    ]);
    assert_eq!((code, stdout.trim()), (Some(0), "\"Ada\""), "{stderr}");
    for worker in workers {
        let end = worker.end(Signal::TERM);
        assert_eq!(end.status.code(), Some(0), "{end:?}");
        assert!(!end.lines.concat().contains("ERROR"), "{:?}", end.lines);
    }
}

#[test]
fn n4_a_worker_without_a_broker_exits_with_the_reason() {
    if !has_nats() {
        return;
    }
    let (code, stdout, stderr) = command(&["rpc", "--listen", "nats://127.0.0.1:1/math"]);
    assert_eq!((code, &*stdout), (Some(1), ""), "{stderr}");
    assert!(stderr.contains("cannot connect: broker 127.0.0.1:1: "), "{stderr}");
    assert_eq!(stderr.matches("refused").count(), 1, "{stderr}");
    assert!(!stderr.contains("listening"), "{stderr}");
    for words in [
        &["bridge", "--listen", "nats://127.0.0.1:1/math", "--", "true"][..],
        &["rpc", "--listen", "nats://127.0.0.1:1/"],
        &["rpc", "--listen", "nats://127.0.0.1:1/a.b"],
    ] {
        let (code, _, stderr) = command(words);
        assert_eq!(code, Some(2), "{words:?}: {stderr}");
    }
}

#[test]
fn n6_a_gateway_passes_calls_both_ways_over_websocket_and_http() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let (one, two) = (worker(&broker), worker(&broker));
    let mut gateway = Command::new(DUET_RPC);
    gateway.args(["bridge", "--listen", WS, "--listen", HTTP]);
    gateway.args(["--connect", &format!("{}/math", broker.url())]).env_remove("DUET_RPC_LOG");
    let gateway = Server::spawn(gateway, 2);
    let (ws, http) = (gateway.url("ws").text.clone(), gateway.url("http").text.clone());
    for url in [&ws, &http] {
        for _ in 0..4 {
            let (code, stdout, stderr) = command(&["call", "--connect", url, "system.ping"]);
            assert_eq!((code, stdout.trim()), (Some(0), "\"pong\""), "{stderr}");
        }
    }
    for name in ["Ada", "Bob", "Eve"] {
        let answer = format!("client.name=\"{name}\"");
        let (code, stdout, stderr) = command(&[
            "call",
            "--connect",
            &ws,
            "--answer",
            &answer,
            "system.callback",
            r#"{"method":"client.name"}"#,
        ]);
        assert_eq!((code, stdout.trim()), (Some(0), &*format!("\"{name}\"")), "{stderr}");
    }
    // Without workers, the client learns why, and the gateway stays.
    one.stop();
    two.stop();
    let (code, _, stderr) = command(&["call", "--connect", &ws, "system.ping"]);
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("no worker serves math"), "{stderr}");
    let back = worker(&broker);
    let (code, stdout, stderr) = command(&["call", "--connect", &ws, "system.ping"]);
    assert_eq!((code, stdout.trim()), (Some(0), "\"pong\""), "{stderr}");
    back.stop();
    gateway.stop();
}

#[test]
fn n3_a_recorded_session_is_a_load_for_workers() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let (one, two) = (worker(&broker), worker(&broker));
    let folder = support::folder::Folder::new();
    let trace = folder.text("ping.jsonl");
    let script = folder.write("calls", "system.ping\nsystem.echo [1]\n");
    let (code, _, stderr) = command(&[
        "call",
        "--script",
        &script,
        "--",
        DUET_RPC,
        "tap",
        "--to",
        &trace,
        "--",
        DUET_RPC,
        "rpc",
        "--profile",
        "agent",
    ]);
    assert_eq!(code, Some(0), "{stderr}");
    let url = format!("{}/math", broker.url());
    let load = ["replay", &trace, "--copies", "4", "--repeat", "25", "--connect", &url];
    let (code, stdout, stderr) = command(&load);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("100 same, 0 different, 0 failed"), "{stdout}");
    one.stop();
    two.stop();
}

/// Runs the command with these variables. Returns its exit code, stdout and stderr.
fn command_with(variables: &[(&str, &str)], words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(DUET_RPC);
    command.args(words).env_remove("DUET_RPC_LOG").envs(variables.iter().copied());
    let output = run(command, b"");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn n9_the_broker_gets_the_credentials_that_the_environment_names() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start_with(&["--user", "ada", "--pass", "secret"]);
    let url = format!("{}/math", broker.url());
    let call = ["call", "--connect", &*url, "system.ping"];
    let known = [("NATS_USER", "ada"), ("NATS_PASSWORD", "secret")];
    let (code, _, stderr) = command_with(&known, &call);
    // The broker lets it in, and there is no worker.
    assert!(code == Some(6) && stderr.contains("no worker serves math"), "{code:?} {stderr}");
    let wrong = [("NATS_USER", "ada"), ("NATS_PASSWORD", "wrong")];
    for variables in [&[][..], &wrong] {
        let (code, _, stderr) = command_with(variables, &call);
        assert!(code == Some(5) && stderr.contains("authorization"), "{code:?} {stderr}");
        assert!(!stderr.contains("wrong"), "{stderr}");
    }
    let (code, _, stderr) = command_with(&[("NATS_CREDS", "/nowhere/ada.creds")], &call);
    assert_eq!(code, Some(5), "{stderr}");
    assert!(stderr.contains("cannot use the credentials in /nowhere/ada.creds"), "{stderr}");
    for (variable, file, why) in [
        ("NATS_CA", "/nowhere/ca.pem", "cannot use NATS_CA=/nowhere/ca.pem: No such file"),
        ("NATS_KEY", "/dev/null", "cannot use NATS_KEY=/dev/null: it is not in PEM"),
    ] {
        let (code, _, stderr) = command_with(&[(variable, file)], &call);
        assert!(code == Some(5) && stderr.contains(why), "{code:?} {stderr}");
    }
}

#[test]
fn n9_a_worker_sends_its_token_and_says_why_the_broker_refuses_it() {
    if !has_nats() {
        return;
    }
    let folder = support::folder::Folder::new();
    let broker = Broker::start_with(&["--auth", "secret"]);
    let url = format!("{}/math", broker.url());
    let [known, several] =
        [("known", "secret\n"), ("several", "secret\nother\n")].map(|it| folder.write(it.0, it.1));
    std::fs::set_permissions(&known, Permissions::from_mode(0o600)).expect("it is ours");
    let worker = Server::rpc("agent", &[&url], &["--token-file", &known]);
    let call = ["call", "--connect", &url, "--token-file", &known, "system.ping"];
    let (code, stdout, stderr) = command(&call);
    assert_eq!((code, stdout.trim()), (Some(0), "\"pong\""), "{stderr}");
    worker.stop();
    let (code, _, stderr) = command(&["rpc", "--listen", &url, "--token-file", &several]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("several tokens"), "{stderr}");
    let (code, _, stderr) = command(&["rpc", "--listen", &url]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("authorization violation"), "{stderr}");

    // This user may connect, and not take requests.
    let settings = folder.text("nats.conf");
    let users = r#"[{user: ada, password: secret, permissions: {subscribe: {deny: ["rpc.>"]}}}]"#;
    std::fs::write(&settings, format!("authorization: {{users: {users}}}")).expect("written");
    let broker = Broker::start_with(&["--config", &settings]);
    let url = format!("{}/math", broker.url());
    let ada = [("NATS_USER", "ada"), ("NATS_PASSWORD", "secret")];
    let (code, _, stderr) = command_with(&ada, &["rpc", "--listen", &url]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("refuses this worker: nats: Permissions Violation"), "{stderr}");
    assert!(!stderr.contains("listening on"), "{stderr}");
}
