//! curl as an HTTP client.

use std::panic::catch_unwind;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::certificates::Authority;
use super::certified::Certified;
use super::sabotage::SocketTap;
use super::support::folder::Folder;
use super::support::listening::{HTTP, Server, Url};
use super::{has, skip};

/// Response that curl received.
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// A curl with options that show everything.
pub(crate) fn command(url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "30", "--noproxy", "*"]);
    command.args(["--dump-header", "-", "--write-out", "\n%{http_code}"]);
    command.args(arguments).arg(url).stdin(Stdio::null());
    command
}

/// Runs curl with these arguments.
pub(crate) fn curl(url: &str, arguments: &[&str]) -> Got {
    try_curl(url, arguments).unwrap_or_else(|said| panic!("{arguments:?}: {said}"))
}

/// Runs curl with these arguments. The error is its reason.
pub(crate) fn try_curl(url: &str, arguments: &[&str]) -> Result<Got, String> {
    let output = command(url, arguments).output().expect("the program starts");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let (text, status) = text.rsplit_once('\n').expect("the status stands last");
    // Heads of interim responses come before the final one.
    let versions = ["HTTP/1.0 ", "HTTP/1.1 ", "HTTP/2 "];
    let start = versions.into_iter().filter_map(|it| text.rfind(it)).max().expect("a head");
    let (head, body) = text[start..].split_once("\r\n\r\n").expect("a head ends");
    Ok(Got {
        status: status.parse().expect("a number"),
        head: head.to_lowercase(),
        body: body.to_owned(),
    })
}

pub(crate) const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"system.ping"}"#;
const NOTE: &str = r#"{"jsonrpc":"2.0","method":"system.ping"}"#;

#[test]
fn t2_t3_curl_is_served_and_refused() {
    if !has("curl") {
        return skip("curl", "it is not installed");
    }
    let dialogue = |rule: Option<&str>| {
        let server = Server::rpc("agent", &[HTTP], &["--max-message-bytes", "100000"]);
        let tap = rule.map(|rule| SocketTap::start(rule, &server.url("http").text));
        is_served_and_refused(tap.as_ref().map_or(&server.url("http").text, |tap| &tap.url));
        server.stop();
    };
    dialogue(None);
    dialogue(Some("delay=0s"));
    let is_broken = catch_unwind(|| dialogue(Some("corrupt=bit dir:s2c")));
    assert!(is_broken.is_err(), "curl does not notice the broken daemon");
}

fn is_served_and_refused(url: &str) {
    let json = ["--header", "Content-Type: application/json"];
    let post = |body: &str, more: &[&str]| {
        curl(url, &[&["--data-binary", body], &json[..], more].concat())
    };
    // A request, with any content type.
    let pong = json!({"jsonrpc": "2.0", "id": 1, "result": "pong"});
    for got in [post(PING, &[]), curl(url, &["--data", PING]), post(PING, &["--http1.0"])] {
        assert_eq!(got.status, 200, "{}", got.head);
        assert!(got.head.contains("content-type: application/json"), "{}", got.head);
        assert_eq!(serde_json::from_str::<Value>(&got.body).expect("JSON"), pong);
    }
    // Messages without an answer.
    let got = post(NOTE, &[]);
    assert_eq!((got.status, &*got.body), (202, ""));
    let got = post(&format!("[{NOTE},{NOTE}]"), &[]);
    assert_eq!((got.status, &*got.body), (202, ""));
    // A batch, and a body that is not JSON.
    let got = post(&format!("[{PING},{NOTE},1]"), &[]);
    let answers: Vec<Value> = serde_json::from_str(&got.body).expect("JSON");
    assert_eq!((got.status, answers.len()), (200, 2), "{answers:?}");
    let got = post("{", &[]);
    let answer: Value = serde_json::from_str(&got.body).expect("JSON");
    assert_eq!((got.status, &answer["error"]["code"]), (200, &json!(-32700)));
    // A long body, before which curl waits for `100 Continue`, and a chunked body.
    let long = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"system.echo","params":["{}"]}}"#,
        "x".repeat(90_000)
    );
    for more in [&["--expect100-timeout", "20"][..], &["--header", "Transfer-Encoding: chunked"]] {
        let got = post(&long, more);
        let answer: Value = serde_json::from_str(&got.body).expect("JSON");
        assert_eq!(got.status, 200, "{more:?}");
        assert_eq!(answer["result"][0].as_str().map(str::len), Some(90_000), "{more:?}");
    }
    // Too long, foreign origin or host, wrong method, wrong path.
    let got = post(&"x".repeat(100_001), &["--header", "Expect:"]);
    let answer: Value = serde_json::from_str(&got.body).expect("JSON");
    assert_eq!((got.status, &answer["error"]["data"]["reason"]), (413, &json!("oversize")));
    assert_eq!(post(PING, &["--header", "Origin: https://evil.example"]).status, 403);
    assert_eq!(post(PING, &["--header", "Origin: null"]).status, 403);
    assert_eq!(post(PING, &["--header", "Host: evil.example"]).status, 403);
    assert_eq!(curl(url, &[]).status, 405);
    assert_eq!(curl(&format!("{url}elsewhere"), &["--data", PING]).status, 404);
    // The second request reuses the connection.
    let mut command = Command::new("curl");
    command.args(["--silent", "--noproxy", "*", "--max-time", "30", "--data", PING]);
    command.args(["--write-out", " %{http_code} %{num_connects}\n", url, url]);
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let ends: Vec<_> = text.lines().filter_map(|line| line.split_once(' ')).collect();
    assert_eq!(ends.iter().map(|(_, end)| *end).collect::<Vec<_>>(), ["200 1", "200 0"], "{text}");
}

#[test]
fn t3_curl_needs_the_token() {
    if !has("curl") {
        return skip("curl", "it is not installed");
    }
    let folder = Folder::new();
    let path = folder.write("token", "open-sesame\n");
    let server = Server::rpc("agent", &[HTTP], &["--token-file", &path]);
    let url = &server.url("http").text;
    let got = curl(url, &["--data", PING]);
    assert_eq!(got.status, 401);
    assert!(got.head.contains("www-authenticate: bearer"), "{}", got.head);
    assert_eq!(curl(url, &["--data", PING, "--oauth2-bearer", "open-sesam"]).status, 401);
    assert_eq!(curl(url, &["--data", PING, "--oauth2-bearer", "open-sesame"]).status, 200);
    server.stop();
}

#[test]
fn t3_t5_curl_is_served_and_refused_over_tls() {
    if !has("curl") {
        return skip("curl", "it is not installed");
    }
    let certified = Certified::new();
    let other = certified.folder.write("other.pem", Authority::new("Other CA").pem());
    let tokens = certified.folder.write("token", "open-sesame\n");
    let options = [&["--token-file", &tokens][..], &certified.options()].concat();
    let server = Server::rpc("agent", &["https://127.0.0.1:0/"], &options);
    let Url { text: url, authority, .. } = server.url("https");
    let ping = ["--data", PING, "--oauth2-bearer", "open-sesame"];
    let trust = ["--cacert", &*certified.authority];
    // It offers HTTP/2, which the daemon does not speak.
    for more in [&["--http1.1"][..], &["--http2"], &["--tlsv1.3"], &["--tls-max", "1.2"]] {
        let got = curl(url, &[&ping[..], &trust, more].concat());
        assert_eq!(got.status, 200, "{more:?} {}", got.head);
        assert!(got.head.starts_with("http/1.1") && got.body.contains("\"pong\""), "{more:?}");
    }
    let by_name = url.replace("127.0.0.1", "localhost");
    assert_eq!(curl(&by_name, &[&ping[..], &trust].concat()).status, 200);
    assert_eq!(curl(url, &[&["--data", PING], &trust[..]].concat()).status, 401);
    // It does not know the authority, or the name is another.
    for wrong in [&[][..], &["--cacert", &other]] {
        let said = try_curl(url, &[&ping[..], wrong].concat()).err().expect("it refuses");
        assert!(said.contains("certificate"), "{said}");
    }
    let elsewhere = ["--connect-to", &format!("::{authority}")];
    let refused = try_curl("https://evil.example/", &[&ping[..], &trust, &elsewhere].concat());
    let said = refused.err().expect("it refuses");
    assert!(said.contains("evil.example"), "{said}");
    // Without TLS.
    let got = curl(&format!("http://{authority}/"), &ping);
    assert_eq!(got.status, 400);
    assert!(got.body.contains("TLS") && got.body.contains("https"), "{}", got.body);
    server.stop();
}
