//! Calls to a running server, over every transport (T2, T3).

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use crate::support::folder::Folder;
use crate::support::listening::{Server, TCP, WS, wait_until};
use crate::support::pairs;
use crate::{Ended, call, call_with};

const TOKEN: &str = "open-CANARY-sesame";

#[test]
fn t2_a_running_server_is_called_at_its_address() {
    let server = Server::testbed_everywhere(&[]);
    for url in &server.urls {
        let to = |words: &[&str]| call(&[&["--connect", &url.text], words].concat());
        to(&["system.ping"]).has_result(r#""pong""#);
        to(&["system.echo", r#"{"a":[1,null,"é"]}"#]).has_result(r#"{"a":[1,null,"é"]}"#);
        to(&["test.fail", r#"{"code":5,"message":"no"}"#]).has_failed(3, &["no (5)"]);
        to(&["no.such.method"]).has_failed(3, &["-32601"]);
        to(&["--timeout", "0.2", "test.sleep", r#"{"ms":60000}"#]).has_failed(4, &["0.2 s"]);
        let noted = to(&["--notify", "test.sleep", r#"{"ms":0}"#]);
        assert_eq!((noted.code, &*noted.out, &*noted.err), (Some(0), "", ""), "{}", url.text);
        server.daemon().wait_for("test.sleep begins");
        // More than a pipe or a socket takes in one write, in both directions.
        let long = format!(r#"["{}"]"#, "x".repeat(900_000));
        let answer = call_with(&["--connect", &url.text, "system.echo", "-"], long.as_bytes());
        assert_eq!(answer.code, Some(0), "{}: {}", url.text, answer.err);
        assert!(answer.out.contains(&long), "{}", url.text);
        // A call does not stop a server that it did not start.
        to(&["shutdown"]).has_result(r#"{"message":"Shutting down gracefully"}"#);
        to(&["system.ping"]).has_result(r#""pong""#);
    }
    server.stop();
}

#[test]
fn t2_call_takes_the_framing_of_the_server() {
    for framing in ["lsp", "length"] {
        let server = Server::rpc("editor", &[TCP], &["--framing", framing]);
        let words = ["--framing", framing, "--connect", &server.urls[0].text, "version"];
        call(&words).has_result(r#"{"version":"0.1.0"}"#);
        server.stop();
    }
}

#[test]
fn t3_call_sends_the_token() {
    let folder = Folder::new();
    let path = folder.write("token", format!("{TOKEN}\n"));
    let wrong = folder.write("wrong", format!("{TOKEN}x\n"));
    let server = Server::testbed_everywhere(&["--token-file", &path]);
    for url in ["ws", "http"].map(|scheme| &server.url(scheme).text) {
        let refused = call(&["--connect", url, "system.ping"]);
        refused.has_failed(5, &["cannot reach", url, "401", "--token-file"]);
        let noted = call(&["--connect", url, "--notify", "system.ping"]);
        noted.has_failed(5, &["401", "--token-file"]);
        let refused = call(&["--token-file", &wrong, "--connect", url, "system.ping"]);
        assert!(!refused.err.contains("CANARY"), "{}", refused.err);
        let reason = format!("401 Unauthorized; it does not accept the token in {wrong}");
        refused.has_failed(5, &["cannot reach", url, &reason]);
        call(&["--token-file", &path, "--connect", url, "system.ping"]).has_result(r#""pong""#);
        let elsewhere = format!("{url}elsewhere");
        let refused = call(&["--token-file", &path, "--connect", &elsewhere, "system.ping"]);
        refused.has_failed(5, &["404", "path"]);
        let missing = call(&["--token-file", "/no/such/file", "--connect", url, "system.ping"]);
        missing.has_failed(1, &["token"]);
    }
    let end = server.end(rustix::process::Signal::TERM);
    assert!(!end.lines.concat().contains("CANARY"), "{:?}", end.lines);
}

#[test]
fn t2_an_address_without_a_listener_is_reported() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("the listener has an address").port();
    drop(free);
    for url in ["tcp://127.0.0.1:P", "ws://127.0.0.1:P/", "http://127.0.0.1:P/"] {
        let url = url.replace('P', &port.to_string());
        call(&["--connect", &url, "system.ping"]).has_failed(5, &["cannot reach", &url]);
    }
    call(&["--connect", "unix:///no/such/socket", "system.ping"]).has_failed(5, &["cannot reach"]);
    for url in ["nowhere", "tcp://127.0.0.1", "stdio:"] {
        let ended = call(&["--connect", url, "system.ping"]);
        assert_eq!((ended.code, &*ended.out), (Some(2), ""), "{url}: {}", ended.err);
    }
    let both = call(&["--connect", TCP, "system.ping", "--", "sh"]);
    assert_eq!((both.code, &*both.out), (Some(2), ""), "{}", both.err);
}

/// Calls a server over this scheme that sends these bytes to the first client.
fn call_one_that_says(said: &'static [u8], scheme: &str, words: &[&str]) -> Ended {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("the listener has an address");
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client connects");
        let _ = stream.read(&mut [0; 10]);
        let _ = stream.write_all(said);
        // Closing with unread bytes would reset the connection and lose the data.
        let _ = stream.shutdown(Shutdown::Write);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let path = if scheme == "tcp" { "" } else { "/" };
    let url = format!("{scheme}://{address}{path}");
    let ended = call(&[&["--timeout", "20", "--connect", &url], words].concat());
    server.join().expect("the writer thread does not panic");
    ended
}

/// The call ends whatever the other side sends, and its exit code is never that of an error response. The
/// code is 5 if there was no connection, which includes a failed WebSocket handshake, and otherwise 6.
#[test]
fn t2_p6_a_server_that_speaks_another_protocol_is_not_an_error_answer() {
    let too_large = "the server refused: 413 Content Too Large; the server does not accept";
    let bad = "the server refused: 400 Bad Request; if the port speaks TLS, begin the address with";
    let words: [(&[u8], &str); 11] = [
        (b"", "the connection broke before the answer came"),
        (b"220 ready\r\n", "the server does not speak HTTP"),
        (b"hello\n", "the server does not speak HTTP"),
        (b"\0\0\0\0\0\0", "the server does not speak HTTP"),
        (b"\x15\x03\x01\0\x02\x02\x46", "the server does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", "the response is not JSON"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "the connection broke"),
        (b"HTTP/1.1 200 OK\r\n\r\n{}", "the response is not a JSON-RPC answer"),
        (b"HTTP/1.1 413 x\r\n\r\n", too_large),
        (b"HTTP/1.1 400 x\r\n\r\n", bad),
        (b"HTTP/1.1 503 x\r\n\r\n", "the server refused: 503 Service Unavailable; try again later"),
    ];
    for ((said, over_http), scheme) in pairs(words, ["tcp", "ws", "http"]) {
        let ended = call_one_that_says(said, scheme, &["system.ping"]);
        let case = format!("{scheme} {said:?}: {}", ended.err);
        let (code, told) = match scheme {
            "ws" => (5, "cannot reach"),
            "tcp" => (6, "without an answer"),
            // The server refuses the connection.
            _ if said.starts_with(b"HTTP/1.1 503") || said.starts_with(b"HTTP/1.1 400") => {
                (5, over_http)
            }
            _ => (6, over_http),
        };
        assert!(ended.code == Some(code) && ended.out.is_empty(), "{case}");
        assert!(ended.err.contains(told) && !ended.err.contains("panicked"), "{case}");
    }
}

#[test]
fn p2_a_handshake_timeout_is_exit_code_4() {
    // The system accepts the connection, and nobody answers the request.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("ws://{}/", listener.local_addr().expect("the listener has an address"));
    let ended = call(&["--timeout", "0.3", "--connect", &url, "system.ping"]);
    ended.has_failed(4, &["cannot reach", &url, "within 0.3 s"]);
}

#[test]
fn t2_p6_the_close_reason_of_a_web_socket_is_reported() {
    let server = Server::testbed("agent", &[WS], &[]);
    let params = format!("[\"{}\"]", "x".repeat(2_000_000));
    let url = &server.urls[0].text;
    let ended = call_with(&["--connect", url, "system.echo", "-"], params.as_bytes());
    ended.has_failed(6, &["no answer: the remote closed with code 1009 (a message is too large"]);
    server.stop();
}

#[test]
fn t2_p6_a_notification_refused_over_http_is_a_failure() {
    let unavailable = "the server refused: 503 Service Unavailable; try again later";
    let rows: [(&[u8], i32, &str); 7] = [
        (b"HTTP/1.1 202 x\r\n\r\n", 0, ""),
        (b"HTTP/1.1 503 x\r\n\r\n", 5, unavailable),
        (b"HTTP/1.1 400 x\r\n\r\n", 5, "the server refused: 400 Bad Request; if the port"),
        (b"HTTP/1.1 413 x\r\n\r\n", 6, "not delivered: the server refused: 413 Content Too Large"),
        (b"HTTP/1.1 404 x\r\n\r\n", 5, "the server refused: 404 Not Found"),
        (b"220 ready\r\n", 6, "not delivered: the server does not speak HTTP"),
        (b"", 6, "not delivered: the connection broke before the answer came"),
    ];
    for (said, code, told) in rows {
        let ended = call_one_that_says(said, "http", &["--notify", "system.ping"]);
        let case = format!("{said:?}: {}", ended.err);
        assert!(ended.code == Some(code) && ended.out.is_empty(), "{case}");
        assert!(ended.err.contains(told) && (code != 0 || ended.err.is_empty()), "{case}");
    }
}

/// On TCP and Unix sockets the server says so in an error response without an id.
#[test]
fn p8_a_full_server_is_exit_code_5_on_every_transport() {
    for scheme in ["tcp", "unix", "ws", "http"] {
        let server = Server::rpc_everywhere(&["--max-connections", "1"]);
        let _first = TcpStream::connect(&server.url("tcp").authority).expect("it listens");
        let url = &server.url(scheme).text;
        let busy = ["Server busy", "503 Service Unavailable; try again later"];
        wait_until("the server is full", || {
            let ended = call(&["--connect", url, "system.ping"]);
            ended.code == Some(5) && busy.iter().any(|text| ended.err.contains(text))
        });
        // An early response is never lost.
        for _ in 0..10 {
            let ended = call(&["--connect", url, "system.ping"]);
            assert_eq!(ended.code, Some(5), "{scheme}: {}", ended.err);
            assert!(busy.iter().any(|text| ended.err.contains(text)), "{scheme}: {}", ended.err);
            assert!(!ended.err.contains("does the server run"), "{}", ended.err);
        }
        server.stop();
    }
}
