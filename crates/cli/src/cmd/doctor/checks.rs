//! The checks: for each, the request, the expected answer, and the next step for a failure.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use duet_rpc::proto::frame::Framing;
use duet_rpc::transport::ExitReport;
use serde_json::Value;

use super::program::{LOG_VARIABLE, Program, Silence};
use super::report::{Failure, Outcome, Verdict};
use crate::args::ProfileName;
use crate::sys::files;

/// Time for an answer, and for the output of `--version`.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Time for the exit after the end of stdin (L5).
const EXIT_TIME: Duration = Duration::from_secs(2);

/// Runs `--version` and returns its output.
pub(super) async fn version(file: &Path) -> Result<String, Failure> {
    // `--version` prints plain text, so any framing will do.
    let mut program = Program::start(file, &["--version"], Framing::Ndjson)
        .map_err(|error| cannot_start("--version", &error))?;
    let read = program.read_to_end(ANSWER_TIME).await;
    let end = program.close().await;
    let text = program.stdout.text();
    let (why, saw) = match (read, text.strip_suffix('\n')) {
        (Silence::Eof, Some(version)) if is_version(version) && is_success(&end) => {
            return Ok(version.to_owned());
        }
        (Silence::Eof, _) => ("no version".to_owned(), format!("{}, {text}", status(&end))),
        (silence, _) => (no_answer(silence, &end), text),
    };
    Err(Failure {
        why,
        sent: "--version".to_owned(),
        expected: "exit status: 0 and a line such as 0.1.0".to_owned(),
        saw,
        stderr: last_line(&end),
        next: "check that FILE is duet-rpc, and that a script around it passes \"$@\" on",
    })
}

/// The four checks of a profile, on one process.
pub(super) async fn profile(
    file: PathBuf,
    version: Option<String>,
    profile: ProfileName,
) -> Vec<Outcome> {
    // The framings are written out as in the specification. If they came from the code, a wrong framing would
    // pass.
    let framing = match profile {
        ProfileName::Editor => Framing::Lsp,
        ProfileName::Desktop => Framing::Length,
        ProfileName::Agent => Framing::Ndjson,
    };
    // At debug level, most of the log could end up on stdout by mistake.
    let words = ["rpc", "--profile", profile.name(), "--log-level", "debug"];
    let verdicts = match Program::start(&file, &words, framing) {
        Ok(program) => converse(program, profile, version).await,
        Err(error) => {
            let failure = cannot_start(&words.join(" "), &error);
            [Verdict::Failed(failure), Verdict::Skipped, Verdict::Skipped, Verdict::Skipped]
        }
    };
    let (profile, framing) = (profile.name(), framing.name());
    let rows = ["first answer", "echo", "exit", "stdout"].into_iter().zip(verdicts);
    rows.map(|(check, verdict)| Outcome { check, profile, framing, verdict }).collect()
}

/// Makes two calls, closes stdin, and checks everything on stdout.
async fn converse(
    mut program: Program,
    profile: ProfileName,
    version: Option<String>,
) -> [Verdict; 4] {
    let version = version.map(Value::from);
    let first = ("initialize", "{}", "/result/serverInfo/version", version.clone());
    let echo = match profile {
        // This profile has no echo; `version` comes closest.
        ProfileName::Editor => ("version", "null", "/result/version", version),
        _ => ("system.echo", ECHOED, "/result", serde_json::from_str(ECHOED).ok()),
    };
    let method = echo.0;
    let first = ask(&mut program, first).await;
    let first = first.map(|()| format!("{:.1?}", program.started.elapsed()));
    let is_silent = program.is_closed;
    let echo = match is_silent {
        true => Verdict::Skipped,
        false => ask(&mut program, echo).await.map(|()| method.to_owned()).into(),
    };
    let exit = match program.is_closed {
        true => Verdict::Skipped,
        false => exit(&mut program).await.into(),
    };
    let stdout = match program.stdout.stray() {
        Some((why, saw)) => Verdict::Failed(Failure {
            why,
            sent: format!("initialize, {method}"),
            expected: "frames and nothing else".to_owned(),
            saw,
            next: "print to stderr: look in the script around the program and in its shell's start-up files",
            ..Failure::default()
        }),
        None if is_silent => Verdict::Skipped,
        None => Verdict::Passed("frames and nothing else".to_owned()),
    };
    [first.into(), echo, exit, stdout]
}

const ECHOED: &str = r#"["ä\n",[1,[],null]]"#;

/// A request: method, params, and the expected value at a JSON pointer in the answer. `None` accepts any
/// value.
type Question = (&'static str, &'static str, &'static str, Option<Value>);

/// Makes a call. Closes a program that does not answer, because further calls would cost time.
async fn ask(
    program: &mut Program,
    (method, params, pointer, expected): Question,
) -> Result<(), Failure> {
    let wanted = expected.as_ref().map_or("any value".to_owned(), Value::to_string);
    let failure = Failure {
        sent: format!("{method} {params}"),
        expected: format!("{wanted} in {}", pointer[1..].replace('/', ".")),
        ..Failure::default()
    };
    match program.call(method, params, ANSWER_TIME).await {
        Ok(answer) => {
            let value = answer.pointer(pointer);
            let is_right = value.is_some_and(|it| expected.is_none_or(|wanted| *it == wanted));
            if is_right && answer.get("jsonrpc").is_some_and(|it| it == "2.0") {
                return Ok(());
            }
            Err(Failure {
                why: "another answer".to_owned(),
                saw: value.filter(|_| !is_right).unwrap_or(&answer).to_string(),
                next: "check which program and version the script around it starts",
                ..failure
            })
        }
        Err(silence) => {
            let end = program.close().await;
            Err(Failure {
                why: no_answer(silence, &end),
                saw: program.stdout.text(),
                stderr: last_line(&end),
                next: "run FILE with `rpc` in a terminal, and check that it is duet-rpc",
                ..failure
            })
        }
    }
}

/// Closes stdin, and waits for exit code 0.
async fn exit(program: &mut Program) -> Result<String, Failure> {
    let took = program.exit(EXIT_TIME).await;
    let end = program.close().await;
    let stopped: Vec<_> = end.stopped.iter().map(|it| it.program.as_str()).collect();
    let running = || format!("still running: {}", stopped.join(", "));
    let (why, saw) = match took {
        None => (format!("no exit within {EXIT_TIME:?}"), running()),
        Some(_) if !stopped.is_empty() => ("processes are left behind".to_owned(), running()),
        Some(took) if is_success(&end) => return Ok(format!("{took:.1?}")),
        Some(_) => ("another exit code".to_owned(), status(&end)),
    };
    Err(Failure {
        why,
        sent: "the end of stdin".to_owned(),
        expected: format!("exit status: 0 within {EXIT_TIME:?}"),
        saw,
        stderr: last_line(&end),
        next: "have the script around the program start it with `exec`",
    })
}

fn no_answer(silence: Silence, end: &ExitReport) -> String {
    match silence {
        Silence::Timeout => format!("no answer within {ANSWER_TIME:?}"),
        Silence::Flood => "no answer in the first MiB of stdout".to_owned(),
        Silence::Eof if end.stopped.is_empty() => format!("no answer, {}", status(end)),
        Silence::Eof => "no answer, and stdout is closed".to_owned(),
    }
}

fn is_success(end: &ExitReport) -> bool {
    end.exit.is_some_and(|status| status.success())
}

fn status(end: &ExitReport) -> String {
    end.exit.map_or("exit status unknown".to_owned(), |status| status.to_string())
}

/// Last line of stderr.
fn last_line(end: &ExitReport) -> String {
    end.last_stderr.last().cloned().unwrap_or_default()
}

fn cannot_start(words: &str, error: &io::Error) -> Failure {
    Failure {
        why: "the program cannot be started".to_owned(),
        sent: words.to_owned(),
        expected: "a process".to_owned(),
        saw: error.to_string(),
        next: "check that FILE exists and is executable",
        ..Failure::default()
    }
}

/// Checks that the text looks like a version and is safe to print.
fn is_version(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".-+".contains(&byte);
    text.len() <= 40 && text.starts_with(|c: char| c.is_ascii_digit()) && text.bytes().all(is_part)
}

/// Checks that the user's log file can be appended to. Neither writes to it nor creates it.
pub(super) fn log_file() -> Verdict {
    let Some(value) = std::env::var_os(LOG_VARIABLE).filter(|value| !value.is_empty()) else {
        return Verdict::Passed(format!("{LOG_VARIABLE} is not set"));
    };
    let path = Path::new(&value);
    let opened = match fs::metadata(path) {
        Ok(it) if !it.is_file() && !it.is_dir() => files::check_writable(path),
        Ok(_) => OpenOptions::new().append(true).open(path).map(drop),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            files::check_folder(folder.unwrap_or(Path::new(".")))
        }
        Err(error) => Err(error),
    };
    match opened {
        Ok(()) => {
            Verdict::Passed(format!("{LOG_VARIABLE} is set, and the file can be appended to"))
        }
        Err(error) => Verdict::Failed(Failure {
            why: format!("{LOG_VARIABLE} names a file that cannot be opened"),
            expected: "a file to append to".to_owned(),
            saw: error.to_string(),
            next: "name another file, make its folder, or change the permissions",
            ..Failure::default()
        }),
    }
}
