use std::fs::File;
use std::future::poll_fn;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use duet_rpc_proto::Profile;
use duet_rpc_proto::frame::{Event, Framing};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::pipe::{PipeFlags, pipe, pipe_with};

use super::*;
use crate::transport::Carries;

/// More than any pipe or socket here holds.
const LARGE: usize = 4 * 1024 * 1024;

fn inbox() -> Inbox {
    Inbox::new(Carries::Bytes, &Profile::agent())
}

fn outbox(message: &[u8]) -> Outbox {
    let mut outbox = Outbox::new(Some(Framing::Ndjson));
    outbox.push(message);
    outbox
}

fn nothing() -> OwnedFd {
    File::open("/dev/null").unwrap().into()
}

fn frames(inbox: &mut Inbox, found: &mut Vec<String>) {
    while let Some(event) = inbox.next_event() {
        found.push(match event {
            Event::Frame(text) => text.as_str().to_owned(),
            Event::Fault(_) => "fault".to_owned(),
        });
    }
}

/// Receives until the end, as a driver does.
async fn receive_all(stdio: &mut Stdio) -> io::Result<Vec<String>> {
    let (mut inbox, mut found) = (inbox(), Vec::new());
    loop {
        let received = poll_fn(|cx| stdio.poll_receive(cx, &mut inbox)).await?;
        if received == Received::End {
            inbox.finish();
        }
        frames(&mut inbox, &mut found);
        if received == Received::End {
            return Ok(found);
        }
    }
}

async fn send(stdio: &mut Stdio, outbox: &mut Outbox) -> io::Result<()> {
    poll_fn(|cx| stdio.poll_send(cx, outbox)).await
}

/// Polls once, with nobody to wake.
fn once<T>(poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    poll(&mut Context::from_waker(Waker::noop()))
}

/// Both kinds of a connection that can be polled: what we read, and what the remote writes to it.
fn links() -> [(OwnedFd, OwnedFd); 2] {
    let (ours, theirs) = UnixStream::pair().unwrap();
    [pipe().unwrap(), (ours.into(), theirs.into())]
}

#[tokio::test]
async fn frames_come_whole_and_then_the_end() {
    for (input, remote) in links() {
        let mut stdio = Stdio::from_fds(input, nothing()).unwrap();
        let mut remote = File::from(remote);
        let mut receiving = pin!(receive_all(&mut stdio));
        assert!(once(|cx| receiving.as_mut().poll(cx)).is_pending());
        remote.write_all(b"[1]\n[2").unwrap();
        // The runtime has a turn to notice it before the rest comes.
        tokio::task::yield_now().await;
        assert!(once(|cx| receiving.as_mut().poll(cx)).is_pending());
        remote.write_all(b"]\n[3]").unwrap();
        drop(remote);
        assert_eq!(receiving.await.unwrap(), ["[1]", "[2]", "[3]"]);
    }
}

#[tokio::test]
async fn what_was_there_before_is_received_at_the_first_poll() {
    for (input, remote) in links() {
        File::from(remote.try_clone().unwrap()).write_all(b"[1]\n").unwrap();
        let mut stdio = Stdio::from_fds(input, nothing()).unwrap();
        let mut inbox = inbox();
        assert!(matches!(
            once(|cx| stdio.poll_receive(cx, &mut inbox)),
            Poll::Ready(Ok(Received::All))
        ));
        assert!(once(|cx| stdio.poll_receive(cx, &mut inbox)).is_pending());
    }
}

#[tokio::test]
async fn an_end_right_behind_a_short_read_is_noticed() {
    for (input, remote) in links() {
        let mut stdio = Stdio::from_fds(input, nothing()).unwrap();
        let mut remote = File::from(remote);
        remote.write_all(b"[1]\n").unwrap();
        drop(remote);
        assert_eq!(receive_all(&mut stdio).await.unwrap(), ["[1]"]);
        // It stays the end.
        assert!(receive_all(&mut stdio).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn packets_are_not_taken_for_all_there_is() {
    let (input, remote) = pipe_with(PipeFlags::DIRECT).unwrap();
    let mut stdio = Stdio::from_fds(input, nothing()).unwrap();
    let mut remote = File::from(remote);
    for _ in 0..3 {
        remote.write_all(b"[1]\n").unwrap();
    }
    drop(remote);
    assert_eq!(receive_all(&mut stdio).await.unwrap(), ["[1]", "[1]", "[1]"]);
}

#[tokio::test]
async fn a_closed_end_is_noticed_while_reading_is_paused() {
    for (input, remote) in links() {
        let mut stdio = Stdio::from_fds(input, nothing()).unwrap();
        let mut remote = File::from(remote);
        remote.write_all(b"[1]\n").unwrap();
        let mut gone = Box::pin(poll_fn(|cx| stdio.poll_gone(cx)));
        for _ in 0..10 {
            tokio::task::yield_now().await;
            assert!(once(|cx| gone.as_mut().poll(cx)).is_pending());
        }
        drop(remote);
        gone.await;
        // What came before has not been lost for it.
        assert_eq!(receive_all(&mut stdio).await.unwrap(), ["[1]"]);
    }
}

#[tokio::test]
async fn bytes_that_a_pause_has_seen_are_received_after_it() {
    for (input, remote) in links() {
        let mut stdio = Stdio::from_fds(input, nothing()).unwrap();
        let mut remote = File::from(remote);
        let large = format!("[\"{}\"]\n", "x".repeat(30_000));
        for _ in 0..2 {
            remote.write_all(large.as_bytes()).unwrap();
            for _ in 0..10 {
                tokio::task::yield_now().await;
                assert!(once(|cx| stdio.poll_gone(cx)).is_pending());
            }
            // No news will come of these: they must be found.
            let (mut inbox, mut found) = (inbox(), Vec::new());
            while found.is_empty() {
                poll_fn(|cx| stdio.poll_receive(cx, &mut inbox)).await.unwrap();
                frames(&mut inbox, &mut found);
            }
            assert_eq!(found, [large.trim_end()]);
        }
    }
}

#[tokio::test]
async fn a_full_link_is_pending_and_counts_what_has_left() {
    for (remote, output) in links() {
        let mut stdio = Stdio::from_fds(nothing(), output).unwrap();
        let message = vec![b'x'; LARGE];
        let mut outbox = outbox(&message);
        assert!(once(|cx| stdio.poll_send(cx, &mut outbox)).is_pending());
        let left = outbox.len();
        assert!(0 < left && left < LARGE, "{left}");
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            File::from(remote).read_to_end(&mut got).unwrap();
            got
        });
        send(&mut stdio, &mut outbox).await.unwrap();
        assert_eq!(outbox.taken(), LARGE as u64 + 1);
        assert!(matches!(once(|cx| stdio.poll_close(cx)), Poll::Ready(_)));
        // The reader gets its end from the close, though the transport is still there.
        let got = reader.join().unwrap();
        assert_eq!(got.len(), LARGE + 1);
        assert_eq!(got.last(), Some(&b'\n'));
        drop(stdio);
    }
}

#[tokio::test]
async fn a_reader_that_leaves_is_an_error() {
    for (remote, output) in links() {
        let mut stdio = Stdio::from_fds(nothing(), output).unwrap();
        let mut full = outbox(&vec![b'x'; LARGE]);
        assert!(once(|cx| stdio.poll_send(cx, &mut full)).is_pending());
        drop(remote);
        for _ in 0..2 {
            let error = send(&mut stdio, &mut full).await.unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn a_reader_that_was_never_there_is_an_error() {
    for (remote, output) in links() {
        drop(remote);
        let mut stdio = Stdio::from_fds(nothing(), output).unwrap();
        let error = send(&mut stdio, &mut outbox(b"[]")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
}

#[tokio::test]
async fn a_socket_that_was_reset_is_an_error() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut stdio = Stdio::from_fds(ours.try_clone().unwrap().into(), nothing()).unwrap();
    // Closing with bytes unread resets the other end.
    (&ours).write_all(b"unread").unwrap();
    drop(theirs);
    let error = receive_all(&mut stdio).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn what_others_share_keeps_its_flags() {
    for (ours, theirs) in links() {
        let shared = ours.try_clone().unwrap();
        let before = fcntl_getfl(&shared).unwrap();
        let stdio = Stdio::from_fds(ours, theirs).unwrap();
        assert_eq!(fcntl_getfl(&shared).unwrap(), before);
        drop(stdio);
        assert_eq!(fcntl_getfl(&shared).unwrap(), before);
    }
}

#[tokio::test]
async fn flags_that_had_to_be_changed_are_put_back() {
    // A named pipe that nobody reads cannot be opened again for writing.
    let flags_of = |fd: &OwnedFd| fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK);
    let path = temporary_path("fifo");
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let open = |flags| rustix::fs::open(&path, flags, Mode::empty()).unwrap();
    let remote = open(OFlags::RDONLY | OFlags::NONBLOCK);
    let output = open(OFlags::WRONLY);
    drop(remote);
    std::fs::remove_file(&path).unwrap();
    let shared = output.try_clone().unwrap();
    let stdio = Stdio::from_fds(nothing(), output).unwrap();
    assert!(flags_of(&shared));
    let restore = stdio.restorer();
    std::thread::spawn(move || {
        restore.put_back();
        restore.put_back();
        restore
    })
    .join()
    .unwrap();
    assert!(!flags_of(&shared));
    drop(stdio);

    let again = Stdio::from_fds(nothing(), shared.try_clone().unwrap()).unwrap();
    assert!(flags_of(&shared));
    let restore = again.restorer();
    drop(again);
    assert!(!flags_of(&shared));
    restore.put_back();
}

#[tokio::test]
async fn a_pipe_is_never_made_smaller() {
    let (input, remote) = pipe().unwrap();
    let size = || rustix::pipe::fcntl_getpipe_size(&remote).unwrap();
    // Whether it may hold more is the system's to say.
    let _ = rustix::pipe::fcntl_setpipe_size(&remote, 2 * 1024 * 1024);
    let before = size();
    let _stdio = Stdio::from_fds(input, nothing()).unwrap();
    assert!(size() >= before);
}

#[tokio::test]
async fn files_are_read_and_written() {
    let line = format!("[\"{}\"]\n", "x".repeat(1000));
    let mut input = temporary_file("input");
    input.1.write_all(line.repeat(500).as_bytes()).unwrap();
    let output = temporary_file("output");
    let mut stdio = Stdio::from_fds(File::open(&input.0).unwrap().into(), output.1.into()).unwrap();
    let mut outbox = outbox(&vec![b'x'; LARGE]);
    send(&mut stdio, &mut outbox).await.unwrap();
    assert_eq!(outbox.taken(), LARGE as u64 + 1);
    assert_eq!(std::fs::metadata(&output.0).unwrap().len(), LARGE as u64 + 1);
    let frames = receive_all(&mut stdio).await.unwrap();
    assert_eq!(frames.len(), 500);
    assert!(frames.iter().all(|frame| frame == line.trim_end()));
    poll_fn(|cx| stdio.poll_gone(cx)).await;
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
async fn what_is_not_open_for_writing_cannot_be_written() {
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
    // A pipe's end in a thread stands for a terminal on which nobody types.
    let (input, remote) = pipe().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async {
        let descriptor = Arc::new(Descriptor::of_unknown_kind(input));
        let mut input = thread::Input::start(descriptor).unwrap();
        let mut inbox = inbox();
        assert!(once(|cx| input.poll_receive(cx, &mut inbox)).is_pending());
    });
    drop(runtime);
    drop(remote);
}

#[tokio::test]
async fn a_shared_terminal_that_was_made_non_blocking_is_waited_for() {
    let (input, remote) = pipe_with(PipeFlags::NONBLOCK).unwrap();
    let descriptor = Arc::new(Descriptor::of_unknown_kind(input));
    let mut input = thread::Input::start(descriptor).unwrap();
    let (mut inbox, mut found) = (inbox(), Vec::new());
    assert!(once(|cx| input.poll_receive(cx, &mut inbox)).is_pending());
    File::from(remote).write_all(b"[1]\n").unwrap();
    while poll_fn(|cx| input.poll_receive(cx, &mut inbox)).await.unwrap() != Received::End {
        frames(&mut inbox, &mut found);
    }
    assert_eq!(found, ["[1]"]);
}

#[test]
fn without_a_runtime_it_is_an_error_and_no_panic() {
    assert!(Stdio::from_fds(nothing(), nothing()).is_err());
}

/// A file of this test alone.
fn temporary_file(name: &str) -> (std::path::PathBuf, File) {
    let path = temporary_path(name);
    let file = File::create(&path).unwrap();
    (path, file)
}

fn temporary_path(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("duet-rpc-{}-{name}", std::process::id()))
}
