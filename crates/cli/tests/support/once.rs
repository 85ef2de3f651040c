//! Runs of a program with all of its input and output.

use std::io::{self, Read, Write};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::thread;

use duet_rpc::proto::frame::Framing;
use serde_json::Value;

use super::daemon::{frame, guard, read_texts};

/// Runs a command to its end with this stdin, and reads stdout and stderr.
pub(crate) fn run(mut command: Command, input: &[u8]) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    run_with(command, input)
}

/// Like `run`, with stdout and stderr as the command has them.
pub(crate) fn run_with(mut command: Command, input: &[u8]) -> Output {
    let mut process = command.stdin(Stdio::piped()).spawn().expect("the program starts");
    // The command holds its own ends of pipes and terminals, which would stay open.
    drop(command);
    let guard = guard(&process);
    let mut stdin = process.stdin.take().expect("stdin is piped");
    let input = input.to_owned();
    let writer = thread::spawn(move || match stdin.write_all(&input) {
        // A program that reads nothing may have ended already.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            panic!("cannot write stdin: {error}")
        }
        _ => {}
    });
    let output = process.wait_with_output().expect("the process can be waited for");
    drop(guard);
    writer.join().expect("the writer thread does not panic");
    output
}

/// Runs a daemon that cannot start. Returns its exit code and stderr.
pub(crate) fn refused(command: Command) -> (Option<i32>, String) {
    let output = run(command, b"");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.stdout.is_empty() && !said.is_empty(), "{output:?}");
    assert!(!said.contains("panicked") && !said.contains("listening on"), "{said}");
    (output.status.code(), said)
}

/// Output of a daemon.
#[derive(Debug)]
pub(crate) struct Talk {
    /// The messages, in order.
    pub(crate) texts: Vec<String>,
    /// The lines of stderr.
    pub(crate) log: Vec<String>,
}

/// Sends these texts, each in a frame, and closes stdin after they are answered.
pub(crate) fn talk(command: Command, framing: Framing, texts: &[String]) -> Talk {
    let input: Vec<u8> = texts.iter().flat_map(|text| frame(framing, text)).collect();
    talk_in_bytes(command, framing, &input)
}

/// Like `talk`, with raw bytes. Stdin is closed only after a last request was answered: from then on the
/// daemon has a time limit, which must not fail the test on a slow machine.
pub(crate) fn talk_in_bytes(mut command: Command, framing: Framing, input: &[u8]) -> Talk {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("the program starts");
    let guard = guard(&process);
    let mut stdin = process.stdin.take().expect("stdin is piped");
    let stdout = process.stdout.take().expect("stdout is piped");
    let mut stderr = process.stderr.take().expect("stderr is piped");
    let (last_is_answered, is_over) = channel();
    let input = [input, &frame(framing, LAST_REQUEST)].concat();
    let writer = thread::spawn(move || {
        stdin.write_all(&input).expect("the remote reads");
        // An error means that the process has ended, which is checked below.
        let _ = is_over.recv();
    });
    let logger = thread::spawn(move || {
        let mut log = String::new();
        stderr.read_to_string(&mut log).expect("a log is text");
        log.lines().map(str::to_owned).collect()
    });
    let mut texts = Vec::new();
    read_texts(stdout, framing, |text| match text.starts_with(LAST_ANSWER) {
        true => last_is_answered.send(()).expect("the writer waits for it"),
        false => texts.push(text.to_owned()),
    });
    drop(last_is_answered);
    let status = process.wait().expect("the process can be waited for");
    drop(guard);
    writer.join().expect("the writer thread does not panic");
    let log: Vec<_> = logger.join().expect("the reader thread does not panic");
    assert_eq!(status.code(), Some(0), "{log:?}");
    Talk { texts, log }
}

const LAST_REQUEST: &str = r#"{"jsonrpc":"2.0","id":"last","method":"version"}"#;
const LAST_ANSWER: &str = r#"{"jsonrpc":"2.0","id":"last","#;

impl Talk {
    /// The messages as JSON. `Value` must be able to represent them.
    pub(crate) fn values(&self) -> Vec<Value> {
        self.texts.iter().map(|text| serde_json::from_str(text).expect("JSON")).collect()
    }

    /// The answer to the request with this id.
    pub(crate) fn answer(&self, id: u64) -> Value {
        // Skips parsing most other messages.
        let member = format!("\"id\":{id}");
        let texts = self.texts.iter().filter(|text| text.contains(&member));
        let mut answers: Vec<Value> =
            texts.map(|text| serde_json::from_str(text).expect("JSON")).collect();
        answers.retain(|answer| answer.get("method").is_none() && answer["id"] == id);
        assert_eq!(answers.len(), 1, "answers to {id}: {answers:?}");
        answers.remove(0)
    }
}
