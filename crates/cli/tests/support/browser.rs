//! A real browser, without a window.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use super::folder::Folder;
use super::has;

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
        let mut command = Command::new(program);
        // It stays open while a debugger may connect. In a container it cannot make its sandbox.
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]);
        // It talks to nobody else.
        command.args(["--no-first-run", "--disable-background-networking", "--disable-sync"]);
        command.args(["--disable-component-update", "--no-proxy-server"]).args(options);
        command.arg(format!("--user-data-dir={}", folder.text("profile")));
        command.arg(url).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Browser { process: command.spawn().expect("it is installed"), _folder: folder }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        let _ = self.process.wait();
    }
}
