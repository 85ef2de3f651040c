//! HTTP requests: statuses, connections, bodies (T2).

use std::io::Write;

use serde_json::{Value, json};

use crate::client::Client;
use crate::http::{Http, Response, head, once, post};
use crate::support::daemon::request;
use crate::support::listening::{HTTP, Server, Url};

const PING: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"system.ping"}"#;
const PONG: &str = r#"{"jsonrpc":"2.0","id":1,"result":"pong"}"#;
const NOTE: &[u8] = br#"{"jsonrpc":"2.0","method":"system.ping"}"#;

fn server() -> Server {
    Server::rpc("agent", &[HTTP], &["--max-message-bytes", "10000"])
}

fn posted(url: &Url, body: &[u8]) -> Response {
    once(url, &post(url, &[], body))
}

/// Sends a hand-written request, with the right host.
fn raw(url: &Url, text: &str) -> Response {
    once(url, text.replace("HOST", &url.authority).as_bytes())
}

#[test]
fn t2_an_answer_is_200_and_no_answer_is_202() {
    let server = server();
    let url = server.url("http");
    for body in [
        PING,
        b"{",
        b"",
        b"[]",
        b"[1]",
        br#"{"jsonrpc":"2.0","id":1,"method":"no.such.method"}"#,
        br#"[{"jsonrpc":"2.0","id":1,"method":"system.ping"}]"#,
    ] {
        let response = posted(url, body);
        assert_eq!(response.status, 200, "{response:?}");
        assert_eq!(response.header("content-type"), Some("application/json"));
        let _: Value = serde_json::from_str(&response.body).expect("JSON");
    }
    let batch = [b"[", NOTE, b",", NOTE, b"]"].concat();
    let stray = br#"{"jsonrpc":"2.0","id":1,"result":1}"#;
    for body in [NOTE, &batch, stray, br#"{"jsonrpc":"2.0","method":"no.such.method"}"#] {
        let response = posted(url, body);
        assert_eq!((response.status, &*response.body), (202, ""), "{response:?}");
    }
    server.stop();
}

#[test]
fn t2_an_oversize_body_is_413_and_closes_the_connection() {
    let server = server();
    let url = server.url("http");
    let long =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":["{}"]}}"#, "x".repeat(10_000));
    let chunked = format!(
        "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{long}\r\n0\r\n\r\n",
        long.len()
    );
    for bytes in [post(url, &[], long.as_bytes()), chunked.replace("HOST", &url.authority).into()] {
        let mut client = Http::connect(url);
        client.send_raw(&bytes);
        let response = client.response().expect("it answers");
        assert_eq!(response.status, 413, "{response:?}");
        let body: Value = serde_json::from_str(&response.body).expect("JSON");
        assert_eq!(body["error"]["code"], -32600);
        assert_eq!(body["error"]["data"], json!({"reason": "oversize"}));
        assert_eq!(body.get("id"), Some(&json!(null)));
        assert!(client.response().is_none(), "it is closed");
    }
    // A body of exactly the limit is fine.
    let fits =
        format!("{}{}", std::str::from_utf8(PING).expect("text"), " ".repeat(10_000 - PING.len()));
    assert_eq!(posted(url, fits.as_bytes()).body, PONG);
    server.stop();
}

#[test]
fn t2_other_requests_get_the_matching_status() {
    let server = server();
    let url = server.url("http");
    let big = "y".repeat(9_000);
    let rows = [
        (405, "GET / HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        (405, "PUT / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 2\r\n\r\n{}"),
        (405, "DELETE / HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        (405, "OPTIONS / HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        (411, "POST / HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        (417, "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 2\r\nExpect: miracles\r\n\r\n{}"),
        (400, "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: gzip\r\n\r\n"),
        (501, "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
        (400, "POST / HTTP/2.0\r\nHost: HOST\r\nContent-Length: 2\r\n\r\n{}"),
        (400, "POST / HTTP/1.1\r\nHost HOST\r\n\r\n"),
        (400, "nonsense\r\n\r\n"),
        (400, "\0\0\0\x05{}\n\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: -2\r\n\r\n{}"),
        (400, "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"),
        (431, &format!("POST / HTTP/1.1\r\nHost: HOST\r\nX: {big}\r\n\r\n")),
        (431, &format!("POST /{big} HTTP/1.1\r\n")),
    ];
    for (status, text) in rows {
        let response = raw(url, text);
        assert_eq!(response.status, status, "{}: {response:?}", &text[..text.len().min(120)]);
        if status == 405 {
            assert_eq!(response.header("allow"), Some("POST"), "{response:?}");
        }
        // The response repeats nothing of the request, and the next one is served.
        assert!(!response.body.contains("yyy"), "{response:?}");
        assert_eq!(posted(url, PING).body, PONG);
    }
    // Of two statements of the body length the chunks count. A proxy in between may believe the other one, so nothing
    // behind the body is served.
    let both = "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let mut client = Http::connect(url);
    let hidden = String::from_utf8(post(url, &[], PING)).expect("text");
    client.send_raw(format!("{}{hidden}", both.replace("HOST", &url.authority)).as_bytes());
    let response = client.response().expect("it answers");
    assert_eq!((response.status, response.header("connection")), (200, Some("close")));
    assert!(response.body.contains("-32700"), "an empty body: {response:?}");
    assert!(client.response().is_none(), "it is closed");
    server.stop();
}

#[test]
fn t2_a_connection_is_kept_and_requests_may_be_pipelined() {
    let server = server();
    let mut client = Http::connect(server.url("http"));
    for id in 0..50 {
        client.check(id);
    }
    for id in 0..50_u64 {
        client.send(request(id, "system.echo", &format!("[{id}]")).as_bytes());
        client.send(NOTE);
    }
    for id in 0..50 {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":[{id}]}}"#);
        assert_eq!(client.receive(), Some(answer), "one after the other");
    }
    assert_eq!(client.response().map(|response| response.status), Some(202));
    // `Connection: close` is honoured.
    let url = server.url("http");
    client.send_raw(&post(url, &[("Connection", "close")], PING));
    assert_eq!(client.response().map(|response| response.body).as_deref(), Some(PONG));
    assert!(client.response().is_none(), "it is closed");
    server.stop();
}

#[test]
fn t2_bodies_in_chunks_after_100_continue_and_from_http_1_0_are_read() {
    let server = server();
    let url = server.url("http");
    let (first, second) = PING.split_at(10);
    let [first, second] = [first, second].map(|part| std::str::from_utf8(part).expect("text"));
    let chunked = format!(
        "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: Chunked\r\n\r\n\
         {:x}\r\n{first}\r\n{:X};name=value\r\n{second}\r\n0\r\nTrailer: x\r\n\r\n",
        first.len(),
        second.len()
    );
    let mut client = Http::connect(url);
    for byte in chunked.replace("HOST", &url.authority).bytes() {
        client.send_raw(&[byte]);
    }
    assert_eq!(client.receive().as_deref(), Some(PONG));
    client.check(2);
    // The daemon sends `100 Continue` before the body.
    let length = PING.len().to_string();
    let headers =
        [("Host", &*url.authority), ("Content-Length", &*length), ("Expect", "100-Continue")];
    client.send_raw(head("POST", "/", &headers).as_bytes());
    assert_eq!(client.response().map(|response| response.status), Some(100));
    client.send_raw(PING);
    assert_eq!(client.receive().as_deref(), Some(PONG));
    // An empty line before the first request, or between two, is ignored.
    client.send_raw(b"\r\n");
    client.check(3);
    // Any content type works, and none.
    client.send_raw(&post(url, &[("X", "y")], PING));
    assert_eq!(client.receive().as_deref(), Some(PONG));
    let old = format!("POST / HTTP/1.0\r\nHost: HOST\r\nContent-Length: {length}\r\n\r\n");
    let old = [old.replace("HOST", &url.authority).as_bytes(), PING].concat();
    let mut client = Http::connect(url);
    client.output.write_all(&old).expect("it reads");
    assert_eq!(client.receive().as_deref(), Some(PONG));
    assert!(client.response().is_none(), "it is closed after one request");
    server.stop();
}
