//! Access policy of WebSocket and HTTP: hosts, origins, tokens, paths (T3).

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::client::Client;
use crate::http::{Http, Response, head, once, post};
use crate::support::daemon::rpc;
use crate::support::folder::Folder;
use crate::support::listening::{HTTP, Server, TCP, Url, WS, with_addresses};
use crate::support::once::refused;
use crate::support::say_skipped;
use crate::websocket::{KEY, WebSocket};

const PING: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"system.ping"}"#;

/// Statuses of an HTTP and a WebSocket request with these `Host` headers and further headers.
fn statuses(server: &Server, hosts: &[&str], more: &[(&str, &str)]) -> [u16; 2] {
    let hosts: Vec<_> = hosts.iter().map(|host| ("Host", *host)).collect();
    let length = PING.len().to_string();
    let body = [("Content-Length", length.as_str())];
    let text = head("POST", "/", &[&hosts, &body[..], more].concat());
    let http = once(server.url("http"), &[text.as_bytes(), PING].concat());
    let upgrade = [
        ("Upgrade", "websocket"),
        ("Connection", "keep-alive, Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", KEY),
    ];
    let text = head("GET", "/", &[&hosts, &upgrade[..], more].concat());
    let websocket = match WebSocket::open(server.url("ws"), text.as_bytes()) {
        Ok(mut client) => {
            client.check(1);
            101
        }
        Err(response) => check_refusal(&response),
    };
    if http.status == 200 { [200, websocket] } else { [check_refusal(&http), websocket] }
}

/// Checks that a refusal reveals nothing about the server.
fn check_refusal(response: &Response) -> u16 {
    assert!(!response.body.contains("pong"), "{response:?}");
    if response.status == 401 {
        let asked = response.header("www-authenticate").expect("it says what it wants");
        assert!(asked.starts_with("Bearer"), "{response:?}");
    }
    assert_eq!(response.header("access-control-allow-origin"), None, "{response:?}");
    response.status
}

const ACCEPTED: [u16; 2] = [200, 101];
const FORBIDDEN: [u16; 2] = [403, 403];
const UNAUTHORIZED: [u16; 2] = [401, 401];
const MALFORMED: [u16; 2] = [400, 400];

fn ports(server: &Server) -> [u16; 2] {
    ["http", "ws"].map(|scheme| server.url(scheme).address().port())
}

#[test]
fn t3_a_foreign_host_is_refused() {
    let server = Server::rpc("agent", &[HTTP, WS], &[]);
    let [port, _] = ports(&server);
    let with_port = |host: &str| format!("{host}:{port}");
    for host in ["127.0.0.1", "localhost", "LOCALHOST", "127.0.0.2", "[::1]"] {
        assert_eq!(statuses(&server, &[host], &[]), ACCEPTED, "{host}");
        // The port differs for half of them, as behind a tunnel.
        assert_eq!(statuses(&server, &[&with_port(host)], &[]), ACCEPTED, "{host}");
    }
    for host in [
        "evil.example",
        "localhost.",
        "localhost.evil.example",
        "a.localhost",
        "127.0.0.1.evil.example",
        "127.0.0.1.",
        "evil.example#127.0.0.1",
        "192.0.2.1",
        "0.0.0.0",
        "[::]",
        "[::ffff:192.0.2.1]",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "169.254.169.254",
        "",
        "127.0.0.1, evil.example",
        "user@127.0.0.1",
        "127.0.0.1 evil.example",
    ] {
        // An invalid host may also count as malformed.
        for host in [host.to_owned(), with_port(host)] {
            let refused = statuses(&server, &[&host], &[]);
            assert!(refused == FORBIDDEN || refused == MALFORMED, "{host}: {refused:?}");
        }
    }
    for hosts in [&[][..], &["127.0.0.1", "127.0.0.1"], &["127.0.0.1", "evil.example"]] {
        assert_eq!(statuses(&server, hosts, &[]), MALFORMED, "{hosts:?}");
    }
    server.stop();
}

#[test]
fn t3_a_host_can_be_allowed() {
    let options = ["--allow-host", "app.example", "--allow-host", "Other.Example"];
    let server = Server::rpc("agent", &[HTTP, WS], &options);
    for host in ["app.example", "APP.example:8080", "other.example", "localhost"] {
        assert_eq!(statuses(&server, &[host], &[]), ACCEPTED, "{host}");
    }
    for host in ["example", "xapp.example", "a.app.example", "app.example.evil.example"] {
        assert_eq!(statuses(&server, &[host], &[]), FORBIDDEN, "{host}");
    }
    server.stop();
}

/// Statuses of requests with these origins.
fn from(server: &Server, origins: &[&str]) -> [u16; 2] {
    let origins: Vec<_> = origins.iter().map(|origin| ("Origin", *origin)).collect();
    let [http, ws] = ports(server).map(|port| format!("127.0.0.1:{port}"));
    [statuses(server, &[&http], &origins)[0], statuses(server, &[&ws], &origins)[1]]
}

#[test]
fn t3_a_foreign_origin_is_refused() {
    let server = Server::rpc("agent", &[HTTP, WS], &[]);
    let [http, ws] = ports(&server);
    let foreign = [
        "null",
        "NULL",
        "",
        "https://evil.example",
        "http://evil.example",
        "http://localhost:1",
        "http://localhost",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        "http://127.0.0.1.evil.example",
        "file://",
        "chrome-extension://abcdefghijklmnop",
        "127.0.0.1",
    ];
    for origin in foreign {
        assert_eq!(from(&server, &[origin]), FORBIDDEN, "{origin:?}");
    }
    // The same address with another scheme or name is another origin.
    for port in [http, ws] {
        for origin in ["https://127.0.0.1:P", "ws://127.0.0.1:P", "http://localhost:P"] {
            let origin = origin.replace('P', &port.to_string());
            assert_eq!(from(&server, &[&origin]), FORBIDDEN, "{origin}");
        }
        let origin = format!("http://127.0.0.1:{port}.evil.example");
        assert_eq!(from(&server, &[&origin]), FORBIDDEN, "{origin}");
    }
    // The own origin is accepted, at its own port only.
    let own = [http, ws].map(|port| format!("http://127.0.0.1:{port}"));
    assert_eq!(from(&server, &[&own[0]]), [200, 403]);
    assert_eq!(from(&server, &[&own[1]]), [403, 101]);
    // A second origin is not hidden by it.
    let two = from(&server, &[&own[0], "https://evil.example"]);
    assert!([403, 400].contains(&two[0]), "{two:?}");
    server.stop();
}

#[test]
fn t3_an_origin_can_be_allowed_with_a_preflight() {
    let allowed = "https://app.example";
    let options = ["--allow-origin", allowed, "--allow-origin", "http://localhost:3000"];
    let server = Server::rpc("agent", &[HTTP, WS], &options);
    for origin in [allowed, "http://localhost:3000"] {
        assert_eq!(from(&server, &[origin]), ACCEPTED, "{origin}");
    }
    let foreign = [
        "null",
        "https://app.example:444",
        "http://app.example",
        "https://app.example.evil.example",
    ];
    for origin in foreign {
        assert_eq!(from(&server, &[origin]), FORBIDDEN, "{origin}");
    }
    // The preflight request of a browser before it posts JSON.
    let url = server.url("http");
    let preflight_to = |path: &str, origin: &str| {
        let headers = [
            ("Host", url.authority.as_str()),
            ("Origin", origin),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "authorization, content-type"),
        ];
        once(url, head("OPTIONS", path, &headers).as_bytes())
    };
    let preflight = |origin: &str| preflight_to("/", origin);
    let response = preflight(allowed);
    assert!([200, 204].contains(&response.status), "{response:?}");
    assert_eq!(response.header("access-control-allow-origin"), Some(allowed));
    let names = response.header("access-control-allow-headers").unwrap_or_default();
    assert!(names.to_ascii_lowercase().contains("content-type"), "{response:?}");
    assert!(names.to_ascii_lowercase().contains("authorization"), "{response:?}");
    assert_eq!(check_refusal(&preflight("https://evil.example")), 403);
    // Under a wrong path too, so that the page can read the refusal of its request.
    assert_eq!(preflight_to("/wrong", allowed).status, 204);
    assert_eq!(check_refusal(&preflight_to("/wrong", "https://evil.example")), 403);
    let headers = [("Host", url.authority.as_str()), ("Origin", allowed), ("Content-Length", "0")];
    let refused = once(url, head("POST", "/wrong", &headers).as_bytes());
    assert_eq!(refused.status, 404);
    assert_eq!(refused.header("access-control-allow-origin"), Some(allowed), "{refused:?}");
    let answer = once(url, &post(url, &[("Origin", allowed)], PING));
    assert_eq!(answer.header("access-control-allow-origin"), Some(allowed), "{answer:?}");
    server.stop();
}

const TOKEN: &str = "s3cret-CANARY-t0ken.~+/=";

#[test]
fn t3_without_the_token_every_request_is_refused() {
    let folder = Folder::new();
    for (file, level) in [(format!("{TOKEN}\n"), "debug"), (TOKEN.to_owned(), "info")] {
        let options = ["--token-file", &folder.write("token", file), "--log-level", level];
        let server = Server::rpc("agent", &[HTTP, WS], &options);
        let attempt = |value: &str| statuses(&server, &["localhost"], &[("Authorization", value)]);
        assert_eq!(statuses(&server, &["localhost"], &[]), UNAUTHORIZED);
        let prefix = &TOKEN[..TOKEN.len() - 1];
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer wrong",
            TOKEN,
            &format!("Bearer {prefix}"),
            &format!("Bearer {TOKEN}x"),
            &format!("Bearer {TOKEN} x"),
            &format!("Bearer {}", TOKEN.to_lowercase()),
            &format!("Bearer{TOKEN}"),
            &format!("Basic {TOKEN}"),
            &format!("Bearer \"{TOKEN}\""),
            &format!("Bearer Bearer {TOKEN}"),
        ] {
            assert_eq!(attempt(wrong), UNAUTHORIZED, "{wrong:?}");
        }
        // The name of a scheme ignores case.
        assert_eq!(attempt(&format!("Bearer {TOKEN}")), ACCEPTED);
        assert_eq!(attempt(&format!("bearer {TOKEN}")), ACCEPTED);
        let bearer = format!("Bearer {TOKEN}");
        let twice = [("Authorization", "Bearer wrong"), ("Authorization", &*bearer)];
        let refused = statuses(&server, &["localhost"], &twice);
        assert!(refused.iter().all(|status| [400, 401].contains(status)), "{refused:?}");
        // A client with the token must still not be a web page.
        let page = [("Authorization", &*bearer), ("Origin", "null")];
        assert_eq!(statuses(&server, &["localhost"], &page), FORBIDDEN);
        assert_eq!(statuses(&server, &["evil.example"], &page[..1]), FORBIDDEN);
        // Every request of a connection needs the token.
        let mut client = Http::connect(server.url("http"));
        client.headers = vec![("Authorization".to_owned(), bearer)];
        client.check(1);
        client.headers.clear();
        client.send(PING);
        assert_eq!(client.response().map(|response| check_refusal(&response)), Some(401));
        let end = server.end(Signal::TERM);
        assert!(!end.lines.concat().contains("CANARY"), "the log shows the token: {:?}", end.lines);
    }
}

#[test]
fn t3_a_token_file_must_hold_a_token() {
    let folder = Folder::new();
    let check = |path: &str, case: &str| {
        let (code, said) = refused(rpc(&["--token-file", path, "--listen", HTTP]));
        assert_eq!(code, Some(1), "{case}: {said}");
        assert!(said.contains("token"), "{case}: {said}");
        assert!(!said.contains("CANARY"), "{case}: {said}");
    };
    for (text, case) in [
        ("", "empty"),
        ("\n", "a line end"),
        (" \r\n", "white space"),
        ("CANARY one\ntwo\n", "two lines"),
        ("CANARY\0", "not text"),
    ] {
        check(&folder.write("token", text), case);
    }
    check(&folder.text("missing"), "missing");
    check(&folder.text(""), "a folder");
    let path = folder.write("token", TOKEN);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("it is ours");
    if fs::read(&path).is_ok() {
        say_skipped("a file that cannot be read", "this is root, who can read it");
    } else {
        check(&path, "unreadable");
    }
}

#[test]
fn t3_a_token_that_other_users_can_read_or_change_is_warned_of() {
    let folder = Folder::new();
    let path = folder.write("token", TOKEN);
    for (mode, is_exposed) in [
        (0o600, false),
        (0o400, false),
        (0o640, false),
        (0o644, true),
        (0o604, true),
        (0o660, true),
    ] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
        let server = Server::rpc("agent", &[HTTP], &["--token-file", &path]);
        let said = server.end(Signal::TERM).lines.concat();
        assert_eq!(said.contains("other users of this machine"), is_exposed, "{mode:o}: {said}");
        assert!(!said.contains("CANARY") && !said.contains(&path), "{said}");
    }
}

#[test]
fn t2_only_the_path_of_the_url_is_served() {
    let addresses = ["http://127.0.0.1:0/rpc", "ws://127.0.0.1:0/live/rpc"];
    let server = Server::rpc("agent", &addresses, &[]);
    let (http, ws) = (server.url("http"), server.url("ws"));
    Http::connect(http).check(1);
    WebSocket::connect(ws).check(1);
    let at = |url: &Url, path: &str| Url { path: path.to_owned(), ..url.clone() };
    for path in ["/", "/rpc/", "/RPC", "/rpc/x", "//rpc", "/live/rp", "/%72pc/.", "/live/rpc/"] {
        let url = at(http, path);
        assert_eq!(check_refusal(&once(&url, &post(&url, &[], PING))), 404, "{path}");
        let refused = WebSocket::connect_with(&at(ws, path), &[]).map(drop);
        let status = refused.as_ref().map_err(check_refusal);
        assert_eq!(status, Err(404), "{path}");
    }
    server.stop();
}

/// An option that guards nothing is a mistake.
#[test]
fn c2_t3_an_option_without_a_matching_address_is_refused() {
    let folder = Folder::new();
    let unix = folder.url("socket");
    for (options, addresses, needed) in [
        (&["--allow-host", "app.example"][..], &[TCP, &unix][..], "ws:// or http://"),
        (&["--allow-host", "app.example"], &[], "ws:// or http://"),
        (&["--allow-origin", "https://app.example"], &["stdio:"], "ws:// or http://"),
        (&["--allow-origin", "null"], &[TCP], "ws:// or http://"),
        (&["--subprotocol", "mcp"], &[HTTP, TCP], "ws://"),
        (&["--allow-uid", "0"], &[TCP, WS, HTTP], "unix://"),
        (&["--allow-uid", "root"], &[], "unix://"),
    ] {
        let (code, said) = refused(with_addresses(rpc(options), addresses));
        assert_eq!(code, Some(2), "{options:?} {addresses:?}: {said}");
        let sentence =
            format!("{} has no effect here: --listen needs an address with {needed}", options[0]);
        assert!(said.contains(&sentence), "{said}");
    }
    for address in ["http://127.0.0.1:0/a?b", "ws://127.0.0.1:0/?token=x"] {
        let (code, said) = refused(with_addresses(rpc(&[]), &[address]));
        assert_eq!(code, Some(1), "{address}: {said}");
        assert!(said.contains("has no query"), "{said}");
    }
}
