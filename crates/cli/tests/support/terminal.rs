//! A pseudo-terminal.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// A terminal: its screen, and the program's end.
pub(crate) fn terminal() -> (OwnedFd, File) {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
        .expect("terminals are to be had");
    grantpt(&screen).expect("it is ours");
    unlockpt(&screen).expect("it is ours");
    let path = ptsname(&screen, Vec::new()).expect("it has a name");
    let path = path.into_string().expect("a path in /dev");
    let flags = (OFlags::NOCTTY | OFlags::CLOEXEC).bits() as i32;
    let end = File::options().read(true).write(true).custom_flags(flags).open(path);
    (screen, end.expect("it is there"))
}
