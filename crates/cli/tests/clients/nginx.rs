//! nginx in front of the daemon: TLS and HTTP/2 outside, plain HTTP and WebSocket inside.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::certified::Certified;
use super::curl::{self, PING, curl};
use super::support::listening::{HTTP, Server, WS, wait_until};
use super::support::programs::example;
use super::websockets::{TOKEN, node_over_tls, python_over_tls};
use super::{has, skip};

/// A running nginx, stopped on drop.
struct Nginx {
    process: Child,
    port: u16,
}

impl Nginx {
    fn start(certified: &Certified, rpc: &Server, mcp: &Server) -> Self {
        // A port that was free just now.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let port = port.expect("a port").port();
        // The server of docs/tls.md, and beside its locations one for MCP.
        let ws = "location = /ws {";
        let mcp = format!("proxy_pass http://{}/mcp;", mcp.url("http").authority);
        let server = include_str!("nginx_server.conf")
            .replace("listen 443", &format!("listen 127.0.0.1:{port}"))
            .replace("/etc/ssl/rpc.pem", &certified.certificate)
            .replace("/etc/ssl/rpc.key", &certified.key)
            .replace("127.0.0.1:4000", &rpc.url("http").authority)
            .replace("127.0.0.1:4001", &rpc.url("ws").authority)
            .replace(ws, &format!("location = /mcp {{ {mcp} }}\n{ws}"));
        let config = include_str!("nginx.conf")
            .replace("FOLDER", &certified.folder.text(""))
            .replace("SERVER", &server);
        let mut command = Command::new("nginx");
        command.args(["-p", &certified.folder.text("")]);
        command.args(["-c", &certified.folder.write("nginx.conf", config)]);
        let process = command.stdin(Stdio::null()).spawn().expect("it is installed");
        let nginx = Nginx { process, port };
        wait_until("nginx listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        nginx
    }

    fn url(&self, scheme: &str, path: &str) -> String {
        format!("{scheme}://127.0.0.1:{}{path}", self.port)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
    }
}

#[test]
fn t1_t5_nginx_ends_tls_and_http_2_in_front_of_the_daemon() {
    if !has("nginx") || !has("curl") {
        return skip("nginx with curl", "one of them is not installed");
    }
    let certified = Certified::new();
    let tokens = certified.folder.write("tokens", TOKEN);
    let rpc = Server::rpc("agent", &[HTTP, WS], &["--token-file", &tokens]);
    let mut mcp = Command::new(example("duet-rpc", "mcp_server"));
    mcp.args(["--listen", "http://127.0.0.1:0/mcp"]);
    let mcp = Server::spawn(mcp, 1);
    let nginx = Nginx::start(&certified, &rpc, &mcp);
    for version in ["--http1.1", "--http2"] {
        posts_pass(&nginx.url("https", "/rpc"), version, &certified.authority);
        events_pass(&nginx.url("https", "/mcp"), version, &certified.authority);
    }
    node_over_tls(&nginx.url("wss", "/ws"), &certified.authority);
    python_over_tls(&nginx.url("wss", "/ws"), &certified.authority);
    drop(nginx);
    rpc.stop();
    mcp.stop();
}

fn posts_pass(url: &str, version: &str, authority: &str) {
    let post = |body: &str, more: &[&str]| {
        curl(url, &[&[version, "--cacert", authority, "--data-binary", body], more].concat())
    };
    let token = ["--oauth2-bearer", TOKEN];
    let got = post(PING, &token);
    assert_eq!(got.status, 200, "{}", got.body);
    assert_eq!(got.head.starts_with("http/2"), version == "--http2", "{}", got.head);
    assert!(got.body.contains("\"pong\""), "{}", got.body);
    let echo =
        |text: &str| json!({"jsonrpc": "2.0", "id": 1, "method": "system.echo", "params": [text]});
    // nginx keeps a long body in a file, and sends it on with a length.
    let long = "x".repeat(100_000);
    let got = post(&echo(&long).to_string(), &token);
    let answer: Value = serde_json::from_str(&got.body).expect("JSON");
    assert_eq!(answer["result"][0], json!(long));
    assert_eq!(post(PING, &[]).status, 401);
    let foreign = ["--header", "Origin: https://evil.example"];
    assert_eq!(post(PING, &[&token[..], &foreign].concat()).status, 403);
}

/// Checks that progress comes while the tool runs, and that a client that goes away cancels it.
fn events_pass(url: &str, version: &str, authority: &str) {
    let call = |name: &str, limit: u64| {
        let (arguments, meta) = (json!({"limit": limit}), json!({"progressToken": 1}));
        let params = json!({"name": name, "arguments": arguments, "_meta": meta});
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
    };
    let accept = ["--header", "Accept: application/json, text/event-stream"];
    let options = [&[version, "--cacert", authority], &accept[..]].concat();
    let is_running = || {
        let status = call("status", 0);
        let got = curl(url, &[&options[..], &["--data", &status]].concat());
        got.body.contains(r#""structuredContent":{"running":1}"#)
    };
    let long = call("count_primes", 100_000_000);
    let options = [&options[..], &["--no-buffer", "--data", &long]].concat();
    let mut client = curl::command(url, &options);
    let mut client = client.stdout(Stdio::piped()).spawn().expect("it is here");
    let lines = BufReader::new(client.stdout.take().expect("a pipe")).lines();
    let mut events = lines.map_while(Result::ok).filter(|line| line.starts_with("data: "));
    for _ in 0..3 {
        let event = events.next().expect("an event");
        assert!(event.contains("notifications/progress"), "{event}");
    }
    assert!(is_running());
    client.kill().expect("it runs");
    client.wait().expect("it is our child");
    wait_until("the tool is cancelled", || !is_running());
}
