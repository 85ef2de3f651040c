//! The sink on real pipes and devices.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::{MOST, Sink, Words};

/// Far longer than anything takes, on any machine.
const HANG: Duration = Duration::from_secs(30);

fn words() -> Words {
    Words {
        dropped: Box::new(|count| format!("dropped {count}\n")),
        broken: Box::new(|error| format!("broken {:?}\n", error.raw_os_error())),
    }
}

fn pipe() -> (File, File) {
    let (reader, writer) = io::pipe().expect("a pipe");
    (OwnedFd::from(reader).into(), OwnedFd::from(writer).into())
}

#[test]
fn g1_lines_come_out_as_they_went_in() {
    let (reader, writer) = pipe();
    let sink = Sink::start(writer, None, words()).expect("a thread");
    sink.push("one\n");
    sink.push("two\n");
    sink.flush(HANG);
    let lines: Vec<_> = BufReader::new(reader).lines().take(2).map(Result::unwrap).collect();
    assert_eq!(lines, ["one", "two"]);
}

#[test]
fn l8_who_does_not_read_costs_lines_and_never_progress() {
    let (reader, writer) = pipe();
    let sink = Sink::start(writer, None, words()).expect("a thread");
    let line = format!("{}\n", "x".repeat(99));
    // More than the pipe and the buffer can hold. That this ends at all is the test.
    let count = 10 * MOST / line.len();
    for _ in 0..count {
        sink.push(&line);
    }
    let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
    let (mut seen, mut dropped) = (0, 0);
    while seen + dropped < count {
        let line = lines.next().expect("all come, or are counted");
        match line.strip_prefix("dropped ") {
            Some(count) => dropped += count.parse::<usize>().expect("a number"),
            None => seen += 1,
        }
    }
    assert_eq!(seen + dropped, count);
    assert!(dropped > 0);
    // And it goes on.
    sink.push("more\n");
    assert_eq!(lines.next().as_deref(), Some("more"));
}

#[test]
fn g1_a_full_device_is_told_of_once() {
    let full = OpenOptions::new().append(true).open("/dev/full").expect("/dev/full");
    let (mut reader, emergency) = pipe();
    let sink = Sink::start(full, Some(emergency), words()).expect("a thread");
    for _ in 0..100 {
        sink.push("line\n");
        sink.flush(HANG);
    }
    let mut said = String::new();
    // The pipe is closed when it has been used.
    reader.read_to_string(&mut said).expect("text");
    let no_space = rustix::io::Errno::NOSPC.raw_os_error();
    assert_eq!(said, format!("broken {:?}\n", Some(no_space)));
}

#[test]
fn g1_flushing_what_nobody_reads_ends() {
    let (reader, writer) = pipe();
    let sink = Sink::start(writer, None, words()).expect("a thread");
    for _ in 0..100 {
        sink.push(&format!("{}\n", "x".repeat(9999)));
    }
    sink.flush(Duration::from_millis(10));
    drop(reader);
}
