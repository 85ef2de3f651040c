//! Destinations of the log; logging never blocks the daemon (G1, L6, L8).
#![cfg(unix)]

mod support;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use duet_rpc::proto::frame::Framing;
use rustix::fs::{Mode, OFlags, open};
use support::concurrently;
use support::daemon::{Daemon, PROFILES, Trigger, after, frame, framing_of, pipe, request, rpc};
use support::folder::Folder;
use support::listening::memory;
use support::log::{FORMATS, Life, live, live_answered, live_with, parse};

/// Enough requests for more records than all buffers up to the log hold.
const MANY: u64 = 3_000;

/// A daemon with this log file.
fn logging_to(path: &Path, options: &[&str]) -> Command {
    let mut command = rpc(options);
    command.env("DUET_RPC_LOG", path);
    command
}

fn requests(framing: Framing, count: u64) -> Vec<u8> {
    (1..=count).flat_map(|id| frame(framing, &request(id, "version", "[]"))).collect()
}

#[test]
fn g1_the_log_goes_to_stderr_if_no_file_is_named() {
    for name in [None, Some("")] {
        let mut command = rpc(&[]);
        command.envs(name.map(|name| ("DUET_RPC_LOG", name)));
        let life = live(command, Framing::Lsp, b"");
        assert_eq!(life.records("text").len(), 2);
    }
}

#[test]
fn g1_a_file_is_appended_to() {
    let folder = Folder::new();
    let path = PathBuf::from(folder.write("log", "an earlier line\n"));
    for lives in 1..=3 {
        let life = live(logging_to(&path, &[]), Framing::Lsp, b"");
        assert_eq!(life.stderr, b"");
        let log = std::fs::read_to_string(&path).expect("the file exists");
        let (before, log) = log.split_once('\n').expect("the log has lines");
        assert_eq!(before, "an earlier line");
        assert_eq!(parse(log.as_bytes(), "text").len(), 2 * lives);
    }
}

/// Checks for exactly one warning, about this file.
fn check_one_warning(life: &Life, format: &str, path: &Path) {
    let records = life.records(format);
    let warnings: Vec<_> = records.iter().filter(|record| record.severity == "warn").collect();
    let [warning] = warnings[..] else { panic!("{records:?}") };
    let is_known = warning.message.contains(path.to_str().expect("text"));
    assert!(is_known || warning.message.contains("log file"), "{warning:?}");
}

#[test]
fn g1_an_unusable_log_file_is_reported_once_and_replaced_by_stderr() {
    let folder = Folder::new();
    let mut paths = vec![folder.path("missing/log"), folder.path("."), folder.fifo("fifo")];
    if !rustix::process::geteuid().is_root() {
        let locked = PathBuf::from(folder.write("locked", ""));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o400);
        std::fs::set_permissions(&locked, mode).expect("the file is ours");
        paths.push(locked);
    }
    for path in &paths {
        for (profile, format) in PROFILES.into_iter().zip(FORMATS.into_iter().cycle()) {
            let framing = framing_of(profile);
            let options = ["--profile", profile, "--log-format", format];
            let life = live_answered(logging_to(path, &options), framing, &requests(framing, 3), 3);
            check_one_warning(&life, format, path);
            let records = life.records(format);
            let start = records.iter().find(|record| record.field("pid").is_some());
            assert_eq!(start.and_then(|start| start.field("sink")), Some("stderr"));
            let last = records.last().expect("there are records");
            assert_eq!(last.message, "stdin closed, shutting down gracefully");
        }
    }
    // At any level: a user who looks for the file must learn why it is missing.
    let life = live(logging_to(&paths[0], &["--log-level", "error"]), Framing::Lsp, b"");
    check_one_warning(&life, "text", &paths[0]);
}

#[test]
fn g1_a_full_disk_does_not_stop_the_daemon() {
    for (profile, format) in PROFILES.into_iter().zip(FORMATS.into_iter().cycle()) {
        let framing = framing_of(profile);
        let options = ["--profile", profile, "--log-format", format, "--log-level", "debug"];
        let full = Path::new("/dev/full");
        let command = logging_to(full, &options);
        let life = live_answered(command, framing, &requests(framing, MANY), MANY);
        assert_eq!(life.records(format).len(), 1);
        check_one_warning(&life, format, full);
    }
}

/// A file size limit makes later writes fail.
#[test]
fn g1_a_log_file_at_its_size_limit_does_not_stop_the_daemon() {
    let folder = Folder::new();
    for profile in PROFILES {
        let (framing, path) = (framing_of(profile), folder.path(profile));
        let daemon = logging_to(&path, &["--profile", profile, "--log-level", "debug"]);
        // The unit is blocks of 512 or 1024 bytes.
        let limited = after("ulimit -f 8", &daemon);
        let life = live_answered(limited, framing, &requests(framing, MANY), MANY);
        assert_eq!(life.records("text").len(), 1);
        check_one_warning(&life, "text", &path);
        let log = std::fs::read(&path).expect("the file exists");
        let whole = log.iter().rposition(|&byte| byte == b'\n').expect("lines") + 1;
        assert!(parse(&log[..whole], "text").len() > 10);
    }
}

/// A pipe whose reader closes it.
#[test]
fn g1_a_log_reader_that_leaves_does_not_stop_the_daemon() {
    let folder = Folder::new();
    let path = folder.fifo("fifo");
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let reader = open(&path, flags, Mode::empty()).expect("the pipe opens");
    rustix::io::ioctl_fionbio(&reader, false).expect("a pipe can be made so");
    let mut reader = File::from(reader);
    let command = logging_to(&path, &["--log-level", "debug"]);
    let life = live_with(command, Framing::Lsp, |daemon| {
        daemon.ask(1, "version", "[]");
        reader.read_exact(&mut [0; 24]).expect("the daemon logs");
        drop(reader);
        daemon.send_raw(&requests(Framing::Lsp, MANY));
        (0..MANY).for_each(|_| drop(daemon.answer()));
    });
    assert_eq!(life.records("text").len(), 1);
    check_one_warning(&life, "text", &path);
}

/// Nobody reads stderr, and it holds only a small part of the log.
#[test]
#[cfg(target_os = "linux")]
fn l5_l6_l8_an_unread_stderr_costs_only_records() {
    const COUNT: u64 = 50_000;
    let triggers = [Trigger::Eof, Trigger::Terminate, Trigger::Shutdown];
    concurrently(PROFILES.into_iter().zip(triggers), |(profile, trigger)| {
        let (unread, into) = pipe();
        let mut command = rpc(&["--profile", profile, "--log-level", "debug"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::from(into));
        let framing = framing_of(profile);
        let mut daemon = Daemon::with_pipes(command, framing);
        daemon.send_raw(&requests(framing, COUNT));
        let mut sum = 0;
        for _ in 0..COUNT {
            let answer = daemon.answer();
            assert_eq!(answer["result"]["version"], "0.1.0", "{profile}: {answer}");
            sum += answer["id"].as_u64().expect("a number");
        }
        assert_eq!(sum, COUNT * (COUNT + 1) / 2, "{profile}");
        let most = memory(&daemon.process, "VmHWM");
        assert!(most < 64 << 20, "{profile} took {most} bytes");
        let end = daemon.end(trigger);
        assert_eq!(end.status.code(), Some(0), "{profile} {trigger:?}");
        drop(unread);
    });
}

/// Dropped records are counted, and the count appears when somebody reads again.
#[test]
fn l8_dropped_records_are_counted() {
    for format in FORMATS {
        let (unread, into) = pipe();
        let mut command = rpc(&["--log-level", "debug", "--log-format", format]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::from(into));
        let mut daemon = Daemon::with_pipes(command, Framing::Lsp);
        daemon.send_raw(&requests(Framing::Lsp, MANY));
        (0..MANY).for_each(|_| drop(daemon.answer()));
        let reader = thread::spawn(move || {
            let mut log = Vec::new();
            File::from(unread).read_to_end(&mut log).expect("the pipe can be read");
            log
        });
        let end = daemon.end(Trigger::Eof);
        assert_eq!(end.status.code(), Some(0));
        let records = parse(&reader.join().expect("the reader thread does not panic"), format);
        let warnings: Vec<_> = records.iter().filter(|record| record.severity == "warn").collect();
        let counts = warnings.iter().map(|warning| {
            let number = warning.message.split(' ').find_map(|word| word.parse::<u64>().ok());
            number.unwrap_or_else(|| panic!("no number in {warning:?}"))
        });
        let dropped: u64 = counts.sum();
        // The start, the end, and for each request a frame, the request and the response.
        let written = (records.len() - warnings.len()) as u64;
        assert_eq!(dropped + written, 2 + 3 * MANY, "{format}");
    }
}
