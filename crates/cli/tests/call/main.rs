//! `duet-rpc call` as a process (T1), against small servers in `sh` and against our own daemon.
//!
//! Its only request has the id 1, which the servers here rely on.

mod answers;
mod connect;
mod daemon;
mod failures;
mod input;
mod sessions;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use support::daemon::guard;
use support::once;

/// Outcome of a call.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

/// The command, with these words after `call`.
fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duet-rpc"));
    command.arg("call").args(words).env_remove("DUET_RPC_LOG");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Calls with these words and this stdin.
fn call_with(words: &[&str], input: &[u8]) -> Ended {
    let output = once::run(command(words), input);
    assert_ne!(output.status.signal(), Some(9), "the call hung");
    let [out, err] =
        [output.stdout, output.stderr].map(|said| String::from_utf8(said).expect("UTF-8"));
    Ended { code: output.status.code(), out, err }
}

fn call(words: &[&str]) -> Ended {
    call_with(words, b"")
}

/// Calls the method `m` of a shell script.
fn call_script(options: &[&str], script: &str) -> Ended {
    call(&[options, &["m", "--", "sh", "-c", script]].concat())
}

fn read_all(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    let mut stream = stream.expect("the stream is piped");
    thread::spawn(move || {
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("UTF-8");
        text
    })
}

/// Waits for the end; a process that hangs is killed.
fn wait(mut child: Child) -> ExitStatus {
    let guard = guard(&child);
    let status = child.wait().expect("the process can be waited for");
    drop(guard);
    assert_ne!(status.signal(), Some(9), "the call hung");
    status
}

/// A file of this test run.
fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("call-{name}"))
}

fn write(name: &str, bytes: &[u8]) -> String {
    let path = file(name);
    fs::write(&path, bytes).expect("the file can be written");
    path.to_str().expect("UTF-8").to_owned()
}

/// A script that reads the request, answers, and exits.
fn answers(answer: &str) -> String {
    format!("read -r request; printf '%s\\n' '{answer}'")
}

/// A script that reads the request, answers, and stays until its stdin ends.
fn answers_and_stays(answer: &str) -> String {
    format!("{}; cat >/dev/null; :", answers(answer))
}

/// More than a pipe holds.
fn big_params() -> String {
    format!("[\"{}\"]", "x".repeat(1024 * 1024))
}

impl Ended {
    /// Checks for this result and nothing else.
    #[track_caller]
    fn has_result(&self, result: &str) {
        assert_eq!((self.code, &*self.out), (Some(0), &*format!("{result}\n")), "{self:?}");
    }

    /// Checks for this exit code, all of these texts on stderr, and an empty stdout.
    #[track_caller]
    fn has_failed(&self, code: i32, told: &[&str]) {
        assert_eq!((self.code, &*self.out), (Some(code), ""), "{self:?}");
        for told in told {
            assert!(self.err.contains(told), "{told:?} is not in {}", self.err);
        }
    }
}
