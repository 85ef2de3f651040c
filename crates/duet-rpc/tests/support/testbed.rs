//! The testbed as a process: its pipes, its end.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use duet_rpc::Profile;
use duet_rpc::proto::frame::{Decoder, Event, Framing, write_frame};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Far longer than anything takes, on any machine.
pub(crate) const HANG: Duration = Duration::from_secs(30);

/// What makes a server end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    Eof,
    Interrupt,
    Terminate,
    HangUp,
    Shutdown,
}

impl Trigger {
    pub(crate) const ALL: [Trigger; 5] =
        [Trigger::Eof, Trigger::Interrupt, Trigger::Terminate, Trigger::HangUp, Trigger::Shutdown];

    fn signal(self) -> Option<Signal> {
        match self {
            Trigger::Interrupt => Some(Signal::INT),
            Trigger::Terminate => Some(Signal::TERM),
            Trigger::HangUp => Some(Signal::HUP),
            Trigger::Eof | Trigger::Shutdown => None,
        }
    }
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) status: ExitStatus,
    pub(crate) took: Duration,
    /// What came out that nobody had asked for yet.
    pub(crate) answers: Vec<Value>,
    /// What it said on stderr that nobody waited for.
    pub(crate) lines: Vec<String>,
}

pub(crate) struct Testbed {
    pub(crate) process: Child,
    /// Closed by taking it.
    pub(crate) stdin: Option<ChildStdin>,
    framing: Framing,
    answers: Receiver<Value>,
    lines: Receiver<String>,
}

/// Where cargo put the example. `cargo test` builds it, but not for a single test file.
pub(crate) fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let test = std::env::current_exe().expect("this test is a file");
        let folder = test.parent().and_then(Path::parent).expect("it is in target/…/deps");
        let program = folder.join("examples").join("testbed");
        if !program.exists() {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "--quiet", "--package", "duet-rpc", "--example", "testbed"]);
            cargo.args(folder.ends_with("release").then_some("--release"));
            assert!(cargo.status().expect("cargo runs").success());
        }
        program
    })
}

pub(crate) fn command(profile: &str) -> Command {
    let mut command = Command::new(program());
    // Each handler says on stderr that it has begun.
    command.args(["--profile", profile]).env("TESTBED_TELLS", "1");
    command
}

impl Testbed {
    /// Starts it with pipes that are all read.
    pub(crate) fn start(profile: &str) -> Self {
        let mut command = command(profile);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::of(command, profile)
    }

    /// Starts this command; the pipes that it has are read.
    pub(crate) fn of(mut command: Command, profile: &str) -> Self {
        let mut process = command.spawn().expect("the example is built");
        let framing = match profile {
            "editor" => Framing::Lsp,
            "desktop" => Framing::Length,
            _ => Framing::Ndjson,
        };
        let stdout = process.stdout.take();
        let stderr = process.stderr.take();
        let (answer, answers) = channel();
        let (line, lines) = channel();
        thread::spawn(move || {
            let Some(mut stdout) = stdout else { return };
            let mut decoder = Decoder::new(framing, &Profile::editor().limits);
            loop {
                let space = decoder.space();
                let room = (space.capacity() - space.len()) as u64;
                let count = (&mut stdout).take(room).read_to_end_once(space);
                if count == 0 {
                    decoder.finish();
                }
                while let Some(event) = decoder.next_event() {
                    let Event::Frame(text) = event else {
                        panic!("stdout holds no frame: {event:?}")
                    };
                    let value = serde_json::from_str(text.as_str()).expect("frames are JSON");
                    let _ = answer.send(value);
                }
                if count == 0 {
                    return;
                }
            }
        });
        thread::spawn(move || {
            let Some(stderr) = stderr else { return };
            for text in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = line.send(text);
            }
        });
        Testbed { stdin: process.stdin.take(), process, framing, answers, lines }
    }

    /// Sends a request.
    pub(crate) fn request(&mut self, id: u64, method: &str, params: &str) {
        let text =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        self.send(&text);
    }

    /// Sends a text in a frame.
    pub(crate) fn send(&mut self, text: &str) {
        let mut frame = Vec::new();
        let Ok(()) = write_frame(self.framing, &mut frame, |out| {
            out.extend_from_slice(text.as_bytes());
            Ok::<_, std::convert::Infallible>(())
        });
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(&frame).expect("it reads");
    }

    /// The next message that it sends.
    pub(crate) fn answer(&self) -> Value {
        self.answers.recv_timeout(HANG).expect("it answers")
    }

    /// Waits until it says this on stderr.
    pub(crate) fn wait_for(&self, line: &str) {
        while self.lines.recv_timeout(HANG).expect("it says it") != line {}
    }

    /// Makes it end, and waits until it has. Unless that is the trigger, stdin stays open.
    pub(crate) fn end(mut self, trigger: Trigger) -> End {
        let begun = Instant::now();
        match trigger {
            Trigger::Eof => drop(self.stdin.take()),
            Trigger::Shutdown => self.request(99, "shutdown", "null"),
            _ => self.kill(trigger.signal().expect("the others are signals")),
        }
        self.wait(begun)
    }

    pub(crate) fn kill(&self, signal: Signal) {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, signal).expect("it lives");
    }

    /// Waits until it has ended, which began at this time.
    pub(crate) fn wait(mut self, begun: Instant) -> End {
        let pid = Pid::from_child(&self.process);
        let (done, is_done) = channel::<()>();
        // A hang must fail the test, and not hang it.
        let guard = thread::spawn(move || {
            let hangs = is_done.recv_timeout(HANG).is_err();
            if hangs {
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        let status = self.process.wait().expect("it is our child");
        let took = begun.elapsed();
        let _ = done.send(());
        guard.join().expect("it only waits");
        let stdin = self.stdin.take();
        let answers = self.answers.iter().collect();
        let lines = self.lines.iter().collect();
        drop(stdin);
        End { status, took, answers, lines }
    }
}

/// One read that appends.
trait ReadOnce {
    fn read_to_end_once(&mut self, space: &mut Vec<u8>) -> usize;
}

impl<R: Read> ReadOnce for std::io::Take<R> {
    fn read_to_end_once(&mut self, space: &mut Vec<u8>) -> usize {
        let start = space.len();
        space.resize(start + self.limit() as usize, 0);
        let count = self.read(&mut space[start..]).unwrap_or(0);
        space.truncate(start + count);
        count
    }
}

/// A pipe whose ends are ours to keep.
pub(crate) fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("pipes are to be had")
}
