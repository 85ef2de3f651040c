//! `duet-rpc doctor` on the real daemon, on scripts that break it, and on programs that are not daemons.

#![cfg(unix)]

mod support;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use support::daemon::{PROFILES, after};
use support::folder::Folder;
use support::programs::DUET_RPC as DAEMON;

/// Longer than any step takes on any machine.
const HANG: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

fn doctor(program: Option<&Path>) -> Command {
    let mut command = Command::new(DAEMON);
    command.arg("doctor").env_remove("DUET_RPC_LOG").stdin(Stdio::null());
    if let Some(program) = program {
        command.arg("--program").arg(program);
    }
    command
}

/// Report for a program that does not pass.
fn failure_of(program: &Path) -> Report {
    let report = Report::run(doctor(Some(program)));
    assert_eq!(report.code(), Some(1), "{}", report.text);
    report
}

/// Report for a script that does not pass.
fn failure_of_script(text: &str) -> Report {
    failure_of(&script(&Folder::new(), text))
}

/// The output of doctor.
struct Report {
    text: String,
    output: Output,
}

impl Report {
    fn run(mut command: Command) -> Report {
        let output = command.output().expect("doctor ends");
        let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
        let report = Report { text, output };
        let stderr = String::from_utf8_lossy(&report.output.stderr);
        assert_eq!(stderr, "", "stderr is empty");
        assert!(!report.text.contains('\x1b'), "no colours: {}", report.text);
        let folder = std::env::temp_dir().display().to_string();
        for secret in [&*folder, DAEMON, "/tmp"] {
            assert!(!report.text.contains(secret), "no paths: {}", report.text);
        }
        let is_long = |part: &str| part.trim().chars().count() > 120;
        let parts = report.text.split(['|', ';', '\n']);
        assert_eq!(parts.filter(|part| is_long(part)).collect::<Vec<_>>(), [""; 0]);
        report
    }

    fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    /// Rows of a check in a profile, cell by cell.
    fn rows(&self, check: &str, profile: &str) -> Vec<[&str; 5]> {
        let rows = self.text.lines().filter_map(|line| {
            let cells: Vec<_> = line.strip_prefix("| ")?.split(" | ").map(str::trim).collect();
            <[&str; 5]>::try_from(cells).ok()
        });
        rows.filter(|cells| cells[0] == check && cells[1] == profile).collect()
    }

    /// Checks for a row of this check and profile that failed for this reason.
    fn has_failed(&self, check: &str, profile: &str, why: &str, detail: &str) {
        let rows = self.rows(check, profile);
        let is_it = |row: &[&str; 5]| {
            row[3].starts_with("FAILED: ") && row[3].contains(why) && row[4].contains(detail)
        };
        assert!(rows.iter().any(is_it), "{check} {profile} {why} {detail}: {}", self.text);
    }

    /// Checks for exactly one row of this check and profile, with this result.
    fn is(&self, result: &str, check: &str, profile: &str) {
        let rows = self.rows(check, profile);
        assert!(rows.len() == 1 && rows[0][3] == result, "{check} {profile}: {}", self.text);
    }

    fn last_line(&self) -> &str {
        self.text.lines().last().unwrap_or_default()
    }
}

/// Makes a script. Another process writes it: a file cannot be executed while a process holds it open for
/// writing, and a concurrent test may start a process that inherits our descriptor.
fn script(folder: &Folder, text: &str) -> PathBuf {
    let path = folder.path("script");
    let mut writer = Command::new("sh")
        .args(["-c", r#"cat > "$1" && chmod +x "$1""#, "sh"])
        .arg(&path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("there is a shell");
    let text = format!("#!/bin/sh\n{}\n", text.replace("DAEMON", &format!("'{DAEMON}'")));
    writer
        .stdin
        .take()
        .expect("the stream is piped")
        .write_all(text.as_bytes())
        .expect("the remote reads");
    assert!(writer.wait().expect("the process can be waited for").success());
    path
}

const CHECKS: [&str; 4] = ["first answer", "echo", "exit", "stdout"];

#[test]
fn every_check_passes_on_the_real_daemon() {
    let report = Report::run(doctor(None));
    assert_eq!(report.code(), Some(0), "{}", report.text);
    assert!(report.text.starts_with("duet-rpc doctor 0.1.0\n"));
    for profile in PROFILES {
        CHECKS.iter().for_each(|check| report.is("ok", check, profile));
    }
    for check in ["version", "log file"] {
        report.is("ok", check, "-");
    }
    assert_eq!(report.last_line(), "all 14 checks passed");
    assert!(report.text.lines().count() < 40, "{}", report.text);
}

#[test]
fn every_check_passes_where_signals_are_ignored() {
    let mut command = after("trap '' CHLD HUP INT TERM", &doctor(None));
    command.stdin(Stdio::null());
    let report = Report::run(command);
    assert_eq!(report.code(), Some(0), "{}", report.text);
}

#[test]
fn manual_names_each_check() {
    let manual = include_str!("../../../docs/doctor.md");
    let report = failure_of(Path::new("/bin/false"));
    let table = report.text.lines().filter_map(|line| line.strip_prefix("| ")).skip(2);
    let checks: Vec<_> = table.filter_map(|row| row.split('|').next()).collect();
    assert_eq!(checks.len(), 14);
    for check in checks {
        assert!(manual.contains(&format!("\n| {} |", check.trim())), "{check}");
    }
}

#[test]
fn banner_on_stdout_fails_the_stdout_check() {
    let banner = r#"test "$1" = rpc && echo "Welcome, $PWD""#;
    let report = failure_of_script(&format!("{banner}\nexec DAEMON \"$@\""));
    for profile in PROFILES {
        report.has_failed("stdout", profile, "byte 0 of stdout", "saw Welcome, PATH\\n");
        report.has_failed("stdout", profile, "byte 0 of stdout", "next: print to stderr");
        for check in ["first answer", "echo", "exit"] {
            report.is("ok", check, profile);
        }
    }
    assert_eq!(report.last_line(), "3 of 14 checks FAILED");
}

#[test]
fn script_that_prints_at_the_end_and_hides_the_exit_code_fails() {
    let text = "DAEMON \"$@\"\necho 'a word after'\necho 'a reason' >&2\nexit 7";
    let report = failure_of_script(text);
    report.has_failed("version", "-", "no version", "saw exit status: 7, 0.1.0\\na word after");
    for profile in PROFILES {
        report.is("ok", "first answer", profile);
        report.is("ok", "echo", profile);
        report.has_failed("stdout", profile, "of stdout", "saw a word after");
        let detail = "sent the end of stdin; expected exit status: 0 within 2s; \
                      saw exit status: 7; stderr a reason; next: have the script";
        report.has_failed("exit", profile, "another exit code", detail);
    }
}

#[test]
fn wrong_answers_fail_with_expected_and_received_values() {
    let text = r#"
        test "$1" = --version && echo 9.9.9 && exit
        test "$3" = agent || exec DAEMON "$@"
        read -r line
        echo '{"jsonrpc":"2.0","id":1,"result":{"serverInfo":{"version":"9.9.9"}}}'
        read -r line
        echo '{"jsonrpc":"2.0","method":"hello"}'
        echo '{"jsonrpc":"2.0","id":2,"result":["a|b"]}'
        cat"#;
    let report = failure_of_script(text);
    report.is("ok", "version", "-");
    for profile in ["editor", "desktop"] {
        let detail = r#"sent initialize {}; expected "9.9.9" in result.serverInfo.version; saw "0.1.0"; next: "#;
        report.has_failed("first answer", profile, "another answer", detail);
        report.is("ok", "exit", profile);
        report.is("ok", "stdout", profile);
    }
    report.is("ok", "first answer", "agent");
    report.has_failed("echo", "agent", "another answer", r#"saw ["a\|b"]; "#);
    report.has_failed("stdout", "agent", "an unexpected message", r#""method":"hello""#);
    report.is("ok", "exit", "agent");
}

#[test]
fn program_that_is_not_a_daemon_fails_with_the_reason() {
    for (program, why, saw) in [
        ("/bin/cat", "no answer, exit status: 1", "saw nothing on stdout; stderr "),
        ("/bin/false", "no answer, exit status: 1", "saw nothing on stdout; next: run FILE"),
        ("/bin/echo", "no answer, exit status: 0", "saw rpc --profile "),
        ("/no/such/file", "cannot be started", "saw cannot start \"PATH\": No such file"),
        ("/", "cannot be started", "saw cannot start \"PATH\": Permission denied"),
    ] {
        let report = failure_of(Path::new(program));
        report.has_failed("version", "-", "", "sent --version; expected ");
        for profile in PROFILES {
            report.has_failed("first answer", profile, why, saw);
            report.is("skipped", "echo", profile);
            report.is("skipped", "exit", profile);
        }
        assert!(report.last_line().contains(" checks FAILED, "), "{}", report.text);
    }
}

#[test]
fn program_that_prints_without_end_is_stopped() {
    let report = failure_of_script("exec yes \"x $*\"");
    let why = "no answer in the first MiB of stdout";
    report.has_failed("version", "-", why, "saw x --version\\n");
    for profile in PROFILES {
        report.has_failed("first answer", profile, why, "saw x rpc --profile");
        report.has_failed("stdout", profile, "byte 0 of stdout", "saw x rpc --profile");
    }
}

/// A program whose processes hold a pipe open, so that the test sees if one of them is left.
struct Watched {
    program: PathBuf,
    pipe: File,
    _folder: Folder,
}

impl Watched {
    fn new(text: &str) -> Watched {
        let folder = Folder::new();
        let pipe = folder.fifo("pipe");
        let text = format!("exec 9>'{}'\necho begun >&9\n{text}", pipe.display());
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let pipe = OpenOptions::new().read(true).custom_flags(nonblocking).open(&pipe);
        let pipe = pipe.expect("the pipe was just made");
        Watched { program: script(&folder, &text), pipe, _folder: folder }
    }

    fn wait_for(&self, event: PollFlags) {
        let mut fds = [PollFd::new(&self.pipe, event)];
        poll(&mut fds, Some(&HANG)).expect("the pipe can be polled");
        assert!(fds[0].revents().contains(event), "{event:?} has not arrived");
    }
}

/// Answers `--version` immediately, to save time.
const VERSION: &str = "test \"$1\" = --version && exec DAEMON \"$@\"\n";

#[test]
fn program_that_never_answers_fails_and_leaves_no_process() {
    let program = Watched::new("sleep 1000\nexit 0");
    let report = failure_of(&program.program);
    report.has_failed("version", "-", "no answer within 5s", "sent --version");
    for profile in PROFILES {
        report.has_failed("first answer", profile, "no answer within 5s", "saw nothing on stdout");
        CHECKS[1..].iter().for_each(|check| report.is("skipped", check, profile));
    }
    program.wait_for(PollFlags::HUP);
}

#[test]
fn program_that_ignores_eof_and_sigterm_fails_and_leaves_no_process() {
    let text = format!("{VERSION}trap '' HUP INT TERM\nDAEMON \"$@\"\nsleep 1000\nsleep 1000");
    let program = Watched::new(&text);
    let report = failure_of(&program.program);
    for profile in PROFILES {
        report.has_failed("exit", profile, "no exit within 2s", "");
        ["first answer", "echo", "stdout"].iter().for_each(|check| report.is("ok", check, profile));
    }
    program.wait_for(PollFlags::HUP);
}

#[test]
#[cfg(target_os = "linux")]
fn process_that_leaves_the_group_is_named_and_killed() {
    let text = format!("{VERSION}setsid sleep 1000 &\nexec DAEMON \"$@\"");
    let program = Watched::new(&text);
    let report = failure_of(&program.program);
    for profile in PROFILES {
        report.has_failed("exit", profile, "processes are left behind", "saw still running: sleep");
    }
    program.wait_for(PollFlags::HUP);
}

#[test]
fn doctor_that_is_interrupted_leaves_no_process() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let program = Watched::new("trap '' TERM\nsleep 1000\nexit 0");
        let mut command = doctor(Some(&program.program));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("doctor starts");
        program.wait_for(PollFlags::IN);
        kill_process(Pid::from_child(&child), signal).expect("the process is not reaped yet");
        let output = child.wait_with_output().expect("the process can be waited for");
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(output.stdout, b"");
        assert_eq!(output.stderr, b"duet-rpc: the checks were interrupted\n");
        program.wait_for(PollFlags::HUP);
    }
}

/// SIGHUP is ignored under `nohup`. The program lets doctor continue only after the signal was sent.
#[test]
fn l4_doctor_is_not_interrupted_by_an_ignored_signal() {
    let folder = Folder::new();
    let go = folder.fifo("go");
    let text = format!(
        "test \"$1\" = --version && read -r line < '{}'\nexec 9>&-\nexec DAEMON \"$@\"",
        go.display()
    );
    let program = Watched::new(&text);
    let mut shell = after("trap '' HUP", &doctor(Some(&program.program)));
    let mut doctor =
        shell.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("the program starts");
    program.wait_for(PollFlags::IN);
    kill_process(Pid::from_child(&doctor), Signal::HUP).expect("the process is not reaped yet");
    fs::write(&go, "go\n").expect("the program reads it");
    assert_eq!(doctor.wait().expect("our child").code(), Some(0));
}

#[test]
fn log_file_of_the_user_is_checked_and_unchanged() {
    let folder = Folder::new();
    let there = PathBuf::from(folder.write("there", "what I wrote\n"));
    let check = |log: &Path| {
        let mut command = doctor(None);
        command.env("DUET_RPC_LOG", log);
        Report::run(command)
    };
    for log in [&there, &folder.path("not there")] {
        let report = check(log);
        assert_eq!(report.code(), Some(0), "{}", report.text);
        let detail = "DUET_RPC_LOG is set, and the file can be appended to |";
        assert_eq!(report.rows("log file", "-")[0][4], detail);
    }
    for log in [&folder.path(""), &folder.path("no folder/log")] {
        let report = check(log);
        assert_eq!(report.code(), Some(1));
        let why = "DUET_RPC_LOG names a file that cannot be opened";
        report.has_failed("log file", "-", why, "saw ");
        assert_eq!(report.last_line(), "1 of 14 checks FAILED");
    }
    assert_eq!(fs::read(&there).expect("the file exists"), b"what I wrote\n");
    assert_eq!(fs::read_dir(folder.path("")).expect("the folder exists").count(), 1);
}
