//! A real browser, without a window.

use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use super::folder::Folder;
use super::programs::root;
use super::{has, skip};

/// A browser with all of its processes, killed on drop.
pub(crate) struct Browser {
    process: Child,
    /// Its profile, removed after it.
    _folder: Folder,
}

impl Browser {
    /// The installed browser.
    pub(crate) fn find() -> Option<&'static str> {
        ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|program| has(program))
    }

    /// Opens a page, with further options.
    pub(crate) fn open(program: &str, url: &str, options: &[&str]) -> Self {
        let folder = Folder::new();
        let mut command = command(program, &folder);
        // It stays open while a debugger may connect.
        command.arg("--remote-debugging-port=0").args(options);
        command.arg(url).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Browser { process: command.spawn().expect("it is installed"), _folder: folder }
    }

    /// The document of a page, after its scripts and their requests.
    pub(crate) fn text_of(program: &str, url: &str) -> String {
        let folder = Folder::new();
        let mut command = command(program, &folder);
        // This time does not pass while a request is pending.
        command.args(["--virtual-time-budget=5000", "--dump-dom", url]);
        let output = command.stdin(Stdio::null()).output().expect("it is installed");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// A browser without a window, with its profile in this folder. In a container it cannot make its sandbox.
fn command(program: &str, folder: &Folder) -> Command {
    let mut command = Command::new(program);
    command.args(["--headless", "--no-sandbox", "--disable-gpu"]);
    // It talks to nobody else.
    command.args(["--no-first-run", "--disable-background-networking", "--disable-sync"]);
    command.args(["--disable-component-update", "--no-proxy-server"]);
    command.arg(format!("--user-data-dir={}", folder.text("profile")));
    command
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        let _ = self.process.wait();
    }
}

/// Runs a script of `crates/cli/tests` in Node with playwright-core and a browser. Skips if one of them is missing.
pub(crate) fn browse(script: &str, arguments: &[&str]) {
    let modules = root().join("target/clients/node_modules/playwright-core");
    let what = format!("the page in a browser, {script}");
    if !modules.exists() || !has("node") {
        return skip(&what, "scripts/clients has not fetched playwright-core");
    }
    let Some(browser) = Browser::find() else {
        return skip(&what, "no browser is installed");
    };
    let mut command = Command::new("node");
    command.arg(root().join("crates/cli/tests").join(script)).args(arguments);
    command.env("PLAYWRIGHT", modules).env("BROWSER", browser);
    let output = command.stdin(Stdio::null()).output().expect("node runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let shown = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{script}: {shown}");
    // Figures that a script measured, also when the test harness captures other output.
    let _ = std::io::stderr().write_all(&output.stdout);
}
