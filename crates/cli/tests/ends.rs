//! What the daemon says when it ends, that it ends with its parent if that is wanted, and what it
//! cannot survive (L3, L4, L7, L10).
#![cfg(unix)]

mod support;

use std::fs::File;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use rustix::process::Signal;
use support::daemon::{Daemon, Trigger, command, framing_of, pipe, rpc};
use support::folder::Folder;
use support::log::{FORMATS, PROFILES, Record, parse_line};

/// Longer than any test waits.
const FOR_EVER: &str = r#"{"ms": 3600000}"#;

fn records(lines: &[String], format: &str) -> Vec<Record> {
    lines.iter().map(|line| parse_line(line, format)).collect()
}

/// The records that say this.
fn count(records: &[Record], severity: &str, said: &str) -> usize {
    let says = |record: &&Record| record.severity == severity && record.message.contains(said);
    records.iter().filter(says).count()
}

#[test]
fn l3_l4_the_log_says_why_it_ends_and_says_it_once() {
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
            // Nothing of this is a fault.
            assert!(records.iter().all(|record| record.severity == "info"), "{records:?}");
        }
    }
}

/// The daemon with a signal that is ignored from its start on, as SIGHUP is under `nohup`.
fn with_ignored(signal: &str, started: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("trap '' {signal}; exec \"$0\" \"$@\"")]);
    shell.arg(started.get_program()).args(started.get_args());
    shell.env_remove("DUET_RPC_LOG").env_remove("NO_COLOR").env("TESTBED_TELLS", "1");
    shell
}

#[test]
#[cfg(target_os = "linux")]
fn l4_signal_that_is_ignored_at_start_stays_ignored() {
    let rows = [
        ("HUP", Trigger::HangUp, Trigger::Terminate),
        ("INT", Trigger::Interrupt, Trigger::HangUp),
        ("TERM", Trigger::Terminate, Trigger::Interrupt),
    ];
    for (name, ignored, heard) in rows {
        let mut daemon = Daemon::of(with_ignored(name, &rpc(&["--profile", "agent"])), "agent");
        daemon.ask(1, "version", "[]");
        for id in 2..5 {
            daemon.pull(ignored);
            daemon.ask(id, "version", "[]");
        }
        let end = daemon.end(heard);
        assert_eq!(end.status.code(), Some(0), "{name}");
        let said = end.lines.join("\n");
        assert!(!said.contains(&format!("SIG{name}")), "{said}");
    }
}

/// Also when a handler keeps its thread busy for longer than it has, or even the one that reads.
#[test]
fn l3_l4_the_log_says_why_it_ends_while_a_handler_blocks() {
    let rows = [
        (Trigger::Eof, "stdin closed", "test.block"),
        (Trigger::Eof, "stdin closed", "test.jam"),
        (Trigger::Terminate, "SIGTERM", "test.block"),
        (Trigger::Terminate, "SIGTERM", "test.jam"),
    ];
    let lives = PROFILES.into_iter().flat_map(|profile| rows.map(|row| (profile, row)));
    let lives = lives.map(|(profile, (trigger, said, method))| {
        thread::spawn(move || {
            let mut testbed = Daemon::start(profile);
            testbed.request(1, method, FOR_EVER);
            testbed.wait_for(&format!("{method} begins"));
            let end = testbed.end(trigger);
            assert_eq!(end.status.code(), Some(0), "{profile} {trigger:?}");
            let said = end.lines.iter().filter(|line| line.contains(said)).count();
            assert_eq!(said, 1, "{profile} {trigger:?}: {:?}", end.lines);
        })
    });
    for life in lives.collect::<Vec<_>>() {
        life.join().expect("it ends as it should");
    }
}

/// A shell starts this command with its own stdin, stdout and stderr, and then does this.
fn in_shell(started: &Command, then: &str) -> Command {
    let mut shell = Command::new("sh");
    // What runs in the background of a shell has no stdin of its own accord.
    shell.args(["-c", &format!("exec 3<&0; \"$0\" \"$@\" <&3 3<&- & {then}")]);
    shell.arg(started.get_program()).args(started.get_args());
    shell.env_remove("DUET_RPC_LOG").env_remove("NO_COLOR").env("TESTBED_TELLS", "1");
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell
}

#[test]
fn l10_it_ends_with_the_parent_though_stdin_stays_open() {
    for profile in PROFILES {
        let started = rpc(&["--profile", profile, "--exit-with-parent"]);
        let mut daemon = Daemon::with_pipes(in_shell(&started, "wait"), framing_of(profile));
        daemon.ask(1, "version", "[]");
        daemon.kill(Signal::KILL);
        // The shell is gone, so this is the end of the daemon.
        let records = records(&daemon.hear_out(), "text");
        assert_eq!(count(&records, "info", "parent"), 1, "{profile}: {records:?}");
        assert!(daemon.stdin.is_some());
        assert_eq!(daemon.wait(Instant::now()).answers, [] as [serde_json::Value; 0]);
    }
}

#[test]
fn l10_it_ends_with_the_parent_also_while_it_is_busy() {
    let busy = ["test.sleep", "test.block", "test.spin", "test.jam"];
    let lives = PROFILES.into_iter().flat_map(|profile| busy.map(|method| (profile, method)));
    let lives = lives.map(|(profile, method)| {
        thread::spawn(move || {
            let mut started = command(profile);
            started.arg("--exit-with-parent");
            let mut testbed = Daemon::with_pipes(in_shell(&started, "wait"), framing_of(profile));
            testbed.request(1, method, FOR_EVER);
            testbed.wait_for(&format!("{method} begins"));
            testbed.kill(Signal::KILL);
            let said = testbed.hear_out();
            let is_told = said.iter().any(|line| line.contains("parent"));
            assert!(is_told, "{profile} {method}: {said:?}");
            testbed.wait(Instant::now());
        })
    });
    for life in lives.collect::<Vec<_>>() {
        life.join().expect("it ends with its parent");
    }
}

#[test]
fn l10_without_the_flag_it_outlives_its_parent() {
    for profile in PROFILES {
        let started = rpc(&["--profile", profile]);
        let mut daemon = Daemon::with_pipes(in_shell(&started, "wait"), framing_of(profile));
        daemon.ask(1, "version", "[]");
        daemon.kill(Signal::KILL);
        daemon.process.wait().expect("it is our child");
        for id in 2..100 {
            assert_eq!(daemon.ask(id, "version", "[]")["id"], id, "{profile}");
        }
        drop(daemon.stdin.take());
        let records = records(&daemon.hear_out(), "text");
        assert_eq!(count(&records, "info", "stdin closed"), 1, "{profile}: {records:?}");
        assert_eq!(count(&records, "info", "parent"), 0, "{profile}: {records:?}");
    }
}

/// The parent is a process, and not the thread of it that happened to start the daemon.
#[test]
fn l10_the_end_of_the_thread_that_started_it_is_not_the_end_of_the_parent() {
    for profile in PROFILES {
        let start = move || Daemon::rpc(profile, &["--exit-with-parent"]);
        let mut daemon = thread::spawn(start).join().expect("it starts");
        for id in 1..100 {
            assert_eq!(daemon.ask(id, "version", "[]")["id"], id, "{profile}");
        }
        let end = daemon.end(Trigger::Eof);
        assert_eq!(end.status.code(), Some(0));
        assert_eq!(count(&records(&end.lines, "text"), "info", "parent"), 0);
    }
}

/// It may have another parent then, which cannot be told from the first. That it goes when stdin does
/// holds all the same.
#[test]
fn l10_a_parent_that_is_gone_before_it_is_up_leaves_no_process_behind() {
    for profile in PROFILES {
        let started = rpc(&["--profile", profile, "--exit-with-parent"]);
        let shell = in_shell(&started, "kill -KILL $$");
        let mut daemon = Daemon::with_pipes(shell, framing_of(profile));
        daemon.process.wait().expect("it is our child");
        drop(daemon.stdin.take());
        daemon.hear_out();
    }
}

/// The shell passes its own id, and may be dead before the daemon runs at all.
#[test]
fn l10_parent_that_passes_its_id_and_dies_at_once_takes_the_daemon_with_it() {
    let ends = ["kill -KILL $$", "sleep 0.001; kill -KILL $$", "sleep 0.01; kill -KILL $$"];
    for (number, end) in (0..12).zip(ends.iter().cycle()) {
        let profile = PROFILES[number % PROFILES.len()];
        let mut shell = Command::new("sh");
        let start = r#"exec 3<&0; "$0" "$@" --exit-with-parent=$$ <&3 3<&- & "#;
        shell.args(["-c", &format!("{start}{end}")]).arg(support::programs::DUET_RPC);
        shell.args(["rpc", "--profile", profile]).env_remove("DUET_RPC_LOG");
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut daemon = Daemon::with_pipes(shell, framing_of(profile));
        daemon.process.wait().expect("it is our child");
        // Stdin stays open, and stderr ends with the daemon.
        let said = daemon.hear_out();
        assert_eq!(count(&records(&said, "text"), "info", "parent"), 1, "{end}: {said:?}");
        assert!(daemon.stdin.is_some());
    }
}

/// It need not be the parent: here it is a shell that another shell has started.
#[test]
fn l10_process_to_end_with_need_not_be_the_parent() {
    let mut shell = Command::new("sh");
    let inner = r#"exec 3<&0; "$0" "$@" <&3 3<&- & wait"#;
    shell.args(["-c", &format!("sh -c '{inner}' \"$0\" \"$@\" --exit-with-parent=$$; :")]);
    shell.arg(support::programs::DUET_RPC).args(["rpc", "--profile", "agent"]);
    shell.env_remove("DUET_RPC_LOG");
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut daemon = Daemon::with_pipes(shell, framing_of("agent"));
    daemon.ask(1, "version", "[]");
    daemon.kill(Signal::KILL);
    let said = daemon.hear_out();
    assert_eq!(count(&records(&said, "text"), "info", "parent"), 1, "{said:?}");
}

/// `bash -c` becomes the one command that it is to run, so that its id is the daemon's own.
#[test]
fn l10_daemon_that_is_given_its_own_id_ends_with_its_parent() {
    let mut shell = Command::new("sh");
    let inner = r#"exec 3<&0; sh -c "exec \"\$0\" \"\$@\" --exit-with-parent=\$\$" "$0" "$@" <&3 3<&- & wait"#;
    shell.args(["-c", inner, support::programs::DUET_RPC, "rpc", "--profile", "agent"]);
    shell.env_remove("DUET_RPC_LOG");
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut daemon = Daemon::with_pipes(shell, framing_of("agent"));
    daemon.ask(1, "version", "[]");
    daemon.kill(Signal::KILL);
    let said = daemon.hear_out();
    assert_eq!(count(&records(&said, "text"), "info", "parent"), 1, "{said:?}");
    assert!(daemon.stdin.is_some());
}

/// The token is in a pipe that nobody writes to.
#[test]
fn l10_it_ends_with_the_parent_while_it_waits_for_the_token() {
    let folder = Folder::new();
    let token = folder.path("token");
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, &token, FileType::Fifo, mode, 0).expect("a pipe can be made");
    let file = token.to_str().expect("UTF-8");
    let words = ["--listen", "http://127.0.0.1:0/", "--exit-with-parent", "--token-file", file];
    let mut daemon = Daemon::with_pipes(in_shell(&rpc(&words), "wait"), framing_of("agent"));
    // It can be opened for writing only once the daemon has it open for reading.
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let writer = loop {
        match open(&token, flags, Mode::empty()) {
            Ok(writer) => break writer,
            Err(_) => assert_eq!(daemon.process.try_wait().expect("our child"), None),
        }
        thread::yield_now();
    };
    daemon.kill(Signal::KILL);
    let said = daemon.hear_out();
    assert_eq!(said, ["duet-rpc: the parent process has ended before the token file was read"]);
    assert!(daemon.stdin.is_some());
    drop(writer);
}

/// What it has to say is not read, and it cannot say it without waiting.
#[test]
#[cfg(target_os = "linux")]
fn l4_signal_ends_a_daemon_that_cannot_start_and_whose_stderr_is_full() {
    let (reader, writer) = pipe();
    let mut filler = File::from(writer.try_clone().expect("it can be had twice"));
    rustix::io::ioctl_fionbio(&filler, true).expect("it is a pipe");
    for size in [65536, 1] {
        while filler.write(&vec![b'x'; size]).is_ok() {}
    }
    rustix::io::ioctl_fionbio(&filler, false).expect("it is a pipe");
    let mut daemon = rpc(&["--listen", "unix:///no/such/folder/socket"]);
    daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer);
    let mut daemon = Daemon::with_pipes(daemon, framing_of("agent"));
    drop(filler);
    let id = daemon.process.id();
    let receives_signals = || {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let mask = u64::from_str_radix(mask.unwrap_or("0").trim(), 16).expect("it is a mask");
        mask >> (Signal::TERM.as_raw() - 1) & 1 == 1
    };
    while !receives_signals() {
        assert_eq!(daemon.process.try_wait().expect("our child"), None);
    }
    daemon.kill(Signal::TERM);
    assert_eq!(daemon.wait(Instant::now()).status.signal(), Some(15));
    drop(reader);
}

/// Ends with 1, and says on stderr why, in records and nothing else.
fn check_failure(mut command: Command, profile: &str, case: &str) {
    command.stderr(Stdio::piped());
    let is_asked = case != "directory";
    if is_asked {
        command.stdin(Stdio::piped());
    }
    let mut daemon = Daemon::with_pipes(command, framing_of(profile));
    if is_asked {
        let stdin = daemon.stdin.as_mut().expect("a pipe");
        let text = support::daemon::request(1, "version", "[]");
        // It may be gone already.
        let _ = stdin.write_all(&support::daemon::frame(framing_of(profile), &text));
    }
    let end = daemon.wait(Instant::now());
    assert_eq!(end.status.code(), Some(1), "{profile} {case}: {end:?}");
    let records = records(&end.lines, "text");
    assert_eq!(count(&records, "error", ""), 1, "{profile} {case}: {records:?}");
    assert!(!end.lines.iter().any(|line| line.contains("panicked")), "{records:?}");
}

/// What stdout may be: our end, and that of the daemon.
fn outputs() -> [(&'static str, OwnedFd, OwnedFd); 2] {
    let (reader, writer) = pipe();
    let (ours, theirs) = UnixStream::pair().expect("sockets are to be had");
    [("pipe", reader, writer), ("socket", ours.into(), theirs.into())]
}

#[test]
fn l7_stdout_closed_while_idle_ends_it_with_1() {
    for profile in PROFILES {
        // After some requests a thread waits in `read`.
        for (is_testbed, requests) in [(false, 0), (false, 20), (true, 0), (true, 20)] {
            for (kind, ours, theirs) in outputs() {
                let case = format!("{profile} {is_testbed} {kind} {requests}");
                let mut command = match is_testbed {
                    true => command(profile),
                    false => rpc(&["--profile", profile]),
                };
                command.stdin(Stdio::piped()).stdout(theirs).stderr(Stdio::piped());
                let mut daemon = Daemon::with_pipes(command, framing_of(profile));
                daemon.wait_for_line(|line| line.contains("started"));
                for id in 0..requests {
                    daemon.request(id, "version", "[]");
                }
                drop(ours);
                let end = daemon.wait(Instant::now());
                assert_eq!(end.status.code(), Some(1), "{case}: {end:?}");
                // The test bed says more than records.
                let errors = end.lines.iter().filter(|line| line.contains(" ERROR ")).count();
                assert_eq!(errors, 1, "{case}: {:?}", end.lines);
            }
        }
    }
}

/// Whoever exits closes both, in whichever order.
#[test]
fn l3_stdin_closed_right_behind_stdout_is_the_usual_end() {
    for (kind, ours, theirs) in outputs() {
        let mut command = rpc(&["--profile", "agent"]);
        command.stdin(Stdio::piped()).stdout(theirs).stderr(Stdio::piped());
        let mut daemon = Daemon::with_pipes(command, framing_of("agent"));
        daemon.wait_for_line(|line| line.contains("started"));
        drop((ours, daemon.stdin.take()));
        let end = daemon.wait(Instant::now());
        assert_eq!(end.status.code(), Some(0), "{kind}: {end:?}");
    }
}

/// A connection over the network that its other end has broken off.
fn reset_connection() -> TcpStream {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is to be had");
    let ours = TcpStream::connect(listener.local_addr().expect("it has one")).expect("it listens");
    let (theirs, _) = listener.accept().expect("it was called");
    // Not to linger is to break off.
    rustix::net::sockopt::set_socket_linger(&theirs, Some(Duration::ZERO)).expect("it is a socket");
    drop(theirs);
    ours
}

#[test]
fn l7_what_cannot_be_survived_is_exit_code_1_and_a_record() {
    for profile in PROFILES {
        let daemon = || rpc(&["--profile", profile]);

        let mut directory = daemon();
        directory.stdin(File::open("/").expect("a directory")).stdout(Stdio::piped());
        check_failure(directory, profile, "directory");

        let mut closed = daemon();
        closed.stdout(Stdio::from(pipe().1));
        check_failure(closed, profile, "closed");

        let mut full = daemon();
        full.stdout(File::options().write(true).open("/dev/full").expect("a device"));
        check_failure(full, profile, "full");

        // A file that may not grow: the system would end the process with a signal.
        let folder = Folder::new();
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -f 0; exec \"$0\" rpc --profile \"$1\""]);
        limited.args([env!("CARGO_BIN_EXE_duet-rpc"), profile]).env_remove("DUET_RPC_LOG");
        limited.stdout(File::create(folder.path("out")).expect("it can be made"));
        check_failure(limited, profile, "limited");

        let mut gone = daemon();
        gone.stdout(OwnedFd::from(UnixStream::pair().expect("sockets are to be had").0));
        check_failure(gone, profile, "gone");

        let mut reset = daemon();
        reset.stdout(OwnedFd::from(reset_connection()));
        check_failure(reset, profile, "reset");
    }
}
