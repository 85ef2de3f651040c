//! Real brokers for tests: `nats-server` processes on free loopback ports, one or a cluster, ended in any case.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Returns `true` if `nats-server` is installed. If not, prints that the test is skipped, and fails if the environment
/// says `NATS=required`.
pub(crate) fn has_nats() -> bool {
    let found = command().arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = found.is_ok_and(|status| status.success());
    if !is_there {
        let is_required = std::env::var_os("NATS").is_some_and(|it| it == "required");
        assert!(!is_required, "NATS=required, but nats-server is not installed");
        eprintln!("SKIPPED: nats-server is not installed (Debian: apt install nats-server)");
    }
    is_there
}

fn command() -> Command {
    // Users other than root may not have it in their path.
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("nats-server");
    command.env("PATH", format!("{path}:/usr/sbin"));
    command
}

/// A running broker. It ends with this value, and with this process, however the process ends.
pub(crate) struct Broker {
    port: u16,
    words: Vec<String>,
    /// A shell that ends the server when its stdin closes.
    guard: Child,
    pid: u32,
    folder: PathBuf,
}

impl Broker {
    /// Starts one broker.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a broker with these options.
    pub(crate) fn start_with(words: &[&str]) -> Self {
        Self::start_at(free_port(), words.iter().map(|&word| word.to_owned()).collect())
    }

    /// Starts a cluster of three brokers that know each other.
    pub(crate) fn cluster() -> [Self; 3] {
        let ports = [free_port(), free_port(), free_port()];
        let routes = ports.map(|port| format!("nats://127.0.0.1:{port}")).join(",");
        let brokers = ports.map(|port| {
            let cluster = format!("nats://127.0.0.1:{port}");
            let words = ["--cluster_name", "test", "--cluster", &cluster, "--routes", &routes];
            Self::start_at(free_port(), words.map(str::to_owned).to_vec())
        });
        // Each has the other two as routes.
        for broker in &brokers {
            broker.wait_for("three servers", |info| info.matches("127.0.0.1:").count() >= 3);
        }
        brokers
    }

    fn start_at(port: u16, words: Vec<String>) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("duet-nats-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let (guard, pid) = launch(port, &words, &folder);
        let broker = Broker { port, words, guard, pid, folder };
        broker.wait();
        broker
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.pid
    }

    /// Waits until it takes connections.
    fn wait(&self) {
        self.wait_for("an answer", |info| info.starts_with("INFO "));
    }

    fn wait_for(&self, what: &str, is_there: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        while !self.info().is_ok_and(|info| is_there(&info)) {
            assert!(begun.elapsed() < Duration::from_secs(20), "the broker gives {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The first line that the broker sends.
    fn info(&self) -> std::io::Result<String> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line)
    }

    /// Kills it: no goodbye to anybody.
    pub(crate) fn kill(&mut self) {
        let pid = self.pid.to_string();
        let killed = Command::new("kill").args(["-9", &pid]).status().expect("there is `kill`");
        assert!(killed.success());
        let _ = self.guard.wait();
    }

    /// Kills it, and starts it again on the same port.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.start_again();
    }

    /// Starts it on the same port, after it was killed.
    pub(crate) fn start_again(&mut self) {
        (self.guard, self.pid) = launch(self.port, &self.words, &self.folder);
        self.wait();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Starts the server under a shell. The shell waits for the end of its stdin, which comes with the end of this process,
/// and for the end of the server.
fn launch(port: u16, words: &[String], folder: &PathBuf) -> (Child, u32) {
    const GUARD: &str = r#"
        "$@" >server.log 2>&1 </dev/null & server=$!
        echo $server
        { cat; kill -9 $server; } >/dev/null 2>&1 <&3 & watch=$!
        wait $server; kill $watch
    "#;
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec 3<&0; {GUARD}"), "sh", "nats-server", "-a", "127.0.0.1"]);
    shell.args(["-p", &port.to_string()]).args(words).current_dir(folder);
    let path = std::env::var("PATH").unwrap_or_default();
    shell.env("PATH", format!("{path}:/usr/sbin"));
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut guard = shell.spawn().expect("there is a shell");
    let mut pid = String::new();
    let stdout = guard.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut pid).expect("the id of the server");
    (guard, pid.trim().parse().expect("a number"))
}

/// A port that was free just now.
fn free_port() -> u16 {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    port.expect("a port").port()
}
