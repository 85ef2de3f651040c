//! The page of `duet-rpc watch`, in a real browser. playwright-core, which `scripts/clients` fetches, drives
//! Chromium. Without them, these tests are skipped with a message, unless the environment variable
//! REAL_CLIENTS is `required`.
#![cfg(unix)]

mod access;
mod pages;
#[path = "../support/mod.rs"]
mod support;
mod traces;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use support::programs::DUET_RPC;

/// A server of the page, ended on drop.
struct WatchServer {
    process: Child,
    /// Kept open: a write to a closed stdout would end the server.
    _stdout: BufReader<ChildStdout>,
    /// The address with the token.
    url: String,
}

impl WatchServer {
    fn start(target: &Path) -> Self {
        let mut command = Command::new(DUET_RPC);
        command.arg("watch").arg(target).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the command starts");
        let mut stdout = BufReader::new(process.stdout.take().expect("stdout is piped"));
        let mut url = String::new();
        stdout.read_line(&mut url).expect("it prints its address");
        WatchServer { process, _stdout: stdout, url: url.trim_end().to_owned() }
    }

    /// The host and port.
    fn host(&self) -> &str {
        let rest = self.url.strip_prefix("http://").expect("an address");
        rest.split('/').next().expect("a host")
    }

    fn token(&self) -> &str {
        self.url.split_once("?token=").expect("a token").1
    }

    fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Ends it with a signal. Returns its exit code.
    fn stop(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.process), Signal::TERM).expect("it runs");
        self.process.wait().expect("it ends").code()
    }
}

impl Drop for WatchServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a script of this folder in a browser.
fn browse(script: &str, arguments: &[&str]) {
    support::browser::browse(&format!("watch/{script}"), arguments);
}
