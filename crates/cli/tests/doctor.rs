//! `duet-rpc doctor` on the real daemon, on daemons that were made wrong, and on what is none.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};

/// The real daemon.
const DAEMON: &str = env!("CARGO_BIN_EXE_duet-rpc");

/// Far longer than anything takes, on any machine.
const HANG: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

fn doctor(program: Option<&Path>) -> Command {
    let mut command = Command::new(DAEMON);
    command.arg("doctor").env_remove("DUET_RPC_LOG").stdin(Stdio::null());
    if let Some(program) = program {
        command.arg("--program").arg(program);
    }
    command
}

/// What the doctor says.
struct Report {
    text: String,
    output: Output,
}

impl Report {
    fn of(mut command: Command) -> Report {
        let output = command.output().expect("the doctor ends");
        let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
        let report = Report { text, output };
        assert_eq!(
            String::from_utf8_lossy(&report.output.stderr),
            "",
            "it has said all in the table"
        );
        assert!(!report.text.contains('\x1b'), "no colours: {}", report.text);
        for secret in [env!("CARGO_TARGET_TMPDIR"), DAEMON, "/tmp"] {
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

    /// The rows of a check in a profile, cell by cell.
    fn rows(&self, check: &str, profile: &str) -> Vec<[&str; 5]> {
        let rows = self.text.lines().filter_map(|line| {
            let cells: Vec<_> = line.strip_prefix("| ")?.split(" | ").map(str::trim).collect();
            <[&str; 5]>::try_from(cells).ok()
        });
        rows.filter(|cells| cells[0] == check && cells[1] == profile).collect()
    }

    /// There is a row of this check in this profile that failed for this reason.
    fn has_failed(&self, check: &str, profile: &str, why: &str, detail: &str) {
        let rows = self.rows(check, profile);
        let is_it = |row: &[&str; 5]| {
            row[3].starts_with("FAILED: ") && row[3].contains(why) && row[4].contains(detail)
        };
        assert!(rows.iter().any(is_it), "{check} {profile} {why} {detail}: {}", self.text);
    }

    fn is_ok(&self, check: &str, profile: &str) {
        let rows = self.rows(check, profile);
        assert!(rows.len() == 1 && rows[0][3] == "ok", "{check} {profile}: {}", self.text);
    }

    fn last_line(&self) -> &str {
        self.text.lines().last().unwrap_or_default()
    }
}

/// A folder of a test's own, which is empty.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder is ours");
    folder
}

/// Makes a script. Another process writes it: a file that one of us has open for writing, if only
/// for the moment in which some other test starts a process, cannot be run.
fn script(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("script");
    let mut writer = Command::new("sh")
        .args(["-c", r#"cat > "$1" && chmod +x "$1""#, "sh"])
        .arg(&path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("there is a shell");
    let text = format!("#!/bin/sh\n{}\n", text.replace("DAEMON", &format!("'{DAEMON}'")));
    writer.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("it reads");
    assert!(writer.wait().expect("it is our child").success());
    path
}

const PROFILES: [&str; 3] = ["editor", "desktop", "agent"];

#[test]
fn all_is_well_with_the_daemon() {
    let report = Report::of(doctor(None));
    assert_eq!(report.code(), Some(0), "{}", report.text);
    assert!(report.text.starts_with("duet-rpc doctor 0.1.0\n"));
    for check in ["answers", "methods", "survives", "stdout", "ends", "logs"] {
        for profile in PROFILES {
            report.is_ok(check, profile);
        }
    }
    for check in ["version", "logs", "exit codes"] {
        report.is_ok(check, "-");
    }
    assert!(report.last_line().starts_with("all "), "{}", report.last_line());
    assert!(report.text.lines().count() < 40, "{}", report.text);
}

#[test]
fn all_is_well_where_signals_are_ignored() {
    let mut command = Command::new("sh");
    command.args(["-c", r#"trap '' CHLD HUP INT TERM; exec "$1" doctor"#, "sh", DAEMON]);
    command.env_remove("DUET_RPC_LOG").stdin(Stdio::null());
    let report = Report::of(command);
    assert_eq!(report.code(), Some(0), "{}", report.text);
}

#[test]
fn the_manual_tells_of_each_check() {
    let manual = include_str!("../../../docs/doctor.md");
    let report = Report::of(doctor(Some(Path::new("/bin/false"))));
    let table = report.text.lines().filter_map(|line| line.strip_prefix("| ")).skip(2);
    for check in table.filter_map(|row| row.split('|').next()) {
        assert!(manual.contains(&format!("| {}", check.trim())), "{check}");
    }
}

#[test]
fn a_banner_on_stdout_is_found() {
    let folder = folder("doctor-banner");
    let banner = r#"test "$1" = rpc && echo "Welcome, $PWD""#;
    let program = script(&folder, &format!("{banner}\nexec DAEMON \"$@\""));
    let report = Report::of(doctor(Some(&program)));
    assert_eq!(report.code(), Some(1));
    for profile in PROFILES {
        let rows = report.rows("stdout", profile);
        // The same bytes break each framing in another way.
        assert_eq!(rows.len(), 3, "{}", report.text);
        assert!(rows.iter().all(|row| row[3].starts_with("FAILED: ")), "{}", report.text);
        report.has_failed("stdout", profile, "byte 0 of stdout", "saw Welcome, PATH\\n");
        for check in ["answers", "methods", "survives", "ends"] {
            report.is_ok(check, profile);
        }
    }
    report.has_failed("exit codes", "-", "it printed to stdout", "saw Welcome");
}

#[test]
fn what_a_script_around_the_daemon_breaks_is_found() {
    // In the background, as a shell does not end on SIGINT as long as something runs before it.
    let text = r#"
        echo 'a word before' >&2
        exec 3<&0
        DAEMON "$@" <&3 &
        wait
        echo 'a word behind'
        exit 7"#;
    let report = Report::of(doctor(Some(&script(&folder("doctor-around"), text))));
    assert_eq!(report.code(), Some(1));
    report.has_failed("version", "-", "it tells no version", "saw exit status: 7");
    for profile in PROFILES {
        report.is_ok("methods", profile);
        report.has_failed("stdout", profile, "frames and nothing else", "saw a word behind");
        report.has_failed("ends", profile, "end of stdin", "saw exit status: 7");
        report.has_failed("ends", profile, "SIGTERM", "expected exit status: 0; saw signal: 15");
        report.has_failed("logs", profile, "to a file", "in none of them: pid");
        report.has_failed("logs", profile, "as JSON", "saw a word before");
    }
    report.has_failed(
        "exit codes",
        "-",
        "a bad flag",
        "expected exit status: 2; saw exit status: 7",
    );
    report.has_failed(
        "exit codes",
        "-",
        "a directory",
        "expected exit status: 1; saw exit status: 7",
    );
}

#[test]
fn a_daemon_that_serves_something_else_is_found() {
    let text = r#"
        unset DUET_RPC_LOG
        case "$1 $3" in
            --version*) echo 9.9.9; exit;;
            "rpc editor"|"rpc desktop") shift 3; exec DAEMON rpc --profile agent "$@";;
            *) exec DAEMON "$@" --batch reject;;
        esac"#;
    let report = Report::of(doctor(Some(&script(&folder("doctor-else"), text))));
    assert_eq!(report.code(), Some(1));
    report.is_ok("version", "-");
    for profile in PROFILES {
        let place = "first answer: another answer in result.serverInfo.version";
        report.has_failed("answers", profile, place, r#"expected "9.9.9"; saw "0.1.0""#);
        report.has_failed("logs", profile, "to a file", "saw 0 lines");
        report.has_failed("logs", profile, "cannot be opened", "saw no warning");
        report.is_ok("stdout", profile);
        report.is_ok("ends", profile);
    }
    report.has_failed("methods", "editor", "listMethods", "saw also ");
    report.has_failed("methods", "desktop", "listMethods", "saw also system.callback");
    report.has_failed("methods", "editor", "batch refused", r#"saw [{"#);
    report.has_failed("methods", "agent", "batch", r#"saw {"error""#);
}

#[test]
fn what_is_no_daemon_fails_and_is_told_from_one() {
    for (program, why) in [
        ("/bin/cat", "it ended with no answer, exit status: 1"),
        ("/bin/false", "it ended with no answer, exit status: 1"),
        ("/bin/echo", "it ended with no answer, exit status: 0"),
        ("/bin/sleep", "it ended with no answer, exit status: 1"),
        ("/no/such/file", "the program cannot be started: No such file or directory"),
        ("/", "the program cannot be started: Permission denied"),
    ] {
        let report = Report::of(doctor(Some(Path::new(program))));
        assert_eq!(report.code(), Some(1), "{program}");
        for profile in PROFILES {
            report.has_failed("answers", profile, why, "");
        }
        assert!(report.last_line().contains(" checks FAILED, "), "{}", report.text);
    }
}

#[test]
fn what_prints_without_end_is_stopped() {
    let program = script(&folder("doctor-endless"), "exec yes \"$*\"");
    let report = Report::of(doctor(Some(&program)));
    assert_eq!(report.code(), Some(1));
    for profile in PROFILES {
        report.has_failed("answers", profile, "it prints without end", "saw rpc --profile");
        report.has_failed("stdout", profile, "byte 0 of stdout", "saw rpc --profile");
    }
}

/// A program that starts another and waits for it. Both hold a pipe open, which tells whether one of
/// them is left.
struct Sleeper {
    program: PathBuf,
    pipe: File,
}

impl Sleeper {
    fn new(test: &str) -> Sleeper {
        let folder = folder(test);
        let pipe = folder.join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().expect("there is mkfifo").success());
        let text = format!("exec 9>'{}'\necho begun >&9\nsleep 1000\nexit 0", pipe.display());
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let pipe = OpenOptions::new().read(true).custom_flags(nonblocking).open(&pipe);
        Sleeper { program: script(&folder, &text), pipe: pipe.expect("it was just made") }
    }

    fn wait_for(&self, event: PollFlags) {
        let mut fds = [PollFd::new(&self.pipe, event)];
        poll(&mut fds, Some(&HANG)).expect("it can be polled");
        assert!(fds[0].revents().contains(event), "{event:?} has not come");
    }
}

#[test]
fn what_never_answers_fails_and_leaves_nothing_behind() {
    let sleeper = Sleeper::new("doctor-sleeper");
    let report = Report::of(doctor(Some(&sleeper.program)));
    assert_eq!(report.code(), Some(1));
    report.has_failed("version", "-", "it has not ended after 5.0 s", "sent --version");
    for profile in PROFILES {
        report.has_failed("answers", profile, "no answer in 5.0 s", "saw nothing on stdout");
        assert_eq!(report.rows("ends", profile)[0][3], "not made");
    }
    sleeper.wait_for(PollFlags::HUP);
}

#[test]
fn a_doctor_that_is_interrupted_leaves_nothing_behind() {
    let sleeper = Sleeper::new("doctor-interrupted");
    let scratch = folder("doctor-interrupted-scratch");
    let mut command = doctor(Some(&sleeper.program));
    command.env("TMPDIR", &scratch).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the doctor starts");
    sleeper.wait_for(PollFlags::IN);
    kill_process(Pid::from_child(&child), Signal::INT).expect("it lives");
    let output = child.wait_with_output().expect("it is our child");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout, b"");
    assert_eq!(output.stderr, b"duet-rpc: the checks were interrupted\n");
    sleeper.wait_for(PollFlags::HUP);
    assert_eq!(fs::read_dir(scratch).expect("it is there").count(), 0);
}

/// As under `nohup`.
#[test]
#[cfg(target_os = "linux")]
fn l4_a_doctor_that_ignores_a_signal_is_not_interrupted_by_it() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" doctor", DAEMON]).env_remove("DUET_RPC_LOG");
    let mut doctor = shell.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("it starts");
    // Before that it is a shell, which may not have got to ignoring it.
    let program = fs::canonicalize(DAEMON).expect("it is built");
    while fs::read_link(format!("/proc/{}/exe", doctor.id())).expect("it runs") != program {}
    let status = loop {
        match doctor.try_wait().expect("our child") {
            Some(status) => break status,
            None => kill_process(Pid::from_child(&doctor), Signal::HUP).expect("it is not reaped"),
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    assert_eq!(status.code(), Some(0));
}

#[test]
fn the_users_own_log_is_looked_at_and_left_alone() {
    let folder = folder("doctor-log");
    let there = folder.join("there");
    fs::write(&there, "what I wrote\n").expect("the folder is ours");
    let check = |log: &Path| {
        let mut command = doctor(None);
        command.env("DUET_RPC_LOG", log);
        Report::of(command)
    };
    for log in [&there, &folder.join("not there")] {
        let report = check(log);
        assert_eq!(report.code(), Some(0), "{}", report.text);
        assert_eq!(report.rows("logs", "-")[0][4], "DUET_RPC_LOG is set, and can be appended to |");
    }
    for log in [&folder, &folder.join("no folder/log")] {
        let report = check(log);
        assert_eq!(report.code(), Some(1));
        report.has_failed("logs", "-", "what DUET_RPC_LOG names cannot be opened", "saw ");
        assert!(report.last_line().starts_with("1 of "), "{}", report.last_line());
    }
    assert_eq!(fs::read(&there).expect("it is there"), b"what I wrote\n");
    assert_eq!(fs::read_dir(&folder).expect("it is there").count(), 1);
}
