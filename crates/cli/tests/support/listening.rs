//! A listening daemon: its start, addresses and end.

use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use duet_rpc::proto::frame::Framing;
use rustix::process::Signal;

use super::daemon::{Daemon, End, HANG, command, rpc};
use super::folder::Folder;

/// Addresses with a port chosen by the system.
pub(crate) const TCP: &str = "tcp://127.0.0.1:0";
pub(crate) const WS: &str = "ws://127.0.0.1:0/";
pub(crate) const HTTP: &str = "http://127.0.0.1:0/";

/// An address that a daemon printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) text: String,
    pub(crate) scheme: String,
    /// `127.0.0.1:43211`; empty for a Unix socket.
    pub(crate) authority: String,
    /// The path of the URL, or of the socket.
    pub(crate) path: String,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Self {
        let (scheme, rest) = text.split_once("://").unwrap_or_else(|| panic!("no URL: {text:?}"));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let [text, scheme, authority, path] = [text, scheme, authority, path].map(str::to_owned);
        Url { text, scheme, authority, path }
    }

    /// The bound address and port.
    pub(crate) fn address(&self) -> SocketAddr {
        let address: SocketAddr = self.authority.parse().expect("an address with a port");
        assert_ne!(address.port(), 0, "{self:?}");
        address
    }
}

/// A listening process, killed on drop if it still runs.
pub(crate) struct Server {
    daemon: Option<Daemon>,
    pub(crate) urls: Vec<Url>,
    /// Removed with this value.
    folder: Option<Folder>,
}

/// Adds these addresses to a command.
pub(crate) fn with_addresses(mut command: Command, addresses: &[&str]) -> Command {
    for address in addresses {
        command.args(["--listen", address]);
    }
    command
}

impl Server {
    /// Starts a test bed that listens on these addresses.
    pub(crate) fn testbed(profile: &str, addresses: &[&str], options: &[&str]) -> Self {
        let mut command = command(profile);
        command.args(options);
        Self::spawn(with_addresses(command, addresses), addresses.len())
    }

    /// Starts the daemon on these addresses.
    pub(crate) fn rpc(profile: &str, addresses: &[&str], options: &[&str]) -> Self {
        let command = rpc(&[&["--profile", profile], options].concat());
        Self::spawn(with_addresses(command, addresses), addresses.len())
    }

    /// Starts a test bed in the agent profile that listens on every transport.
    pub(crate) fn testbed_everywhere(options: &[&str]) -> Self {
        Self::everywhere(|addresses| Self::testbed("agent", addresses, options))
    }

    /// Starts the daemon in the agent profile on every transport.
    pub(crate) fn rpc_everywhere(options: &[&str]) -> Self {
        Self::everywhere(|addresses| Self::rpc("agent", addresses, options))
    }

    fn everywhere(start: impl FnOnce(&[&str]) -> Self) -> Self {
        let folder = Folder::new();
        let mut server = start(&[TCP, &folder.url("socket"), WS, HTTP]);
        server.folder = Some(folder);
        server
    }

    /// Starts a command that must print `count` addresses first.
    pub(crate) fn spawn(mut command: Command, count: usize) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self::with_stdin_and_stdout(command, count)
    }

    /// Like `spawn`, with stdin and stdout as the command has them.
    pub(crate) fn with_stdin_and_stdout(mut command: Command, count: usize) -> Self {
        command.stderr(Stdio::piped());
        // Nothing comes on stdout, so any framing will do.
        let daemon = Daemon::with_pipes(command, Framing::Ndjson);
        let mut server = Server { daemon: Some(daemon), urls: Vec::new(), folder: None };
        for _ in 0..count {
            let line = server.daemon().wait_for_line(|_| true);
            let url = line.strip_prefix("listening on ").map(Url::parse);
            server.urls.push(url.unwrap_or_else(|| panic!("no announcement: {line:?}")));
        }
        server
    }

    pub(crate) fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().expect("the daemon runs")
    }

    pub(crate) fn daemon_mut(&mut self) -> &mut Daemon {
        self.daemon.as_mut().expect("the daemon runs")
    }

    /// Its address with this scheme.
    pub(crate) fn url(&self, scheme: &str) -> &Url {
        let url = self.urls.iter().find(|url| url.scheme == scheme);
        url.unwrap_or_else(|| panic!("the daemon does not listen on {scheme}: {:?}", self.urls))
    }

    /// Resident memory, in bytes.
    pub(crate) fn resident(&self) -> usize {
        memory(&self.daemon().process, "VmRSS")
    }

    /// Number of open descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.daemon().process.id());
        fs::read_dir(folder).expect("the process runs").count()
    }

    /// Sends it a signal, and waits for the end.
    pub(crate) fn end(mut self, signal: Signal) -> End {
        let daemon = self.daemon.take().expect("the daemon runs");
        let begun = Instant::now();
        daemon.kill(signal);
        daemon.wait(begun)
    }

    /// Stops it normally, checks that nothing went wrong, and returns the remaining lines of stderr.
    pub(crate) fn stop(self) -> Vec<String> {
        let end = self.end(Signal::TERM);
        assert_eq!(end.status.code(), Some(0), "{end:?}");
        assert!(end.answers.is_empty(), "stdout carries nothing while it listens: {end:?}");
        let is_bad = |line: &String| line.contains("panicked") || line.contains(" ERROR ");
        assert!(!end.lines.iter().any(is_bad), "{:?}", end.lines);
        end.lines
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.process.kill();
            let _ = daemon.process.wait();
        }
    }
}

/// A memory figure of a process in bytes, such as `VmRSS`.
pub(crate) fn memory(process: &Child, name: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id()));
    let status = status.expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the line exists");
    let number = line.trim_start_matches(':').split_whitespace().next().expect("a number");
    number.parse::<usize>().expect("digits") * 1024
}

/// Polls until `holds`.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < HANG, "the condition never holds: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}
