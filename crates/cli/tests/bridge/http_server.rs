//! B1, B2: servers behind `--connect http://`: order, delivery at the end, and refusals.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};

use rustix::process::{Pid, Signal, kill_process};

use super::support::folder::Folder;
use super::support::programs::DUET_RPC;

/// A server that sends the body of each request to the test, and responds with the status and the body that `respond`
/// returns for it. Returns its address.
fn serve(
    respond: impl Fn(&str) -> (&'static str, String) + Send + Sync + 'static,
) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let (heard, hears) = mpsc::channel();
    let respond = Arc::new(respond);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (respond, heard) = (Arc::clone(&respond), heard.clone());
            let mut stream = BufReader::new(stream.expect("a connection"));
            std::thread::spawn(move || {
                while let Some(body) = read_request(&mut stream) {
                    let _ = heard.send(body.clone());
                    let (status, body) = respond(&body);
                    let length = body.len();
                    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n");
                    let _ = stream.get_mut().write_all((head + &body).as_bytes());
                }
            });
        }
    });
    (url, hears)
}

/// The body of the next request; `None` at the end of the connection.
fn read_request(stream: &mut impl BufRead) -> Option<String> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if !stream.read_line(&mut line).is_ok_and(|count| count > 0) {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = value.trim_end().parse().expect("a number");
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    String::from_utf8(body).ok()
}

/// A bridge from stdin to this server.
fn bridge(url: &str, options: &[&str]) -> Child {
    let mut command = Command::new(DUET_RPC);
    command.args(["bridge", "--connect", url]).args(options).env_remove("DUET_RPC_LOG");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

fn note(number: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"note","params":[{number}]}}"#)
}

fn notes() -> Vec<String> {
    (0..40).map(note).collect()
}

const REQUEST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"work"}"#;

#[test]
fn b1_http_server_gets_every_message_in_order_although_the_input_has_ended() {
    let (end, has_ended) = mpsc::channel();
    let has_ended = std::sync::Mutex::new(has_ended);
    let (url, hears) = serve(move |body| {
        if body == note(0) {
            has_ended.lock().expect("no panic").recv().expect("the test goes on");
        }
        // A bridge that does not wait for the last response cannot report this one.
        (if body == note(39) { "500 x" } else { "202 Accepted" }, String::new())
    });
    let mut bridge = bridge(&url, &[]);
    let lines = notes().join("\n") + "\n";
    bridge.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("it reads");
    end.send(()).expect("it serves");
    let output = bridge.wait_with_output().expect("our child");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(hears.try_iter().collect::<Vec<_>>(), notes(), "{said}");
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("the server refused: 500 Internal Server Error"), "{said}");
    assert!(!said.contains("messages lost"), "{said}");
}

#[test]
fn b1_http_request_that_takes_long_keeps_no_message_waiting() {
    let (go, goes) = mpsc::channel();
    let goes = std::sync::Mutex::new(goes);
    let (url, hears) = serve(move |body| {
        if body != REQUEST {
            return ("202 Accepted", String::new());
        }
        goes.lock().expect("no panic").recv().expect("the test goes on");
        ("200 OK", r#"{"jsonrpc":"2.0","id":1,"result":7}"#.to_owned())
    });
    let mut bridge = bridge(&url, &[]);
    let lines = format!("{REQUEST}\n{}\n", notes().join("\n"));
    bridge.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("it reads");
    let mut got: Vec<_> = hears.iter().take(41).collect();
    go.send(()).expect("it serves");
    let output = bridge.wait_with_output().expect("our child");
    // The request and the first notification come on two connections.
    got.retain(|it| it != REQUEST);
    assert_eq!(got, notes());
    assert_eq!(output.stderr, b"");
    assert_eq!(output.stdout, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":7}\n");
}

#[test]
fn b1_messages_that_an_http_server_has_not_accepted_at_the_end_are_logged() {
    let (_go, goes) = mpsc::channel::<()>();
    let goes = std::sync::Mutex::new(goes);
    let (url, hears) = serve(move |body| {
        if body == note(3) {
            let _ = goes.lock().expect("no panic").recv();
        }
        ("202 Accepted", String::new())
    });
    let mut bridge = bridge(&url, &[]);
    let mut stdin = bridge.stdin.take().expect("a pipe");
    stdin.write_all((notes().join("\n") + "\n").as_bytes()).expect("it reads");
    assert_eq!(hears.iter().take(4).collect::<Vec<_>>(), notes()[..4]);
    kill_process(Pid::from_child(&bridge), Signal::TERM).expect("it runs");
    let output = bridge.wait_with_output().expect("our child");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("messages lost") && said.contains("count=37"), "{said}");
    drop(stdin);
}

#[test]
fn b2_refusal_of_an_http_server_is_logged_and_ends_the_bridge_with_5() {
    let folder = Folder::new();
    let token = folder.path("token");
    std::fs::write(&token, "s3cret\n").expect("it is written");
    let token = token.to_str().expect("text");
    let with_token = ["--to-token-file", token];
    let rejected = format!("401 Unauthorized; it does not accept the token in {token}");
    let rows: [(&str, &[&str], &str); 6] = [
        ("401 x", &[], "401 Unauthorized; `--to-token-file` shows it a token"),
        ("401 x", &with_token, &rejected),
        ("403 x", &[], "403 Forbidden; does the server accept the host name in the address?"),
        ("404 x", &[], "404 Not Found; is the path of the address right?"),
        ("405 x", &[], "405 Method Not Allowed"),
        ("302 x", &[], "302 Found"),
    ];
    for (status, options, why) in rows {
        for message in [REQUEST, &note(0)] {
            let (url, _hears) = serve(move |_| (status, String::new()));
            let mut bridge = bridge(&url, options);
            let line = format!("{message}\n");
            bridge.stdin.take().expect("a pipe").write_all(line.as_bytes()).expect("it reads");
            let output = bridge.wait_with_output().expect("our child");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(5), "{status}: {said}");
            let expected = format!("cannot reach {url}: the server refused: {why}");
            assert!(said.contains(&expected), "{status}: {said}");
            let answer = String::from_utf8_lossy(&output.stdout);
            assert_eq!(answer.contains("-32000"), message == REQUEST, "{status}: {answer}");
        }
    }
}
