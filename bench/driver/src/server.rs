//! The servers: their start, their initial messages, and their cost.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::ClockId;
use nix::unistd::Pid;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::web;
use crate::wire::Framing;

/// A server that can be started.
#[derive(Clone, Debug, Deserialize)]
pub struct Contender {
    /// Name in the tables, with its version.
    pub name: String,
    pub framing: Framing,
    #[serde(default)]
    pub prelude: Prelude,
    /// Program, relative to `folder`, and its arguments.
    pub command: Vec<String>,
    #[serde(skip)]
    pub folder: PathBuf,
    /// True if it listens on a socket, whose address it prints, instead of serving stdin.
    #[serde(skip)]
    pub listens: bool,
    /// Number of threads to serve with: its last argument, if it takes one.
    #[serde(skip)]
    pub threads: Option<usize>,
}

/// Messages that a server needs before it serves.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Prelude {
    #[default]
    None,
    Lsp,
    Mcp,
}

/// The cores that driver and server run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Pinning {
    /// Both on one: this shows the software.
    OneCore,
    /// The driver on one, the server on another: this shows the scheduler too.
    TwoCores,
    /// The driver on one, the server on that and another: this shows the gain of a second core.
    BothCores,
}

impl Contender {
    pub fn is_installed(&self) -> bool {
        self.command.first().is_some_and(|program| {
            self.folder.join(program).exists() || !program.contains('/') && is_on_path(program)
        })
    }

    fn command(&self, before: &[String]) -> Command {
        let words: Vec<_> = before.iter().chain(&self.command).collect();
        let in_folder = self.folder.join(words[0]);
        let mut command = match in_folder.exists() {
            true => Command::new(in_folder),
            false => Command::new(words[0]),
        };
        command.args(&words[1..]).current_dir(&self.folder);
        command.args(self.threads.map(|threads| threads.to_string()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// A running server.
pub struct Server {
    pub framing: Framing,
    child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
    /// Its address and the first connection to it, if it listens.
    socket: Option<(SocketAddr, TcpStream)>,
    cpu_clock: Option<ClockId>,
}

impl Server {
    pub fn start(contender: &Contender) -> io::Result<Self> {
        Self::start_under(&[], contender)
    }

    /// Starts the server through another program, given with its arguments.
    pub fn start_under(program: &[String], contender: &Contender) -> io::Result<Self> {
        let mut command = contender.command(program);
        // Some servers start as many threads as they have cores.
        let child = match contender.threads {
            Some(2..) => on_both_cores(|| command.spawn()),
            _ => command.spawn(),
        };
        let mut child = child?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no stdout"))?;
        let pid = Pid::from_raw(child.id().cast_signed());
        let cpu_clock = ClockId::pid_cpu_clock_id(pid).ok();
        let framing = contender.framing;
        let mut server = Server { framing, child, input, output, socket: None, cpu_clock };
        if contender.listens {
            let address = server.read_address()?;
            server.socket = Some((address, connect(address, framing)?));
        }
        server.say_prelude(contender.prelude)?;
        Ok(server)
    }

    /// Reads the first line: an address, perhaps within a URL.
    fn read_address(&mut self) -> io::Result<SocketAddr> {
        let mut line = String::new();
        BufReader::new(&mut self.output).read_line(&mut line)?;
        let address = line.rsplit("://").next().and_then(|url| url.split(['/', '\n']).next());
        let address = address.and_then(|address| address.parse().ok());
        address.ok_or_else(|| io::Error::other(format!("{line:?} is not an address")))
    }

    /// Opens a new connection, if it listens: a server may close an idle one.
    pub fn reconnect(&mut self) -> io::Result<()> {
        if let Some((address, stream)) = &mut self.socket {
            *stream = connect(*address, self.framing)?;
        }
        Ok(())
    }

    /// Opens one more connection.
    pub fn connect(&self) -> io::Result<TcpStream> {
        let (address, _) = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        connect(*address, self.framing)
    }

    fn say_prelude(&mut self, prelude: Prelude) -> io::Result<()> {
        let (request, notification) = match prelude {
            Prelude::None => return Ok(()),
            Prelude::Lsp => (
                r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}"#,
                r#"{"jsonrpc":"2.0","method":"initialized","params":{}}"#,
            ),
            Prelude::Mcp => (
                r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"0"}}}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            ),
        };
        self.send(request)?;
        self.receive(1)?;
        self.send(notification)
    }

    /// Makes the server call us. We never answer these calls.
    pub fn have_pending_calls(&mut self, method: &str, count: usize) -> io::Result<()> {
        self.send(&format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"{method}","params":[{count}]}}"#
        ))?;
        // One of the messages is the answer to this request.
        self.receive(count + 1)
    }

    /// Sends requests that the server never answers.
    pub fn hold_requests(&mut self, method: &str, count: usize) -> io::Result<()> {
        for id in 1..=count {
            self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#))?;
        }
        Ok(())
    }

    fn send(&mut self, message: &str) -> io::Result<()> {
        let mut out = Vec::new();
        self.framing.write(&mut out, message.as_bytes());
        self.write_all(&out)
    }

    /// Receives this many messages of any kind.
    fn receive(&mut self, count: usize) -> io::Result<()> {
        let (mut input, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
        let mut received = 0;
        while received < count {
            let mut done = 0;
            while let Some((_, end)) =
                self.framing.next(&input[done..]).map_err(io::Error::other)?
            {
                (done, received) = (done + end, received + 1);
            }
            input.drain(..done);
            if received < count {
                let read = self.output.read(&mut chunk)?;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                input.extend_from_slice(&chunk[..read]);
            }
        }
        Ok(())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write_all(bytes)
    }

    /// Descriptors to write requests to, and to read answers from.
    pub fn pipes(&self) -> io::Result<(BorrowedFd<'_>, BorrowedFd<'_>)> {
        if let Some((_, socket)) = &self.socket {
            return Ok((socket.as_fd(), socket.as_fd()));
        }
        let input = self.input.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok((input.as_fd(), self.output.as_fd()))
    }

    /// Sets our ends of the pipes to blocking or non-blocking.
    pub fn set_blocking(&self, is_blocking: bool) -> io::Result<()> {
        let (input, output) = self.pipes()?;
        for fd in [input, output] {
            let mut flags = rustix::fs::fcntl_getfl(fd)?;
            flags.set(OFlags::NONBLOCK, !is_blocking);
            rustix::fs::fcntl_setfl(fd, flags)?;
        }
        Ok(())
    }

    /// CPU time of all its threads.
    pub fn cpu_time(&self) -> Duration {
        let time = self.cpu_clock.and_then(|clock| clock.now().ok());
        time.map(Duration::from).unwrap_or_default()
    }

    /// Number of context switches of its threads.
    pub fn switches(&self) -> u64 {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.child.id())) else { return 0 };
        let of_thread = |path: &Path| {
            let status = fs::read_to_string(path.join("status")).unwrap_or_default();
            status
                .lines()
                .filter(|line| line.contains("ctxt_switches"))
                .filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok())
                .sum::<u64>()
        };
        threads.flatten().map(|thread| of_thread(&thread.path())).sum()
    }

    /// A memory figure of the process, such as `VmRSS` or `VmHWM`, in KiB.
    pub fn memory_kib(&self, name: &str) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    }

    /// Pins all its threads to these cores.
    pub fn pin(&self, cores: Pinning) {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.child.id())) else { return };
        for thread in threads.flatten() {
            if let Some(id) = thread.file_name().to_str().and_then(|name| name.parse().ok()) {
                let _ = sched_setaffinity(Pid::from_raw(id), &cores_of_server(cores));
            }
        }
    }

    /// Closes its input, and waits for its end; the drop kills a server that does not end.
    pub fn end(mut self) {
        self.input = None;
        let patience = Instant::now() + Duration::from_secs(5);
        while Instant::now() < patience {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Connects, with a handshake if the framing needs one.
fn connect(address: SocketAddr, framing: Framing) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    if framing == Framing::WebSocket {
        web::upgrade(&mut stream)?;
    }
    Ok(stream)
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn core(number: usize) -> CpuSet {
    let mut set = CpuSet::new();
    let _ = set.set(number);
    set
}

fn cores_of_server(cores: Pinning) -> CpuSet {
    match cores {
        Pinning::OneCore => core(0),
        // All cores except the driver's, for servers with several threads.
        Pinning::TwoCores => {
            let count = std::thread::available_parallelism().map_or(2, usize::from).max(2);
            let mut set = CpuSet::new();
            for number in 1..count {
                let _ = set.set(number);
            }
            set
        }
        Pinning::BothCores => both_cores(),
    }
}

fn both_cores() -> CpuSet {
    let mut set = core(0);
    let _ = set.set(1);
    set
}

/// Lets the driver run on both cores during `act`, and only on its own afterwards.
fn on_both_cores<T>(act: impl FnOnce() -> T) -> T {
    let _ = sched_setaffinity(Pid::from_raw(0), &both_cores());
    let done = act();
    pin_driver();
    done
}

/// Pins the driver to its core.
pub fn pin_driver() {
    let _ = sched_setaffinity(Pid::from_raw(0), &core(0));
}
