//! The example `axum_app`: JSON-RPC as a route of an axum app.

use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::curl::{self, curl, try_curl};
use super::support::folder::Folder;
use super::support::listening::{Server, wait_until};
use super::support::once::run;
use super::support::programs::{DUET_RPC, example};
use super::{has, skip};

/// The versions of HTTP that axum serves.
const VERSIONS: [&str; 2] = ["--http1.1", "--http2-prior-knowledge"];

fn request(method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

#[test]
fn t1_t3_an_axum_app_serves_json_rpc_beside_its_routes() {
    if !has("curl") {
        return skip("curl", "it is not installed");
    }
    let server = Server::spawn(Command::new(example("duet-rpc", "axum_app")), 1);
    let (open, rpc) = ["open", "rpc"].map(|path| format!("{}{path}", server.urls[0].text)).into();
    for version in VERSIONS {
        serves(&open, &rpc, version);
        cancels(&open, &rpc, version);
    }
    is_called_over_web_socket(&rpc);
    // A call that runs is answered before the end.
    let mut client = curl::command(&rpc, &["--data", &request("wait", json!([1]))]);
    let client = client.stdout(Stdio::piped()).spawn().expect("it is here");
    wait_until("the call runs", || count(&open).starts_with("1 "));
    let end = server.end(Signal::INT);
    assert_eq!(end.status.code(), Some(0), "{end:?}");
    let said = client.wait_with_output().expect("it is our child").stdout;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains(r#"{"jsonrpc":"2.0","id":1,"result":1}"#), "{said}");
}

/// The number of open calls and connections.
fn count(open: &str) -> String {
    curl(open, &[]).body
}

fn serves(open: &str, rpc: &str, version: &str) {
    let call = request("divide", json!([1, 4]));
    let post = |more: &[&str]| curl(rpc, &[&[version, "--data", &call], more].concat());
    assert_eq!(curl(open, &[version]).body, "0 calls and connections");
    let got = post(&[]);
    let answer: Value = serde_json::from_str(&got.body).expect("JSON");
    assert_eq!((got.status, &answer["result"]), (200, &json!(0.25)), "{}", got.head);
    assert_eq!(got.head.starts_with("http/2"), version == VERSIONS[1], "{}", got.head);
    // Access rules and limits hold.
    for header in ["Origin: https://evil.example", "Origin: null", "Host: evil.example"] {
        assert_eq!(post(&["--header", header]).status, 403, "{version} {header}");
    }
    assert_eq!(curl(rpc, &[version]).status, 405);
    let folder = Folder::new();
    let long = format!("@{}", folder.write("long", "x".repeat(16 * 1024 + 1)));
    for more in [&["--header", "Expect:"][..], &["--header", "Transfer-Encoding: chunked"]] {
        let arguments = [&[version, "--data-binary", &long], more].concat();
        // Over HTTP/2, some versions of curl lose a response that comes before the end of the body.
        wait_until("curl gets the response", || {
            try_curl(rpc, &arguments).is_ok_and(|got| {
                assert_eq!(got.status, 413, "{version} {more:?}");
                assert!(got.body.contains("oversize"), "{}", got.body);
                true
            })
        });
    }
}

/// Checks that a client that goes away cancels its call.
fn cancels(open: &str, rpc: &str, version: &str) {
    let wait = request("wait", json!([3600]));
    let mut client = curl::command(rpc, &[version, "--data", &wait]);
    let mut client = client.stdout(Stdio::null()).spawn().expect("it is here");
    wait_until("the call runs", || count(open).starts_with("1 "));
    client.kill().expect("it runs");
    client.wait().expect("it is our child");
    wait_until("the call is cancelled", || count(open).starts_with("0 "));
}

fn is_called_over_web_socket(rpc: &str) {
    let url = rpc.replace("http://", "ws://");
    let call = |arguments: &[&str]| {
        let mut command = Command::new(DUET_RPC);
        command.args(["call", "--connect", &url]).args(arguments);
        let output = run(command, b"");
        let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
        (output.status.code(), said)
    };
    assert_eq!(call(&["divide", "[1,4]"]), (Some(0), "0.25\n".to_owned()));
    let (code, said) = call(&["divide", "[1,0]"]);
    assert!(code != Some(0) && said.contains("division by zero"), "{said}");
}
