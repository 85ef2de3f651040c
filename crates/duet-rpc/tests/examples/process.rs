//! An example as a child process, over pipes.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// The time after which a test counts as hanging. Nothing else depends on it.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this test is a file");
    let folder = test.parent().and_then(Path::parent).expect("the test is in target/…/deps");
    let program = folder.join("examples").join(name);
    if !program.exists() {
        // `cargo test` builds the examples, but not for a single test file.
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "duet-rpc", "--all-features"]);
        cargo.args(["--example", name]);
        cargo.args(folder.ends_with("release").then_some("--release"));
        assert!(cargo.status().expect("cargo runs").success());
    }
    program
}

#[derive(Clone, Copy)]
pub(crate) enum Wire {
    Headers,
    Lines,
}

/// A running server. The test has to read every message that it sends.
pub(crate) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    wire: Wire,
}

impl Process {
    pub(crate) fn start(name: &str, wire: Wire) -> Self {
        Self::start_with(name, &[], wire)
    }

    pub(crate) fn start_with(name: &str, arguments: &[&str], wire: Wire) -> Self {
        let mut command = Command::new(example(name));
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            while let Some(message) = read(&mut stdout, wire) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Process { child, stdin, messages, wire }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let body = message.to_string();
        let framed = match self.wire {
            Wire::Headers => format!("Content-Length: {}\r\n\r\n{body}", body.len()),
            Wire::Lines => format!("{body}\n"),
        };
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(framed.as_bytes()).expect("the remote reads");
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub(crate) fn ask(&mut self, id: i64, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    /// The next message.
    pub(crate) fn next(&self) -> Value {
        self.messages.recv_timeout(PATIENCE).expect("there is a further message")
    }

    /// Sends a request, whose answer must be the next message. Returns the result or the error.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.ask(99, method, params);
        let mut answer = self.next();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(99)), "{answer}");
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(answer["error"].take()),
        }
    }

    /// Waits for the exit, checks that no further message arrives, and returns the exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let further = self.messages.recv_timeout(PATIENCE);
        assert_eq!(further, Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
        self.child.wait().expect("our child").code()
    }

    /// Closes the server's stdin, and then does the same as `wait`.
    pub(crate) fn close(&mut self) -> Option<i32> {
        self.stdin = None;
        self.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(stdout: &mut BufReader<ChildStdout>, wire: Wire) -> Option<Value> {
    let mut line = String::new();
    if stdout.read_line(&mut line).expect("text") == 0 {
        return None;
    }
    let body = match wire {
        Wire::Lines => line.into_bytes(),
        Wire::Headers => {
            let length = line.strip_prefix("Content-Length: ").expect("a header").trim_end();
            // The empty line belongs to the header.
            let mut body = vec![0; 2 + length.parse::<usize>().expect("a length")];
            stdout.read_exact(&mut body).expect("the body is whole");
            body.drain(..2).for_each(drop);
            body
        }
    };
    Some(serde_json::from_slice(&body).expect("JSON"))
}
