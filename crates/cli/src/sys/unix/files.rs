//! Files: the log, access rights, identity.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Access, OFlags, access};
use signal_hook::consts::SIGXFSZ;

/// A write beyond the file size limit raises SIGXFSZ, which ends the process. With a handler installed, the write fails
/// instead.
pub(crate) fn survive_size_limit() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// A private duplicate of stderr.
pub(crate) fn stderr() -> io::Result<File> {
    io::stderr().as_fd().try_clone_to_owned().map(File::from)
}

/// Opens a log file to append to. Refuses one that is stdin or stdout (L1).
pub(crate) fn open_log(path: &Path) -> io::Result<File> {
    // Opening a pipe without a reader would block.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().append(true).create(true).custom_flags(flags).open(path)?;
    if is_ours(&file)? {
        return Err(io::Error::other("it is stdin or stdout, which carry messages"));
    }
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Returns true if the file is this process's stdin or stdout, under any name: no log line may get there
/// (L1). `/dev/null` is always allowed.
fn is_ours(file: &File) -> io::Result<bool> {
    let what = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino));
    let file = what(file.as_fd())?;
    let is_null = File::open("/dev/null").is_ok_and(|null| what(null.as_fd()) == Ok(file));
    let (stdin, stdout) = (what(io::stdin().as_fd()), what(io::stdout().as_fd()));
    Ok(!is_null && (stdin == Ok(file) || stdout == Ok(file)))
}

/// Waits until a file that another process made non-blocking takes bytes.
pub(crate) fn wait_for_room(file: &File) -> io::Result<()> {
    let mut fds = [PollFd::from_borrowed_fd(file.as_fd(), PollFlags::OUT)];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, None))?;
    Ok(())
}

/// Checks that a file which is neither a regular file nor a folder can be written. Does not open it: closing a pipe again
/// would end its reader.
pub(crate) fn check_writable(path: &Path) -> io::Result<()> {
    Ok(access(path, Access::WRITE_OK)?)
}

/// Checks that a file can be created in this folder.
pub(crate) fn check_folder(folder: &Path) -> io::Result<()> {
    Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Creates a file for this user only.
pub(crate) fn create_new_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Returns true if users outside of the file's group can read it, or the group can change it. The group may be intended
/// as readers.
pub(crate) fn is_exposed(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o027 != 0)
}

/// Returns true if every user can connect to a Unix socket: its file is writable for all, or it has no file
/// (an abstract socket).
pub(crate) fn is_socket_for_all(path: &Path) -> bool {
    !path.is_absolute() || fs::metadata(path).is_ok_and(|data| data.mode() & 0o002 != 0)
}

/// Tells a file from every other one: device and inode.
pub(crate) fn identity(_: &Path, data: &Metadata) -> (u64, u64) {
    (data.dev(), data.ino())
}

/// Reads from a position, without moving the one of the descriptor.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    file.read_at(buffer, position)
}

/// The bytes of an absolute path in a `file:` URI, before they are escaped.
pub(crate) fn uri_path(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// Fills a buffer with random bytes for a secret.
pub(crate) fn fill_random(bytes: &mut [u8; 16]) -> io::Result<()> {
    io::Read::read_exact(&mut File::open("/dev/urandom")?, bytes)
}
