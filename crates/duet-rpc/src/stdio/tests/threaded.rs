//! Files, and everything else that only a thread can wait for.

use std::fs::File;
use std::io::{ErrorKind, Write};

use rustix::pipe::pipe;

use super::*;

/// More than one chunk.
const LARGE: usize = 4 * 1024 * 1024;

#[tokio::test]
async fn files_are_read_and_written() {
    let line = format!("[\"{}\"]\n", "x".repeat(1000));
    let mut input = temporary_file("input");
    input.1.write_all(line.repeat(500).as_bytes()).unwrap();
    let output = temporary_file("output");
    let mut stdio = Stdio::from_fds(File::open(&input.0).unwrap().into(), output.1.into()).unwrap();
    let mut outbox = outbox(&vec![b'x'; LARGE]);
    send(&mut stdio, &mut outbox).await.unwrap();
    assert!(outbox.is_empty());
    assert_eq!(std::fs::metadata(&output.0).unwrap().len(), LARGE as u64 + 1);
    let frames = receive_all(&mut stdio).await.unwrap();
    assert_eq!(frames.len(), 500);
    assert!(frames.iter().all(|frame| frame == line.trim_end()));
    poll_fn(|cx| stdio.poll_remote_closed(cx)).await;
    std::fs::remove_file(input.0).unwrap();
    std::fs::remove_file(output.0).unwrap();
}

#[tokio::test]
async fn a_directory_cannot_be_read() {
    let directory = File::open(std::env::temp_dir()).unwrap();
    let mut stdio = Stdio::from_fds(directory.into(), nothing()).unwrap();
    for _ in 0..2 {
        let error = receive_all(&mut stdio).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
    }
}

#[tokio::test]
async fn a_read_only_descriptor_cannot_be_written() {
    let mut stdio = Stdio::from_fds(nothing(), nothing()).unwrap();
    for _ in 0..2 {
        let error = send(&mut stdio, &mut outbox(b"[]")).await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::BADF.raw_os_error()));
    }
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_full_disk_is_an_error() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut stdio = Stdio::from_fds(nothing(), full.into()).unwrap();
    let error = send(&mut stdio, &mut outbox(b"[]")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
}

#[test]
fn a_thread_that_waits_for_input_does_not_hold_up_the_runtime() {
    // A pipe read by a thread simulates a terminal on which nobody types.
    let (input, remote) = pipe().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async {
        let descriptor = Arc::new(Descriptor::of_unknown_kind(input));
        let mut input = crate::stdio::threaded::StdinReader::start(descriptor).unwrap();
        let mut inbox = inbox();
        assert!(once(|cx| input.poll_receive(cx, &mut inbox)).is_pending());
    });
    drop(runtime);
    drop(remote);
}

#[tokio::test]
async fn a_shared_terminal_that_was_made_non_blocking_is_waited_for() {
    let (input, remote) = pipe().unwrap();
    for end in [&input, &remote] {
        rustix::io::ioctl_fionbio(end, true).unwrap();
    }
    let descriptor = Arc::new(Descriptor::of_unknown_kind(input));
    let mut input = crate::stdio::threaded::StdinReader::start(descriptor).unwrap();
    let (mut inbox, mut found) = (inbox(), Vec::new());
    assert!(once(|cx| input.poll_receive(cx, &mut inbox)).is_pending());
    File::from(remote).write_all(b"[1]\n").unwrap();
    while poll_fn(|cx| input.poll_receive(cx, &mut inbox)).await.unwrap() != Received::Eof {
        frames(&mut inbox, &mut found);
    }
    assert_eq!(found, ["[1]"]);
}

/// A file of this test alone.
fn temporary_file(name: &str) -> (std::path::PathBuf, File) {
    let path = temporary_path(name);
    let file = File::create(&path).unwrap();
    (path, file)
}
