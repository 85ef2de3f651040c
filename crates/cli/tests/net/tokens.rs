//! Tokens of WebSocket and HTTP clients: places, files with names, files that change; subprotocols (T3).

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use duet_rpc::proto::frame::Framing;
use rustix::process::Signal;

use crate::client::{Client, Way};
use crate::http::{head, once, post};
use crate::support::daemon::{HANG, rpc};
use crate::support::folder::Folder;
use crate::support::listening::{HTTP, Server, TCP, Url, WS, wait_until};
use crate::support::once::{refused, run};
use crate::support::programs::DUET_RPC;
use crate::websocket::{WebSocket, handshake};

const PING: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"system.ping"}"#;

/// The status of a handshake with these headers, and the subprotocol of its answer.
fn upgrade(url: &Url, path: &str, headers: &[(&str, &str)]) -> (u16, Option<String>) {
    let headers = [&handshake(&url.authority), headers].concat();
    match WebSocket::open(url, head("GET", path, &headers).as_bytes()) {
        Ok(mut client) => {
            client.check(1);
            (101, client.subprotocol)
        }
        Err(response) => (response.status, None),
    }
}

#[test]
fn t3_a_browser_can_send_the_token_as_a_subprotocol_and_its_own_page_as_a_cookie() {
    let folder = Folder::new();
    let file = folder.write("tokens", "# users\nada:CANARY1\nCANARY/2=\n");
    let options = ["--token-file", &file, "--log-level", "debug"];
    let server = Server::rpc("agent", &[HTTP, WS], &options);
    let url = server.url("ws");
    let own = format!("http://{}", url.authority);
    let (accepted, refused) = (101, 401);
    let rows: [(&str, &[(&str, &str)], _, _); 9] = [
        ("/", &[("Sec-WebSocket-Protocol", "bearer.CANARY1, mcp")], accepted, Some("mcp")),
        ("/", &[("Sec-WebSocket-Protocol", "mcp, bearer.Q0FOQVJZLzI9")], accepted, Some("mcp")),
        // Without a second subprotocol there is none: the token is never sent back.
        ("/", &[("Sec-WebSocket-Protocol", "bearer.CANARY1")], accepted, None),
        ("/", &[("Sec-WebSocket-Protocol", "bearer.CANARY3, mcp")], refused, None),
        ("/", &[("Origin", &own), ("Cookie", "a=b; duet_rpc_token=CANARY1")], accepted, None),
        ("/", &[("Cookie", "duet_rpc_token=CANARY1")], refused, None),
        ("/?token=CANARY1", &[], refused, None),
        (
            "/",
            &[("Authorization", "Bearer CANARY1"), ("Sec-WebSocket-Protocol", "bearer.CANARY1")],
            accepted,
            None,
        ),
        (
            "/",
            &[("Authorization", "Bearer CANARY1"), ("Sec-WebSocket-Protocol", "bearer.CANARY/2=")],
            400,
            None,
        ),
    ];
    for (path, headers, status, subprotocol) in rows {
        let found = upgrade(url, path, headers);
        assert_eq!(found, (status, subprotocol.map(str::to_owned)), "{path} {headers:?}");
    }
    let end = server.end(Signal::TERM);
    assert!(!end.lines.concat().contains("CANARY"), "the log shows a token: {:?}", end.lines);
}

#[test]
fn t3_a_token_in_the_query_counts_where_it_is_allowed_and_is_not_logged() {
    let folder = Folder::new();
    let file = folder.write("tokens", "ada:CANARY/1\n");
    let options = ["--token-file", &file, "--allow-query-token", "--log-level", "debug"];
    let server = Server::rpc("agent", &[HTTP, WS], &options);
    for (path, [http, ws]) in [
        ("/?token=CANARY%2F1", [200, 101]),
        ("/?a=b&token=CANARY/1", [200, 101]),
        ("/?token=CANARY", [401, 401]),
        ("/", [401, 401]),
        ("/?token=CANARY/1&token=CANARY", [400, 400]),
    ] {
        assert_eq!(upgrade(server.url("ws"), path, &[]).0, ws, "{path}");
        let url = Url { path: path.to_owned(), ..server.url("http").clone() };
        assert_eq!(once(&url, &post(&url, &[], PING)).status, http, "{path}");
    }
    let end = server.end(Signal::TERM);
    assert!(!end.lines.concat().contains("CANARY"), "the log shows a token: {:?}", end.lines);
    let (code, said) = refused(rpc(&["--allow-query-token", "--listen", HTTP]));
    assert_eq!(code, Some(2), "{said}");
}

/// Each request over HTTP is a connection of its own.
#[test]
fn t3_g6_the_log_names_the_caller_and_not_its_token() {
    let folder = Folder::new();
    let file = folder.write("tokens", "ada:CANARY1\nbob:CANARY2\nCANARY3\n");
    let options = ["--token-file", &file, "--log-level", "debug"];
    let server = Server::rpc("agent", &[HTTP, WS, &folder.url("socket"), TCP], &options);
    let bearer = |token: &str| format!("Bearer {token}");
    let (http, ws) = (server.url("http"), server.url("ws"));
    let over_http = |token: &str| {
        let header = [("Authorization", &*bearer(token))];
        assert_eq!(once(http, &post(http, &header, PING)).status, 200);
    };
    let over_ws = |token: &str| {
        assert_eq!(upgrade(ws, "/", &[("Authorization", &bearer(token))]).0, 101);
    };
    let over = |way: Way| way.connect(&server).check(1);
    let user = format!(" identity=uid:{}", rustix::process::geteuid().as_raw());
    let rows: [(&dyn Fn(), &str); 7] = [
        (&|| over_http("CANARY1"), " identity=token:ada"),
        (&|| over_http("CANARY2"), " identity=token:bob"),
        (&|| over_http("CANARY3"), ""),
        (&|| over_ws("CANARY2"), " identity=token:bob"),
        (&|| over_ws("CANARY3"), ""),
        (&|| over(Way::Unix(Framing::Ndjson)), &user),
        (&|| over(Way::Tcp(Framing::Ndjson)), ""),
    ];
    for (place, (connect, identity)) in rows.iter().enumerate() {
        connect();
        let line = server.daemon().wait_for_line(|line| line.contains("connection opened"));
        let (_, said) = line.split_once("connection opened").expect("it has this text");
        assert_eq!(said, format!("{identity} connection={}", place + 1));
    }
    let end = server.end(Signal::TERM);
    assert!(!end.lines.concat().contains("CANARY"), "the log shows a token: {:?}", end.lines);
}

#[test]
fn t3_a_token_file_that_changes_is_read_again() {
    let folder = Folder::new();
    let file = folder.write("tokens", "ada:CANARY1\n");
    let server = Server::rpc("agent", &[HTTP], &["--token-file", &file]);
    let url = server.url("http");
    let status = |url: &Url, token: &str| {
        let header = [("Authorization", &*format!("Bearer {token}"))];
        once(url, &post(url, &header, PING)).status
    };
    assert_eq!((status(url, "CANARY1"), status(url, "CANARY2")), (200, 401));
    folder.write("tokens", "ada:CANARY2\nbob:CANARY3\n");
    wait_until("the new token counts", || status(url, "CANARY2") == 200);
    assert_eq!((status(url, "CANARY1"), status(url, "CANARY3")), (401, 200));
    // A mistake is logged once, and changes nothing.
    folder.write("tokens", "ada:CANARY4\nbob:CANARY 5\n");
    let is_logged = AtomicBool::new(false);
    let (begun, url) = (Instant::now(), url.clone());
    let logged = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_logged.load(Ordering::Relaxed) && begun.elapsed() < HANG {
                assert_eq!((status(&url, "CANARY2"), status(&url, "CANARY4")), (200, 401));
                thread::sleep(Duration::from_millis(50));
            }
        });
        let is_it = |line: &str| line.contains("cannot read the token file again");
        let line = server.daemon().wait_for_line(is_it);
        is_logged.store(true, Ordering::Relaxed);
        line
    });
    let mistake = "line 2: a token is one word of visible ASCII characters";
    assert!(logged.contains(mistake), "{logged}");
    let end = server.end(Signal::TERM);
    let said = end.lines.concat() + &logged;
    assert!(!said.contains("CANARY") && !said.contains(&file), "{said}");
}

#[test]
fn t3_a_client_can_share_the_token_file_with_its_server() {
    let folder = Folder::new();
    let one = folder.write("one", "# mine\nada:CANARY1\n");
    let two = folder.write("two", "ada:CANARY1\nbob:CANARY2\n");
    let server = Server::rpc("agent", &[WS], &["--token-file", &two]);
    let call = |file: &str| {
        let mut command = Command::new(DUET_RPC);
        command.args(["call", "--connect", &server.url("ws").text, "--token-file", file]);
        let output = run(
            {
                command.arg("system.ping");
                command
            },
            b"",
        );
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text"))
    };
    assert_eq!(call(&one), ["\"pong\"\n", ""]);
    let [_, said] = call(&two);
    assert!(said.contains("it contains several tokens") && !said.contains("CANARY"), "{said}");
    server.stop();
}

#[test]
fn t3_the_daemon_speaks_the_subprotocols_of_its_options() {
    let rows: [(&[&str], &str, Option<&str>); 6] = [
        (&[], "mcp", Some("mcp")),
        (&[], "chat", None),
        (&[], "chat, mcp", Some("mcp")),
        (&["--subprotocol", "v1.acme"], "mcp, v1.acme", Some("v1.acme")),
        (&["--subprotocol", "v1.acme"], "mcp", None),
        (&["--subprotocol", "a", "--subprotocol", "b"], "b, a", Some("b")),
    ];
    for (options, offered, chosen) in rows {
        let server = Server::rpc("agent", &[WS], options);
        let found = upgrade(server.url("ws"), "/", &[("Sec-WebSocket-Protocol", offered)]);
        assert_eq!(found, (101, chosen.map(str::to_owned)), "{options:?} {offered}");
        server.stop();
    }
    for wrong in ["", "a b", "a,b", "bearer.x"] {
        let (code, said) = refused(rpc(&["--subprotocol", wrong, "--listen", WS]));
        assert_eq!(code, Some(2), "{wrong}: {said}");
    }
}

#[test]
fn t3_an_origin_can_be_a_pattern_null_or_file() {
    let options =
        ["null", "file://", "vscode-webview://*", "https://*.example.com", "http://localhost:*"];
    let options: Vec<_> = options.iter().flat_map(|origin| ["--allow-origin", origin]).collect();
    let server = Server::rpc("agent", &[HTTP, WS], &options);
    let rows = [
        ("null", true),
        ("file://", true),
        ("vscode-webview://1a2b", true),
        ("https://docs.example.com", true),
        ("http://localhost:5173", true),
        ("https://example.com", false),
        ("https://docs.example.com.evil.example", false),
        ("https://docs.example.com:8443", false),
        ("http://localhost.evil.example:5173", false),
        ("vscode-webview://a/b", false),
    ];
    for (origin, passes) in rows {
        let origin = [("Origin", origin)];
        let ws = upgrade(server.url("ws"), "/", &origin).0;
        assert_eq!(ws, if passes { 101 } else { 403 }, "{origin:?}");
        let answer = once(server.url("http"), &post(server.url("http"), &origin, PING));
        assert_eq!(answer.status, if passes { 200 } else { 403 }, "{origin:?}");
        let readable = answer.header("access-control-allow-origin");
        assert_eq!(readable, passes.then_some(origin[0].1), "{origin:?}");
    }
    server.stop();
    for (wrong, reason) in [
        ("*", "every website"),
        ("https://*example.com", "first label"),
        ("editor.example", "scheme"),
        ("https://a.example/x", "no path"),
    ] {
        let (code, said) = refused(rpc(&["--allow-origin", wrong, "--listen", WS]));
        assert!(code == Some(2) && said.contains(reason), "{wrong}: {said}");
    }
}
