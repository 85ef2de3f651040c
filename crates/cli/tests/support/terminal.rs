//! A pseudo-terminal.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Makes a terminal. Returns the user's end (the screen) and the program's end.
pub(crate) fn terminal() -> (OwnedFd, File) {
    // Other systems have no flag for it: a program that another test starts meanwhile inherits the screen.
    #[cfg(target_os = "linux")]
    let close_on_exec = OpenptFlags::CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let close_on_exec = OpenptFlags::empty();
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | close_on_exec)
        .expect("a terminal can be made");
    grantpt(&screen).expect("the terminal is ours");
    unlockpt(&screen).expect("the terminal is ours");
    let path = ptsname(&screen, Vec::new()).expect("the terminal has a name");
    let path = path.into_string().expect("a path in /dev");
    let flags = (OFlags::NOCTTY | OFlags::CLOEXEC).bits() as i32;
    let end = File::options().read(true).write(true).custom_flags(flags).open(path);
    (screen, end.expect("the terminal exists"))
}
