//! Tests of the sink on real pipes and devices.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::{LossMessages, MAX_WAITING, Sink};

/// Longer than any step takes on any machine.
const HANG: Duration = Duration::from_secs(30);

fn messages() -> LossMessages {
    LossMessages {
        dropped: Box::new(|count| format!("dropped {count}\n")),
        broken: Box::new(|error| format!("broken {:?}\n", error.raw_os_error())),
    }
}

fn pipe() -> (File, File) {
    let (reader, writer) = io::pipe().expect("a pipe");
    (OwnedFd::from(reader).into(), OwnedFd::from(writer).into())
}

#[test]
fn g1_lines_arrive_unchanged_and_in_order() {
    let (reader, writer) = pipe();
    let sink = Sink::start(writer, None, messages()).expect("a thread");
    sink.push("one\n");
    sink.push("two\n");
    sink.flush(HANG);
    let lines: Vec<_> = BufReader::new(reader).lines().take(2).map(Result::unwrap).collect();
    assert_eq!(lines, ["one", "two"]);
}

#[test]
fn l8_missing_reader_costs_lines_but_never_blocks() {
    let (reader, writer) = pipe();
    let sink = Sink::start(writer, None, messages()).expect("a thread");
    let line = format!("{}\n", "x".repeat(99));
    // More than the pipe and the buffer hold. The test is that this loop ends.
    let count = 10 * MAX_WAITING / line.len();
    for _ in 0..count {
        sink.push(&line);
    }
    let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
    let (mut seen, mut dropped) = (0, 0);
    while seen + dropped < count {
        let line = lines.next().expect("every line arrives or is counted");
        match line.strip_prefix("dropped ") {
            Some(count) => dropped += count.parse::<usize>().expect("a number"),
            None => seen += 1,
        }
    }
    assert_eq!(seen + dropped, count);
    assert!(dropped > 0);
    // The sink continues afterwards.
    sink.push("more\n");
    assert_eq!(lines.next().as_deref(), Some("more"));
}

#[test]
fn g1_full_device_is_reported_once() {
    let full = OpenOptions::new().append(true).open("/dev/full").expect("/dev/full");
    let (mut reader, emergency) = pipe();
    let sink = Sink::start(full, Some(emergency), messages()).expect("a thread");
    for _ in 0..100 {
        sink.push("line\n");
        sink.flush(HANG);
    }
    let mut said = String::new();
    // The sink closes the pipe after its one report.
    reader.read_to_string(&mut said).expect("text");
    let no_space = rustix::io::Errno::NOSPC.raw_os_error();
    assert_eq!(said, format!("broken {:?}\n", Some(no_space)));
}

#[test]
fn g1_flush_without_a_reader_ends() {
    let (reader, writer) = pipe();
    let sink = Sink::start(writer, None, messages()).expect("a thread");
    for _ in 0..100 {
        sink.push(&format!("{}\n", "x".repeat(9999)));
    }
    sink.flush(Duration::from_millis(10));
    drop(reader);
}
