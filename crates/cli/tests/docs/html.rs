//! The page in docs/browsers.md, in a real browser: it calls with `fetch` and with a WebSocket.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use super::support::folder::Folder;
use super::support::listening::{HTTP, Server, WS};
use super::support::programs::root;
use super::support::{has, skip};

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A browser with all of its processes, killed on drop.
struct Browser(Child);

impl Browser {
    fn open(program: &str, folder: &Folder, page: &str) -> Self {
        let mut command = Command::new(program);
        // It stays open while a debugger may connect. In a container it cannot make its sandbox.
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]);
        command.arg(format!("--user-data-dir={}", folder.text("profile")));
        command.arg(format!("file://{page}")).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Browser(command.spawn().expect("it is installed"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

#[test]
fn t3_a_page_calls_from_a_browser_with_a_token() {
    let Some(browser) = BROWSERS.into_iter().find(|program| has(program)) else {
        return skip("the page in docs/browsers.md", "no browser is installed");
    };
    let folder = Folder::new();
    let tokens = folder.write("tokens", "ada:k3qhx7\n");
    let options = ["--token-file", &tokens, "--allow-origin", "null", "--log-level", "debug"];
    let server = Server::rpc("agent", &[HTTP, WS], &options);
    let page = fs::read_to_string(root().join("crates/cli/tests/docs/page.html")).expect("a page");
    let [http, ws] = ["http", "ws"].map(|scheme| &*server.url(scheme).text);
    let page = page.replace("http://127.0.0.1:4000/", http).replace("ws://127.0.0.1:4001/", ws);
    let browser = Browser::open(browser, &folder, &folder.write("page.html", page));
    // The second call needs the result of the first, and a handshake that the browser accepts.
    for method in ["system.ping", "system.echo"] {
        server.daemon().wait_for_line(|line| line.contains(&format!("method={method}")));
    }
    drop(browser);
    server.stop();
}
