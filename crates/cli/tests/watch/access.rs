//! Requests that are refused: without the token, to another host, from another page.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::support::daemon::HANG;
use super::support::folder::Folder;
use super::{WatchServer, browse, traces};

/// Sends a request head. Returns the status and the whole answer.
fn ask(server: &WatchServer, target: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let mut stream = TcpStream::connect(server.host()).expect("it listens");
    stream.set_read_timeout(Some(HANG)).expect("a timeout");
    let lines: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    write!(stream, "GET {target} HTTP/1.1\r\n{lines}\r\n").expect("it reads");
    let mut answer = vec![0; 64 * 1024];
    let count = stream.read(&mut answer).expect("it answers");
    let answer = String::from_utf8_lossy(&answer[..count]).into_owned();
    let status = answer.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
    (status, answer)
}

#[test]
fn t3_only_the_own_page_with_its_token_reaches_the_server() {
    let folder = Folder::new();
    folder.write("known.jsonl", traces::known());
    let server = WatchServer::start(&folder.path(""));
    let (host, token) = (server.host(), server.token());
    let port = host.rsplit(':').next().expect("a port");
    let own = format!("http://{host}");
    let with_token = format!("/?token={token}");
    let cookie = format!("duet_rpc_watch_{port}={token}");
    let other = format!("evil.example:{port}");
    let close = ("Connection", "close");
    let upgrade = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let socket = |rest: &[(&'static str, String)]| -> u16 {
        let rest = rest.iter().map(|(name, value)| (*name, &**value));
        let headers: Vec<_> = upgrade.into_iter().chain(rest).collect();
        ask(&server, "/rpc", &headers).0
    };
    let (host_line, cookie_line) = (("Host", host.to_owned()), ("Cookie", cookie.clone()));
    let rows = [
        ("the page with its token", ask(&server, &with_token, &[("Host", host), close]).0, 200),
        (
            "the page with the cookie",
            ask(&server, "/", &[("Host", host), ("Cookie", &cookie), close]).0,
            200,
        ),
        (
            "a file with the cookie",
            ask(&server, "/main.js", &[("Host", host), ("Cookie", &cookie), close]).0,
            200,
        ),
        ("no such file", ask(&server, "/x", &[("Host", host), ("Cookie", &cookie), close]).0, 404),
        ("no token", ask(&server, "/", &[("Host", host), close]).0, 401),
        ("a file without a token", ask(&server, "/main.js", &[("Host", host), close]).0, 401),
        ("another host", ask(&server, &with_token, &[("Host", &other), close]).0, 403),
        (
            "another origin",
            ask(&server, &with_token, &[("Host", host), ("Origin", "http://evil.example"), close])
                .0,
            403,
        ),
        (
            "a socket of the page",
            socket(&[host_line.clone(), cookie_line.clone(), ("Origin", own)]),
            101,
        ),
        ("a socket without a token", socket(std::slice::from_ref(&host_line)), 401),
        (
            "a socket of another page",
            socket(&[
                host_line.clone(),
                cookie_line.clone(),
                ("Origin", "http://evil.example".to_owned()),
            ]),
            403,
        ),
        (
            "a socket of a page without origin",
            socket(&[host_line, cookie_line.clone(), ("Origin", "null".to_owned())]),
            403,
        ),
        ("a socket to another host", socket(&[("Host", other.clone()), cookie_line]), 403),
    ];
    for (what, found, expect) in rows {
        assert_eq!(found, expect, "{what}");
    }

    let (_, answer) = ask(&server, &with_token, &[("Host", host), close]);
    let head = answer.split("\r\n\r\n").next().unwrap_or_default().to_ascii_lowercase();
    for expected in [
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:",
        "; path=/; httponly; samesite=strict",
        "referrer-policy: no-referrer",
        "x-content-type-options: nosniff",
    ] {
        assert!(head.contains(expected), "{expected}: {head}");
    }
}

/// A page of another port is the same site for a browser, so it sends the cookie along.
#[test]
fn t3_a_page_of_another_port_cannot_read_traces() {
    let folder = Folder::new();
    folder.write("known.jsonl", traces::known());
    let server = WatchServer::start(&folder.path(""));
    browse("foreign.mjs", &[&server.url]);
}
