//! A program that is run once: all of its input goes in, and all of its output comes out.

use std::io::{self, Read, Write};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::thread;

use duet_rpc::proto::frame::Framing;
use serde_json::Value;

use super::daemon::{frame, guard, read_texts};

/// Runs it to its end with this on stdin, and with stdout and stderr read.
pub(crate) fn run(mut command: Command, input: &[u8]) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    run_with(command, input)
}

/// The same, with stdout and stderr as the command has them.
pub(crate) fn run_with(mut command: Command, input: &[u8]) -> Output {
    let mut process = command.stdin(Stdio::piped()).spawn().expect("it is built");
    // The command holds its own ends of pipes and terminals, which would never end.
    drop(command);
    let guard = guard(&process);
    let mut stdin = process.stdin.take().expect("stdin is piped");
    let input = input.to_owned();
    let writer = thread::spawn(move || match stdin.write_all(&input) {
        // Who reads nothing may be gone already.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => panic!("it reads: {error}"),
        _ => {}
    });
    let output = process.wait_with_output().expect("it is our child");
    drop(guard);
    writer.join().expect("it only writes");
    output
}

/// The output and the exit code of a daemon that cannot start.
pub(crate) fn refused(command: Command) -> (Option<i32>, String) {
    let output = run(command, b"");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.stdout.is_empty() && !said.is_empty(), "{output:?}");
    assert!(!said.contains("panicked") && !said.contains("listening on"), "{said}");
    (output.status.code(), said)
}

/// What a daemon said to what it was sent.
#[derive(Debug)]
pub(crate) struct Talk {
    /// The messages, as they came.
    pub(crate) texts: Vec<String>,
    /// The lines on stderr.
    pub(crate) log: Vec<String>,
}

/// Sends these texts, each in a frame, and ends the talk when they are answered.
pub(crate) fn talk(command: Command, framing: Framing, texts: &[String]) -> Talk {
    let input: Vec<u8> = texts.iter().flat_map(|text| frame(framing, text)).collect();
    talk_in_bytes(command, framing, &input)
}

/// The same with bytes. The end of input comes only when a last request has been answered, as the
/// daemon does not wait for long from there on, and a slow machine must not fail the test.
pub(crate) fn talk_in_bytes(mut command: Command, framing: Framing, input: &[u8]) -> Talk {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("it is built");
    let guard = guard(&process);
    let mut stdin = process.stdin.take().expect("stdin is piped");
    let stdout = process.stdout.take().expect("stdout is piped");
    let mut stderr = process.stderr.take().expect("stderr is piped");
    let (last_is_answered, is_over) = channel();
    let input = [input, &frame(framing, LAST_REQUEST)].concat();
    let writer = thread::spawn(move || {
        stdin.write_all(&input).expect("it reads");
        // An error means that the process has ended, which is looked at below.
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
    let status = process.wait().expect("it is our child");
    drop(guard);
    writer.join().expect("it only writes");
    let log: Vec<_> = logger.join().expect("it only reads");
    assert_eq!(status.code(), Some(0), "{log:?}");
    Talk { texts, log }
}

const LAST_REQUEST: &str = r#"{"jsonrpc":"2.0","id":"last","method":"version"}"#;
const LAST_ANSWER: &str = r#"{"jsonrpc":"2.0","id":"last","#;

impl Talk {
    /// The messages as JSON. None of those that are looked at so holds what `Value` cannot.
    pub(crate) fn values(&self) -> Vec<Value> {
        self.texts.iter().map(|text| serde_json::from_str(text).expect("JSON")).collect()
    }

    /// The answer to the request with this id.
    pub(crate) fn answer(&self, id: u64) -> Value {
        // Most of the others need not be read for that.
        let member = format!("\"id\":{id}");
        let texts = self.texts.iter().filter(|text| text.contains(&member));
        let mut answers: Vec<Value> =
            texts.map(|text| serde_json::from_str(text).expect("JSON")).collect();
        answers.retain(|answer| answer.get("method").is_none() && answer["id"] == id);
        assert_eq!(answers.len(), 1, "answers to {id}: {answers:?}");
        answers.remove(0)
    }
}
