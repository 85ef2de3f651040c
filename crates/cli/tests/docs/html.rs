//! The page in docs/browsers.md, in a real browser: it calls with `fetch` and with a WebSocket.

use std::fs;

use super::support::browser::Browser;
use super::support::folder::Folder;
use super::support::listening::{HTTP, Server, WS};
use super::support::programs::root;
use super::support::skip;

/// The page of docs/browsers.md, for the addresses of this server.
fn page_for(server: &Server) -> String {
    let page = fs::read_to_string(root().join("crates/cli/tests/docs/page.html")).expect("a page");
    let [http, ws] = ["http", "ws"].map(|scheme| &*server.url(scheme).text);
    page.replace("http://127.0.0.1:4000/", http).replace("ws://127.0.0.1:4001/", ws)
}

#[test]
fn t3_a_page_calls_from_a_browser_with_a_token() {
    let Some(browser) = Browser::find() else {
        return skip("the page in docs/browsers.md", "no browser is installed");
    };
    let folder = Folder::new();
    let tokens = folder.write("tokens", "ada:k3qhx7\n");
    let options = ["--token-file", &tokens, "--allow-origin", "null", "--log-level", "debug"];
    let server = Server::rpc("agent", &[HTTP, WS], &options);
    let page = format!("file://{}", folder.write("page.html", page_for(&server)));
    let browser = Browser::open(browser, &page, &[]);
    // The second call needs the result of the first, and a handshake that the browser accepts.
    for method in ["system.ping", "system.echo"] {
        server.daemon().wait_for_line(|line| line.contains(&format!("method={method}")));
    }
    drop(browser);
    server.stop();
}

#[test]
fn t3_a_page_with_a_wrong_token_shows_the_reason() {
    let Some(browser) = Browser::find() else {
        return skip("the page in docs/browsers.md with a wrong token", "no browser is installed");
    };
    let folder = Folder::new();
    let tokens = folder.write("tokens", "ada:another\n");
    let options = ["--token-file", &tokens, "--allow-origin", "null"];
    let server = Server::rpc("agent", &[HTTP, WS], &options);
    let page = format!("file://{}", folder.write("page.html", page_for(&server)));
    let shown = Browser::text_of(browser, &page);
    assert!(shown.contains("Error: 401: A valid token is needed."), "{shown}");
    server.stop();
}
