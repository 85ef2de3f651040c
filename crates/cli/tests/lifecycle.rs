//! The life cycle of a server as a real process, over real pipes, with real signals (L1, L3–L9, T4).
#![cfg(unix)]

mod support;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use duet_rpc::proto::frame::Framing;
use serde_json::{Value, json};
use support::daemon::{Daemon, End, PROFILES, Trigger, command, full_pipe, pipe, request};
use support::folder::Folder;
use support::{concurrently, pairs};

/// Handlers that may run at the end.
const BUSY: [Option<&str>; 5] =
    [None, Some("test.sleep"), Some("test.block"), Some("test.spin"), Some("test.jam")];

/// Starts a test bed, keeps it busy beyond its time limit, and ends it.
fn live_and_end(profile: &str, busy: Option<&str>, trigger: Trigger) -> End {
    let mut testbed = Daemon::start(profile);
    let version = json!({"jsonrpc": "2.0", "id": 1, "result": {"version": "0.1.0"}});
    assert_eq!(testbed.ask(1, "version", "null"), version);
    if let Some(method) = busy {
        testbed.request(2, method, r#"{"ms": 25000}"#);
        testbed.wait_for(&format!("{method} begins"));
    }
    testbed.end(trigger)
}

/// All cases. A jammed reading thread cannot read a message, so `shutdown` is left out there.
fn cases() -> impl Iterator<Item = (&'static str, Option<&'static str>, Trigger)> + Clone {
    let cases = pairs(pairs(PROFILES, BUSY), Trigger::ALL).into_iter();
    let cases = cases.map(|((profile, busy), trigger)| (profile, busy, trigger));
    cases.filter(|&(_, busy, trigger)| busy != Some("test.jam") || trigger != Trigger::Shutdown)
}

#[test]
fn l5_the_server_exits_with_stdin_open_whichever_handler_runs() {
    concurrently(cases(), |case| {
        let (profile, busy, trigger) = case;
        let end = live_and_end(profile, busy, trigger);
        assert_eq!(end.status.code(), Some(0), "{case:?}: {end:?}");
        if busy.is_none() && trigger == Trigger::Shutdown {
            assert_eq!(end.answers[0]["result"]["message"], "Shutting down gracefully");
        }
    });
}

/// Measures how long ends take: `LIVES=500 cargo test --release -p duet-rpc-cli --test lifecycle -- --ignored
/// --nocapture`.
#[test]
#[ignore = "this test measures times"]
fn l5_every_end_takes_less_than_two_seconds() {
    let lives = std::env::var("LIVES").ok().and_then(|lives| lives.parse().ok()).unwrap_or(100);
    let (mut idle, mut busy_ends) = (Vec::new(), Vec::new());
    for (profile, busy, trigger) in cases().cycle().take(lives) {
        let end = live_and_end(profile, busy, trigger);
        assert_eq!(end.status.code(), Some(0), "{profile} {busy:?} {trigger:?}: {end:?}");
        assert!(end.took < Duration::from_secs(2), "{profile} {busy:?} {trigger:?}: {end:?}");
        if busy.is_none() { idle.push(end.took) } else { busy_ends.push(end.took) }
    }
    for (name, mut times) in [("idle", idle), ("busy", busy_ends)] {
        times.sort_unstable();
        let at = |share: usize| times[(times.len() - 1) * share / 100];
        let (median, high, most) = (at(50), at(99), at(100));
        eprintln!("{name}: {} lives, median {median:?}, p99 {high:?}, most {most:?}", times.len());
    }
}

#[test]
fn l3_everything_before_the_end_of_input_is_answered() {
    for profile in PROFILES {
        let mut testbed = Daemon::start(profile);
        for id in 0..500 {
            let method = if id % 50 == 0 { "test.sleep" } else { "version" };
            testbed.request(id, method, r#"{"ms": 5}"#);
        }
        let end = testbed.end(Trigger::Eof);
        assert_eq!(end.status.code(), Some(0));
        let mut ids: Vec<_> =
            end.answers.iter().filter_map(|answer| answer["id"].as_u64()).collect();
        if profile == "agent" {
            ids.sort_unstable();
        }
        assert_eq!(ids, (0..500).collect::<Vec<_>>(), "{profile}");
    }
}

#[test]
fn l4_a_running_request_gets_time_to_finish() {
    for trigger in [Trigger::Interrupt, Trigger::Terminate, Trigger::HangUp, Trigger::Shutdown] {
        let mut testbed = Daemon::start("agent");
        testbed.request(1, "test.sleep", r#"{"ms": 100}"#);
        testbed.wait_for("test.sleep begins");
        let end = testbed.end(trigger);
        assert_eq!(end.status.code(), Some(0));
        let answered =
            end.answers.iter().any(|answer| answer["id"] == 1 && answer["result"] == 100);
        assert!(answered, "{trigger:?}: {end:?}");
    }
}

#[test]
fn l4_nothing_starts_after_shutdown() {
    for profile in PROFILES {
        let mut testbed = Daemon::start(profile);
        testbed.request(1, "shutdown", "null");
        testbed.request(2, "version", "[2]");
        let end = testbed.wait(Instant::now());
        let ids: Vec<_> = end.answers.iter().map(|answer| answer["id"].clone()).collect();
        assert_eq!((end.status.code(), ids), (Some(0), vec![json!(1)]), "{profile}");
    }
}

#[test]
fn l4_shutdown_as_a_notification_ends_the_server() {
    let mut testbed = Daemon::start("agent");
    testbed.send(r#"{"jsonrpc":"2.0","method":"shutdown"}"#);
    let end = testbed.wait(Instant::now());
    assert_eq!((end.status.code(), end.answers), (Some(0), vec![]));
}

#[test]
fn l5_an_unread_stdout_does_not_delay_the_end() {
    for trigger in [Trigger::Eof, Trigger::Terminate, Trigger::Shutdown] {
        let (out, into) = pipe();
        let mut testbed = Daemon::with_stdout(command("agent"), Framing::Ndjson, into);
        testbed.request(1, "test.big", r#"{"bytes": 4000000}"#);
        testbed.request(2, "test.sleep", r#"{"ms": 0}"#);
        testbed.wait_for("test.sleep begins");
        let end = testbed.end(trigger);
        assert_eq!(end.status.code(), Some(0), "{trigger:?}");
        drop(out);
    }
}

#[test]
fn l5_an_unread_stderr_does_not_delay_the_end() {
    for trigger in Trigger::ALL {
        let (err, into) = full_pipe();
        let mut command = command("agent");
        command.env_remove("TESTBED_TELLS");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::from(into));
        let mut testbed = Daemon::with_pipes(command, Framing::Ndjson);
        testbed.request(1, "test.panic", "null");
        assert_eq!(testbed.answer()["error"]["code"], -32603);
        let end = testbed.end(trigger);
        assert_eq!(end.status.code(), Some(0), "{trigger:?}");
        drop(err);
    }
}

#[test]
fn l5_a_slow_reader_loses_nothing_after_the_end_of_input() {
    let mut command = command("agent");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn().expect("the example is built");
    let mut stdin = process.stdin.take().expect("a pipe");
    for id in 0..5 {
        let text = request(id, "test.big", r#"{"bytes": 1000000}"#);
        writeln!(stdin, "{text}").expect("the process reads stdin");
    }
    drop(stdin);
    // The reader takes longer than two seconds in total, but is never idle that long. This test needs real
    // time.
    let mut stdout = process.stdout.take().expect("a pipe");
    let (mut count, mut chunk) = (0, vec![0; 100_000]);
    loop {
        match stdout.read(&mut chunk).expect("the pipe can be read") {
            0 => break,
            bytes => count += bytes,
        }
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(process.wait().expect("our child").code(), Some(0));
    assert!(count > 5_000_000, "{count} bytes came");
}

#[test]
fn l6_the_exit_hook_runs_and_is_cut_off_if_it_never_returns() {
    for (is_never_done, busy) in [(false, None), (true, None), (true, Some("test.jam"))] {
        for trigger in [Trigger::Eof, Trigger::Terminate] {
            let mut command = command("agent");
            if is_never_done {
                command.env("TESTBED_IS_NEVER_DONE", "1");
            }
            let mut testbed = Daemon::spawn(command, Framing::Ndjson);
            if let Some(method) = busy {
                testbed.request(1, method, r#"{"ms": 25000}"#);
                testbed.wait_for(&format!("{method} begins"));
            } else {
                testbed.request(1, "system.echo", "[1]");
                testbed.answer();
            }
            let end = testbed.end(trigger);
            let case = (is_never_done, busy, trigger);
            assert_eq!(end.status.code(), Some(0), "{case:?}");
            assert!(end.lines.iter().any(|line| line == "the exit hook begins"), "{case:?}");
        }
    }
}

#[test]
fn l7_a_fatal_failure_is_exit_code_1_without_a_panic() {
    // An unreadable stdin.
    let mut directory = command("agent");
    directory.stdin(File::open("/").expect("a directory")).stdout(Stdio::piped());
    let output = directory.stderr(Stdio::piped()).output().expect("the example is built");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("directory") && !message.contains("panicked"), "{message}");
    // A closed stdout, and a full one.
    let full = File::options().write(true).open("/dev/full").expect("a device");
    let sinks = [("closed", Stdio::from(pipe().1)), ("full", full.into())];
    for (sink, stdout) in sinks {
        let mut testbed = Daemon::with_stdout(command("agent"), Framing::Ndjson, stdout);
        testbed.request(1, "system.echo", "[1]");
        let end = testbed.wait(Instant::now());
        assert_eq!(end.status.code(), Some(1), "{sink}");
    }
}

#[test]
fn l8_a_closed_stdin_is_noticed_while_reading_is_paused() {
    let (out, into) = pipe();
    let mut testbed = Daemon::with_stdout(command("agent"), Framing::Ndjson, into);
    let mut stdin = testbed.stdin.take().expect("a pipe");
    // The daemon stops reading when too many answers wait, and then this write blocks.
    let writer = thread::spawn(move || {
        rustix::io::ioctl_fionbio(&stdin, true).expect("a pipe can be non-blocking");
        let line = |id| request(id, "test.big", r#"{"bytes":100000}"#) + "\n";
        let text: String = (0..300_000).map(line).collect();
        let mut text = text.as_bytes();
        let mut written = 0;
        let mut refused_since = Instant::now();
        while refused_since.elapsed() < Duration::from_millis(300) {
            match stdin.write(text) {
                Ok(count) => {
                    text = &text[count..];
                    written += count;
                    refused_since = Instant::now();
                }
                Err(_) => thread::yield_now(),
            }
        }
        written
    });
    let written = writer.join().expect("the writer thread does not panic");
    assert!(written < 10_000_000, "{written} bytes were read although the answers are unread");
    let end = testbed.wait(Instant::now());
    assert_eq!(end.status.code(), Some(0));
    drop(out);
}

#[test]
fn l1_l9_a_stray_print_goes_to_stderr() {
    for profile in ["editor", "agent"] {
        let mut testbed = Daemon::start(profile);
        testbed.request(1, "test.print", "null");
        assert_eq!(testbed.answer()["result"], Value::Null);
        assert_eq!(testbed.ask(2, "version", "[]")["result"]["version"], "0.1.0");
        testbed.wait_for("stray");
        assert_eq!(testbed.end(Trigger::Eof).status.code(), Some(0));
    }
}

#[test]
fn t4_files_as_stdin_and_stdout_work() {
    let folder = Folder::new();
    let line = request(1, "test.sleep", r#"{"ms":1}"#) + "\n";
    let input = folder.write("in", line.repeat(10_000));
    let output = folder.path("out");
    let mut command = command("agent");
    command.env_remove("TESTBED_TELLS").stderr(Stdio::null());
    command.stdin(File::open(&input).expect("the file exists"));
    command.stdout(File::create(&output).expect("the file can be made"));
    assert_eq!(command.status().expect("the example is built").code(), Some(0));
    let text = std::fs::read_to_string(&output).expect("the file exists");
    assert_eq!(text.lines().count(), 10_000);
}

#[test]
fn t4_one_socket_for_both_directions_works_as_with_node() {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
    let mut command = command("agent");
    command.stdin(std::os::fd::OwnedFd::from(theirs.try_clone().expect("a second one")));
    command.stdout(std::os::fd::OwnedFd::from(theirs)).stderr(Stdio::null());
    let mut process = command.spawn().expect("the example is built");
    drop(command);
    let (mut writer, mut reader) = (ours.try_clone().expect("a second one"), ours);
    writer
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"system.echo\",\"params\":[1]}\n")
        .expect("the server reads");
    let mut answer = String::new();
    BufReader::new(&mut reader).read_line(&mut answer).expect("an answer arrives");
    assert_eq!(answer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[1]}\n");
    writer.shutdown(std::net::Shutdown::Write).expect("the connection is open");
    assert_eq!(process.wait().expect("our child").code(), Some(0));
}
