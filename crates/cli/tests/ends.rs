//! The end of the daemon: its log records, its end with the parent, and failures that it cannot survive (L3,
//! L4, L7, L10).
#![cfg(unix)]

mod support;

use std::fs::File;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use support::daemon::{
    Daemon, PROFILES, Trigger, after, command, frame, framing_of, full_pipe, in_shell, pipe,
    request, rpc,
};
use support::folder::Folder;
use support::log::{FORMATS, ParsedRecord, parse_line};
use support::{concurrently, pairs};

/// Longer than any test waits.
const FOR_EVER: &str = r#"{"ms": 3600000}"#;

fn records(lines: &[String], format: &str) -> Vec<ParsedRecord> {
    lines.iter().map(|line| parse_line(line, format)).collect()
}

/// Counts the records with this severity and text.
fn count(records: &[ParsedRecord], severity: &str, said: &str) -> usize {
    let says =
        |record: &&ParsedRecord| record.severity == severity && record.message.contains(said);
    records.iter().filter(says).count()
}

#[test]
fn l3_l4_the_log_states_the_reason_of_the_end_once() {
    let rows = [
        (Trigger::Eof, "stdin closed, shutting down gracefully"),
        (Trigger::Interrupt, "SIGINT"),
        (Trigger::Terminate, "SIGTERM"),
        (Trigger::HangUp, "SIGHUP"),
    ];
    for profile in PROFILES {
        for (format, (trigger, said)) in FORMATS.into_iter().cycle().zip(rows) {
            let mut daemon = Daemon::rpc(profile, &["--log-format", format]);
            daemon.ask(1, "version", "[]");
            let end = daemon.end(trigger);
            assert_eq!(end.status.code(), Some(0), "{profile} {trigger:?}");
            let records = records(&end.lines, format);
            for (other, text) in rows {
                let expect = usize::from(other == trigger);
                assert_eq!(count(&records, "info", text), expect, "{trigger:?}: {records:?}");
            }
            assert_eq!(count(&records, "info", said), 1);
            // None of this is a fault.
            assert!(records.iter().all(|record| record.severity == "info"), "{records:?}");
        }
    }
}

/// SIGHUP is ignored under `nohup`.
#[test]
#[cfg(target_os = "linux")]
fn l4_a_signal_ignored_at_the_start_stays_ignored() {
    let rows = [
        ("HUP", Trigger::HangUp, Trigger::Terminate),
        ("INT", Trigger::Interrupt, Trigger::HangUp),
        ("TERM", Trigger::Terminate, Trigger::Interrupt),
    ];
    for (name, ignored, heard) in rows {
        let started = after(&format!("trap '' {name}"), &rpc(&["--profile", "agent"]));
        let mut daemon = Daemon::spawn(started, framing_of("agent"));
        daemon.ask(1, "version", "[]");
        for id in 2..5 {
            daemon.trigger(ignored);
            daemon.ask(id, "version", "[]");
        }
        let end = daemon.end(heard);
        assert_eq!(end.status.code(), Some(0), "{name}");
        let said = end.lines.join("\n");
        assert!(!said.contains(&format!("SIG{name}")), "{said}");
    }
}

/// This holds even if a handler blocks its thread, or the reading thread, beyond the time limit.
#[test]
fn l3_l4_the_log_states_the_reason_of_the_end_while_a_handler_blocks() {
    let rows = [
        (Trigger::Eof, "stdin closed", "test.block"),
        (Trigger::Eof, "stdin closed", "test.jam"),
        (Trigger::Terminate, "SIGTERM", "test.block"),
        (Trigger::Terminate, "SIGTERM", "test.jam"),
    ];
    concurrently(pairs(PROFILES, rows), |(profile, (trigger, said, method))| {
        let mut testbed = Daemon::start(profile);
        testbed.request(1, method, FOR_EVER);
        testbed.wait_for(&format!("{method} begins"));
        let end = testbed.end(trigger);
        assert_eq!(end.status.code(), Some(0), "{profile} {trigger:?}");
        let said = end.lines.iter().filter(|line| line.contains(said)).count();
        assert_eq!(said, 1, "{profile} {trigger:?}: {:?}", end.lines);
    });
}

/// Checks that the daemon ended. The shell is gone, so the end of stderr is the end of the daemon.
fn check_ended_with_parent(daemon: &Daemon, case: &str) {
    let records = records(&daemon.read_stderr_to_end(), "text");
    assert_eq!(count(&records, "info", "parent"), 1, "{case}: {records:?}");
    assert!(daemon.stdin.is_some(), "{case}");
}

/// A shell starts the daemon with its own stdin, stdout and stderr, and waits. Without the redirection, a
/// background process has no stdin.
const PARENT: &str = r#"exec 3<&0; "$@" <&3 3<&- & wait"#;

#[test]
fn l10_the_daemon_ends_with_its_parent_although_stdin_stays_open() {
    let scripts = [
        r#"exec 3<&0; "$@" --exit-with-parent <&3 3<&- & wait"#,
        // The process need not be the parent: here it is a shell that started another shell.
        r#"sh -c 'exec 3<&0; "$@" <&3 3<&- & wait' sh "$@" --exit-with-parent=$$; :"#,
        // `bash -c` replaces itself with a single command, so the id is the daemon's own.
        r#"exec 3<&0; sh -c 'exec "$@" --exit-with-parent=$$' sh "$@" <&3 3<&- & wait"#,
    ];
    for (profile, script) in pairs(PROFILES, scripts) {
        let shell = in_shell(script, &rpc(&["--profile", profile]));
        let mut daemon = Daemon::spawn(shell, framing_of(profile));
        daemon.ask(1, "version", "[]");
        daemon.kill(Signal::KILL);
        check_ended_with_parent(&daemon, &format!("{profile} {script}"));
        assert_eq!(daemon.wait(Instant::now()).answers, [] as [serde_json::Value; 0]);
    }
}

#[test]
fn l10_the_daemon_ends_with_its_parent_even_while_busy() {
    let busy = ["test.sleep", "test.block", "test.spin", "test.jam"];
    concurrently(pairs(PROFILES, busy), |(profile, method)| {
        let mut started = command(profile);
        started.arg("--exit-with-parent");
        let mut testbed = Daemon::spawn(in_shell(PARENT, &started), framing_of(profile));
        testbed.request(1, method, FOR_EVER);
        testbed.wait_for(&format!("{method} begins"));
        testbed.kill(Signal::KILL);
        let said = testbed.read_stderr_to_end();
        let is_told = said.iter().any(|line| line.contains("parent"));
        assert!(is_told, "{profile} {method}: {said:?}");
        testbed.wait(Instant::now());
    });
}

#[test]
fn l10_without_the_flag_the_daemon_outlives_its_parent() {
    for profile in PROFILES {
        let shell = in_shell(PARENT, &rpc(&["--profile", profile]));
        let mut daemon = Daemon::spawn(shell, framing_of(profile));
        daemon.ask(1, "version", "[]");
        daemon.kill(Signal::KILL);
        daemon.process.wait().expect("the process can be waited for");
        for id in 2..100 {
            assert_eq!(daemon.ask(id, "version", "[]")["id"], id, "{profile}");
        }
        drop(daemon.stdin.take());
        let records = records(&daemon.read_stderr_to_end(), "text");
        assert_eq!(count(&records, "info", "stdin closed"), 1, "{profile}: {records:?}");
        assert_eq!(count(&records, "info", "parent"), 0, "{profile}: {records:?}");
    }
}

/// The parent is a process, not the thread that started the daemon.
#[test]
fn l10_the_end_of_the_thread_that_started_it_is_not_the_end_of_the_parent() {
    for profile in PROFILES {
        let start = move || Daemon::rpc(profile, &["--exit-with-parent"]);
        let mut daemon = thread::spawn(start).join().expect("the thread does not panic");
        for id in 1..100 {
            assert_eq!(daemon.ask(id, "version", "[]")["id"], id, "{profile}");
        }
        let end = daemon.end(Trigger::Eof);
        assert_eq!(end.status.code(), Some(0));
        assert_eq!(count(&records(&end.lines, "text"), "info", "parent"), 0);
    }
}

/// The shell may be dead before the daemon runs.
#[test]
fn l10_a_parent_that_dies_immediately_leaves_no_process_behind() {
    let ends = ["kill -KILL $$", "sleep 0.001; kill -KILL $$", "sleep 0.01; kill -KILL $$"];
    let start = |profile: &str, option: &str, end: &str| {
        let script = format!(r#"exec 3<&0; "$@" {option} <&3 3<&- & {end}"#);
        let shell = in_shell(&script, &rpc(&["--profile", profile]));
        let mut daemon = Daemon::spawn(shell, framing_of(profile));
        daemon.process.wait().expect("the process can be waited for");
        daemon
    };
    for profile in PROFILES {
        // The daemon may have a new parent by then, which looks like the first one. It still ends with stdin.
        let mut daemon = start(profile, "--exit-with-parent", ends[0]);
        drop(daemon.stdin.take());
        daemon.read_stderr_to_end();
    }
    // If the daemon knows the id of the shell, it detects the end.
    for (number, end) in (0..12).zip(ends.iter().cycle()) {
        let daemon = start(PROFILES[number % PROFILES.len()], "--exit-with-parent=$$", end);
        check_ended_with_parent(&daemon, end);
    }
}

/// The token file is a pipe without a writer.
#[test]
fn l10_the_daemon_ends_with_its_parent_while_it_waits_for_the_token() {
    let folder = Folder::new();
    let token = folder.fifo("token");
    let file = token.to_str().expect("UTF-8");
    let words = ["--listen", "http://127.0.0.1:0/", "--exit-with-parent", "--token-file", file];
    let mut daemon = Daemon::spawn(in_shell(PARENT, &rpc(&words)), framing_of("agent"));
    let writer = daemon.wait_for_reader_of(&token);
    daemon.kill(Signal::KILL);
    let said = daemon.read_stderr_to_end();
    assert_eq!(said, ["duet-rpc: the parent process ended before the token file was read"]);
    assert!(daemon.stdin.is_some());
    drop(writer);
}

/// Nobody reads stderr, so writing the error message would block.
#[test]
#[cfg(target_os = "linux")]
fn l4_a_signal_ends_a_daemon_that_cannot_start_and_has_a_full_stderr() {
    let (reader, writer) = full_pipe();
    let mut daemon = rpc(&["--listen", "unix:///no/such/folder/socket"]);
    daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer);
    let mut daemon = Daemon::with_pipes(daemon, framing_of("agent"));
    let id = daemon.process.id();
    let receives_signals = || {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let mask =
            u64::from_str_radix(mask.unwrap_or("0").trim(), 16).expect("the mask is a number");
        mask >> (Signal::TERM.as_raw() - 1) & 1 == 1
    };
    while !receives_signals() {
        assert_eq!(daemon.process.try_wait().expect("our child"), None);
    }
    daemon.kill(Signal::TERM);
    assert_eq!(daemon.wait(Instant::now()).status.signal(), Some(15));
    drop(reader);
}

/// Checks for exit code 1 and one error record, with only records on stderr.
fn check_failure(daemon: Daemon, case: &str) {
    let end = daemon.wait(Instant::now());
    assert_eq!(end.status.code(), Some(1), "{case}: {end:?}");
    let records = records(&end.lines, "text");
    assert_eq!(count(&records, "error", ""), 1, "{case}: {records:?}");
    assert!(!end.lines.iter().any(|line| line.contains("panicked")), "{records:?}");
}

/// Kinds of stdout: our end, and the daemon's.
fn outputs() -> [(&'static str, OwnedFd, OwnedFd); 2] {
    let (reader, writer) = pipe();
    let (ours, theirs) = UnixStream::pair().expect("sockets can be made");
    [("pipe", reader, writer), ("socket", ours.into(), theirs.into())]
}

#[test]
fn l7_stdout_closed_while_idle_is_exit_code_1() {
    for profile in PROFILES {
        // After some requests a thread waits in `read`.
        for (is_testbed, requests) in [(false, 0), (false, 20), (true, 0), (true, 20)] {
            for (kind, ours, theirs) in outputs() {
                let case = format!("{profile} {is_testbed} {kind} {requests}");
                let command = match is_testbed {
                    true => command(profile),
                    false => rpc(&["--profile", profile]),
                };
                let mut daemon = Daemon::with_stdout(command, framing_of(profile), theirs);
                daemon.wait_for_line(|line| line.contains("started"));
                for id in 0..requests {
                    daemon.request(id, "version", "[]");
                }
                drop(ours);
                let end = daemon.wait(Instant::now());
                assert_eq!(end.status.code(), Some(1), "{case}: {end:?}");
                // The test bed also prints lines that are not records.
                let errors = end.lines.iter().filter(|line| line.contains(" ERROR ")).count();
                assert_eq!(errors, 1, "{case}: {:?}", end.lines);
            }
        }
    }
}

/// A client that exits closes stdin and stdout, in either order.
#[test]
fn l3_stdin_closed_directly_after_stdout_is_a_normal_end() {
    for (kind, ours, theirs) in outputs() {
        let command = rpc(&["--profile", "agent"]);
        let mut daemon = Daemon::with_stdout(command, framing_of("agent"), theirs);
        daemon.wait_for_line(|line| line.contains("started"));
        drop((ours, daemon.stdin.take()));
        let end = daemon.wait(Instant::now());
        assert_eq!(end.status.code(), Some(0), "{kind}: {end:?}");
    }
}

/// A TCP connection that the other side has reset.
fn reset_connection() -> TcpStream {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let ours = TcpStream::connect(listener.local_addr().expect("the listener has an address"))
        .expect("the server listens");
    let (theirs, _) = listener.accept().expect("a client connects");
    // Closing without lingering resets the connection.
    rustix::net::sockopt::set_socket_linger(&theirs, Some(Duration::ZERO))
        .expect("the socket takes the option");
    drop(theirs);
    ours
}

#[test]
fn l7_a_fatal_failure_is_exit_code_1_and_a_record() {
    for profile in PROFILES {
        let (framing, folder) = (framing_of(profile), Folder::new());
        let full = File::options().write(true).open("/dev/full").expect("a device");
        let limited = File::create(folder.path("out")).expect("the file can be made");
        let gone = OwnedFd::from(UnixStream::pair().expect("sockets can be made").0);
        let rows: [(&str, &str, Stdio); 5] = [
            ("closed", ":", pipe().1.into()),
            ("full", ":", full.into()),
            // A file with a size limit: the system would end the process with a signal.
            ("limited", "ulimit -f 0", limited.into()),
            ("gone", ":", gone.into()),
            ("reset", ":", OwnedFd::from(reset_connection()).into()),
        ];
        for (case, preparation, stdout) in rows {
            let command = after(preparation, &rpc(&["--profile", profile]));
            let mut daemon = Daemon::with_stdout(command, framing, stdout);
            let stdin = daemon.stdin.as_mut().expect("a pipe");
            // The daemon may have ended already.
            let _ = stdin.write_all(&frame(framing, &request(1, "version", "[]")));
            check_failure(daemon, &format!("{profile} {case}"));
        }
        let mut directory = rpc(&["--profile", profile]);
        directory.stdin(File::open("/").expect("a directory"));
        directory.stdout(Stdio::piped()).stderr(Stdio::piped());
        check_failure(Daemon::with_pipes(directory, framing), &format!("{profile} directory"));
    }
}
