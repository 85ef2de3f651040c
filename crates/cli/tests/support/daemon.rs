//! The daemon or its test bed as a process, with its pipes.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use duet_rpc::proto::Limits;
use duet_rpc::proto::frame::{Decoder, Event, Framing, write_frame};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::programs::{DUET_RPC, testbed};

/// Longer than any step takes on any machine.
pub(crate) const HANG: Duration = Duration::from_secs(30);

pub(crate) const PROFILES: [&str; 3] = ["editor", "desktop", "agent"];

/// Values of `--framing`, each with the framing of the client.
pub(crate) const FRAMINGS: [(&str, Framing); 6] = [
    ("lsp", Framing::Lsp),
    ("ndjson", Framing::Ndjson),
    ("length", Framing::Length),
    ("auto", Framing::Lsp),
    ("auto", Framing::Ndjson),
    ("auto", Framing::Length),
];

/// Causes of a server's end.
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
}

/// Outcome of a process.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) status: ExitStatus,
    pub(crate) took: Duration,
    /// Messages that no test step has taken.
    pub(crate) answers: Vec<Value>,
    /// Lines of stderr that no test step has taken.
    pub(crate) lines: Vec<String>,
}

pub(crate) struct Daemon {
    pub(crate) process: Child,
    /// Take it to close stdin.
    pub(crate) stdin: Option<ChildStdin>,
    framing: Framing,
    answers: Receiver<Value>,
    lines: Receiver<String>,
    reader: JoinHandle<()>,
}

/// The test bed, whose handlers print to stderr when they begin.
pub(crate) fn command(profile: &str) -> Command {
    let mut command = Command::new(testbed());
    command.args(["--profile", profile]).env("TESTBED_TELLS", "1").env_remove("DUET_RPC_LOG");
    command
}

/// The daemon.
pub(crate) fn rpc(options: &[&str]) -> Command {
    let mut command = Command::new(DUET_RPC);
    command.arg("rpc").args(options).env_remove("DUET_RPC_LOG").env_remove("NO_COLOR");
    command
}

/// A shell that runs a preparation, such as `ulimit -n 20`, and then becomes the command.
pub(crate) fn after(preparation: &str, command: &Command) -> Command {
    in_shell(&format!(r#"{preparation}; exec "$@""#), command)
}

/// A shell with this script, in which `"$@"` is the command.
pub(crate) fn in_shell(script: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// Default framing of a profile.
pub(crate) fn framing_of(profile: &str) -> Framing {
    match profile {
        "editor" => Framing::Lsp,
        "desktop" => Framing::Length,
        _ => Framing::Ndjson,
    }
}

/// Frames a text.
pub(crate) fn frame(framing: Framing, text: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    let Ok(()) = write_frame(framing, &mut frame, |out| {
        out.extend_from_slice(text.as_bytes());
        Ok::<_, std::convert::Infallible>(())
    });
    frame
}

/// A request as text.
pub(crate) fn request(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// A notification as text.
pub(crate) fn notification(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
}

/// Reads frames to the end, and checks that there is no other byte (L1).
pub(crate) fn read_frames(stdout: impl Read, framing: Framing, mut tell: impl FnMut(Value)) {
    read_texts(stdout, framing, |text| tell(serde_json::from_str(text).expect("frames are JSON")));
}

/// Like `read_frames`, with the text of each frame.
pub(crate) fn read_texts(mut stdout: impl Read, framing: Framing, mut tell: impl FnMut(&str)) {
    let limits = Limits::default().with(|it| it.message_bytes = 1 << 30);
    let mut decoder = Decoder::new(framing, &limits);
    let mut chunk = vec![0; 64 * 1024];
    // Received bytes that no frame accounts for yet.
    let mut raw = VecDeque::new();
    loop {
        let count = stdout.read(&mut chunk).unwrap_or(0);
        raw.extend(&chunk[..count]);
        let mut rest = &chunk[..count];
        if count == 0 {
            decoder.finish();
        }
        loop {
            let taken = decoder.feed(rest);
            rest = &rest[taken..];
            while let Some(event) = decoder.next_event() {
                let Event::Frame(text) = event else {
                    panic!("stdout holds bytes outside of frames: {event:?}")
                };
                let whole = frame(framing, text.as_str());
                let came: Vec<u8> = raw.drain(..whole.len().min(raw.len())).collect();
                assert_eq!(came, whole, "the frame has other bytes around it");
                tell(text.as_str());
            }
            if rest.is_empty() {
                break;
            }
        }
        if count == 0 {
            assert!(raw.is_empty(), "stdout ends with {} bytes outside of frames", raw.len());
            return;
        }
    }
}

impl Daemon {
    /// Starts a test bed, and reads all its pipes.
    pub(crate) fn start(profile: &str) -> Self {
        Self::spawn(command(profile), framing_of(profile))
    }

    /// Starts the daemon, and reads all its pipes.
    pub(crate) fn rpc(profile: &str, options: &[&str]) -> Self {
        Self::spawn(rpc(&[&["--profile", profile], options].concat()), framing_of(profile))
    }

    /// Starts a command, and reads all its pipes.
    pub(crate) fn spawn(command: Command, framing: Framing) -> Self {
        Self::with_stdout(command, framing, Stdio::piped())
    }

    /// Starts a command with this stdout, and reads the other pipes.
    pub(crate) fn with_stdout(
        mut command: Command,
        framing: Framing,
        stdout: impl Into<Stdio>,
    ) -> Self {
        command.stdin(Stdio::piped()).stdout(stdout).stderr(Stdio::piped());
        Self::with_pipes(command, framing)
    }

    /// Starts a command, and reads the pipes that it has.
    pub(crate) fn with_pipes(mut command: Command, framing: Framing) -> Self {
        let mut process = command.spawn().expect("the program starts");
        let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
        let (answer, answers) = channel();
        let (line, lines) = channel();
        let reader = thread::spawn(move || {
            if let Some(stdout) = stdout {
                read_frames(stdout, framing, |value| drop(answer.send(value)));
            }
        });
        thread::spawn(move || {
            let Some(stderr) = stderr else { return };
            for text in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = line.send(text);
            }
        });
        Daemon { stdin: process.stdin.take(), process, framing, answers, lines, reader }
    }

    /// Sends a request.
    pub(crate) fn request(&mut self, id: u64, method: &str, params: &str) {
        self.send(&request(id, method, params));
    }

    /// Sends a text in a frame.
    pub(crate) fn send(&mut self, text: &str) {
        self.send_raw(&frame(self.framing, text));
    }

    /// Sends raw bytes.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(bytes).expect("the remote reads");
    }

    /// Sends a request, and returns the next message.
    pub(crate) fn ask(&mut self, id: u64, method: &str, params: &str) -> Value {
        self.request(id, method, params);
        self.answer()
    }

    /// Receives the next message.
    pub(crate) fn answer(&self) -> Value {
        self.answers.recv_timeout(HANG).expect("a message arrives")
    }

    /// Waits until it prints this line to stderr.
    pub(crate) fn wait_for(&self, line: &str) {
        self.wait_for_line(|said| said == line);
    }

    /// Waits for a matching line on stderr.
    pub(crate) fn wait_for_line(&self, is_it: impl Fn(&str) -> bool) -> String {
        loop {
            let line = self.lines.recv_timeout(HANG).expect("the line appears on stderr");
            if is_it(&line) {
                return line;
            }
        }
    }

    /// Waits until the daemon has this pipe open for reading. Only then can the pipe be opened for writing.
    pub(crate) fn wait_for_reader_of(&mut self, fifo: &Path) -> OwnedFd {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        loop {
            if let Ok(writer) = open(fifo, flags, Mode::empty()) {
                return writer;
            }
            assert_eq!(
                self.process.try_wait().expect("our child"),
                None,
                "the process ended instead of waiting"
            );
            thread::yield_now();
        }
    }

    /// Reads stderr until every writer has closed it.
    pub(crate) fn read_stderr_to_end(&self) -> Vec<String> {
        let mut said = Vec::new();
        loop {
            match self.lines.recv_timeout(HANG) {
                Ok(line) => said.push(line),
                Err(RecvTimeoutError::Disconnected) => return said,
                Err(RecvTimeoutError::Timeout) => panic!("stderr does not end: {said:?}"),
            }
        }
    }

    /// Triggers the end, and waits for it. Stdin stays open unless closing it is the trigger.
    pub(crate) fn end(mut self, trigger: Trigger) -> End {
        let begun = Instant::now();
        self.trigger(trigger);
        self.wait(begun)
    }

    /// Triggers the end, without waiting.
    pub(crate) fn trigger(&mut self, trigger: Trigger) {
        match trigger {
            Trigger::Eof => drop(self.stdin.take()),
            Trigger::Shutdown => self.request(99, "shutdown", "null"),
            Trigger::Interrupt => self.kill(Signal::INT),
            Trigger::Terminate => self.kill(Signal::TERM),
            Trigger::HangUp => self.kill(Signal::HUP),
        }
    }

    pub(crate) fn kill(&self, signal: Signal) {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, signal).expect("the process is not reaped yet");
    }

    /// Waits for the end; `begun` is the time at which the end was triggered.
    pub(crate) fn wait(mut self, begun: Instant) -> End {
        let guard = guard(&self.process);
        let status = self.process.wait().expect("the process can be waited for");
        let took = begun.elapsed();
        drop(guard);
        let stdin = self.stdin.take();
        self.reader.join().expect("stdout holds frames and nothing else");
        let answers = self.answers.iter().collect();
        let lines = self.lines.iter().collect();
        drop(stdin);
        End { status, took, answers, lines }
    }
}

/// Kills a process that hangs, unless the guard is dropped before: a hang must fail the test, not block it.
#[must_use]
pub(crate) fn guard(process: &Child) -> Sender<()> {
    let (pid, (done, is_done)) = (Pid::from_child(process), channel());
    thread::spawn(move || {
        if is_done.recv_timeout(HANG) == Err(RecvTimeoutError::Timeout) {
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    done
}

/// A pipe with both ends.
pub(crate) fn pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = std::io::pipe().expect("a pipe can be made");
    (reader.into(), writer.into())
}

/// A pipe without room for another byte.
pub(crate) fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = pipe();
    rustix::io::ioctl_fionbio(&writer, true).expect("the pipe takes the flag");
    for size in [65536, 1] {
        while rustix::io::write(&writer, &vec![b'x'; size]).is_ok() {}
    }
    rustix::io::ioctl_fionbio(&writer, false).expect("the pipe takes the flag");
    (reader, writer)
}
