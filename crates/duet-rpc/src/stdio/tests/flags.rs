//! Flags of descriptors that other processes share.

#[cfg(target_os = "linux")]
use rustix::fs::OFlags;
use rustix::fs::fcntl_getfl;

use super::*;

#[tokio::test]
async fn shared_descriptors_keep_their_flags() {
    for (ours, theirs) in links() {
        let shared = ours.try_clone().unwrap();
        let before = fcntl_getfl(&shared).unwrap();
        let stdio = Stdio::from_fds(ours, theirs).unwrap();
        assert_eq!(fcntl_getfl(&shared).unwrap(), before);
        drop(stdio);
        assert_eq!(fcntl_getfl(&shared).unwrap(), before);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn changed_flags_are_restored() {
    // A named pipe that nobody reads cannot be opened again for writing.
    let flags_of = |fd: &OwnedFd| fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK);
    let (path, remote, output) = named_pipe("unread");
    drop(remote);
    std::fs::remove_file(path).unwrap();
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

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_pipe_is_never_made_smaller() {
    let (input, remote) = pipe().unwrap();
    let size = || rustix::pipe::fcntl_getpipe_size(&remote).unwrap();
    // The system decides whether its capacity may grow.
    let _ = rustix::pipe::fcntl_setpipe_size(&remote, 2 * 1024 * 1024);
    let before = size();
    let _stdio = Stdio::from_fds(input, nothing()).unwrap();
    assert!(size() >= before);
}
