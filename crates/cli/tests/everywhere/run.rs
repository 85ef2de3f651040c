//! Runs of the command: to their end, or until they listen.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use duet_rpc::proto::frame::{Framing, write_frame};

use crate::programs::DUET_RPC;

/// A time that is over only if something hangs.
const LONG: Duration = Duration::from_secs(60);

/// The three framings, with the profile that has each.
pub(crate) const PROFILES: [(&str, Framing); 3] =
    [("editor", Framing::Lsp), ("desktop", Framing::Length), ("agent", Framing::Ndjson)];

/// The command with these words.
pub(crate) fn duet_rpc(words: &[&str]) -> Command {
    let mut command = Command::new(DUET_RPC);
    command.args(words).env_remove("DUET_RPC_LOG");
    command
}

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("text").trim_end()
    }
}

/// Runs the command to its end, with this stdin.
pub(crate) fn run(words: &[&str], input: &[u8]) -> Ran {
    finish(duet_rpc(words), input)
}

/// Runs a command to its end, with this stdin.
pub(crate) fn finish(mut command: Command, input: &[u8]) -> Ran {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("the command starts");
    let mut stdin = process.stdin.take().expect("a pipe");
    let input = input.to_vec();
    // A command that reads nothing may have ended.
    let writer = thread::spawn(move || drop(stdin.write_all(&input)));
    let output = process.wait_with_output().expect("it ends");
    writer.join().expect("no panic");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!stderr.contains("panicked"), "{stderr}");
    Ran { code: output.status.code(), stdout: output.stdout, stderr }
}

/// These texts, each in a frame.
pub(crate) fn frames(framing: Framing, texts: &[&str]) -> Vec<u8> {
    let mut all = Vec::new();
    for text in texts {
        let body = |out: &mut Vec<u8>| {
            out.extend_from_slice(text.as_bytes());
            Ok::<_, Infallible>(())
        };
        let Ok(()) = write_frame(framing, &mut all, body);
    }
    all
}

/// A command that listens, killed on drop.
pub(crate) struct Listening {
    pub(crate) process: Child,
    pub(crate) addresses: Vec<String>,
    /// Reads the rest of stderr, so that nothing blocks.
    rest: Option<JoinHandle<String>>,
    _stdin: Option<ChildStdin>,
}

impl Listening {
    /// Starts a command, and waits until it has printed this many addresses.
    pub(crate) fn start(words: &[&str], count: usize) -> Self {
        let mut command = duet_rpc(words);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the command starts");
        let stdin = process.stdin.take();
        let mut stderr = BufReader::new(process.stderr.take().expect("a pipe"));
        let mut addresses = Vec::new();
        while addresses.len() < count {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).expect("text") > 0, "it ended: {words:?}");
            let found = line.split_once("listening on ");
            addresses.extend(found.map(|(_, address)| address.trim().to_owned()));
        }
        let rest = thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        Listening { process, addresses, rest: Some(rest), _stdin: stdin }
    }

    /// Kills it, as somebody does who leaves it no time to clean up.
    pub(crate) fn kill(mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = self.rest.take().map(JoinHandle::join);
    }
}

/// The host and the port of an address.
pub(crate) fn place(address: &str) -> String {
    let (_, rest) = address.split_once("://").expect("an address");
    rest.split('/').next().expect("a host").to_owned()
}

/// Waits until nobody listens at an address: the process behind it has ended.
pub(crate) fn wait_until_gone(address: &str) {
    let socket = place(address).to_socket_addrs().expect("an address").next().expect("one");
    let begun = Instant::now();
    while TcpStream::connect_timeout(&socket, Duration::from_secs(1)).is_ok() {
        assert!(begun.elapsed() < LONG, "a process is left behind at {address}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A path for the files of a test, in a folder of its own.
pub(crate) fn fresh_path(name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = format!("duet-rpc-everywhere-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    folder.join(name)
}

/// The same as text.
pub(crate) fn fresh(name: &str) -> String {
    fresh_path(name).to_str().expect("a plain path").to_owned()
}
