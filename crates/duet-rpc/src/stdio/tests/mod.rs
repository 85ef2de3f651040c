mod flags;
mod polled;
mod threaded;

use std::fs::File;
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::task::{Context, Poll, Waker};

use duet_rpc_proto::Profile;
use duet_rpc_proto::frame::{Event, Framing};
use rustix::pipe::pipe;

use super::*;
use crate::transport::TransportKind;

fn inbox() -> Inbox {
    Inbox::new(TransportKind::Bytes, &Profile::agent())
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
        if received == Received::Eof {
            inbox.finish();
        }
        frames(&mut inbox, &mut found);
        if received == Received::Eof {
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

/// Both kinds of connections that can be polled: our end to read, and the remote's end to write.
fn links() -> [(OwnedFd, OwnedFd); 2] {
    let (ours, theirs) = UnixStream::pair().unwrap();
    [pipe().unwrap(), (ours.into(), theirs.into())]
}

#[test]
fn stdio_without_a_runtime_is_an_error_without_a_panic() {
    assert!(Stdio::from_fds(nothing(), nothing()).is_err());
}

/// Makes a named pipe, and opens it: for reading, and for writing.
#[cfg(target_os = "linux")]
fn named_pipe(name: &str) -> (std::path::PathBuf, OwnedFd, OwnedFd) {
    use rustix::fs::{Mode, OFlags};

    let path = temporary_path(name);
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let open = |flags| rustix::fs::open(&path, flags, Mode::empty()).unwrap();
    let reader = open(OFlags::RDONLY | OFlags::NONBLOCK);
    let writer = open(OFlags::WRONLY);
    (path, reader, writer)
}

fn temporary_path(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("duet-rpc-{}-{name}", std::process::id()))
}
