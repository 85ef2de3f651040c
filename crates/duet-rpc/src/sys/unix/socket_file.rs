//! The file of a Unix socket: when it may be replaced, and when it is removed (T3).

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix};

use super::tcp::stream_socket;

/// The time that another process may hold the lock on the folder.
const LONGEST_TURN: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// The file of a socket. Dropping this removes the file, if it is still the same file: another file in
/// its place stays.
pub(crate) struct SocketFile(Option<Arc<Own>>);

struct Own {
    path: PathBuf,
    /// Device and inode, which no other file has at the same time.
    identity: (u64, u64),
}

impl SocketFile {
    /// The file that was just made.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let path = path.to_owned();
        let identity = identity(&path)?;
        Ok(SocketFile(Some(Arc::new(Own { path, identity }))))
    }

    /// Returns `true` if only its user may connect to it.
    pub(crate) fn is_private(&self) -> bool {
        let data = self.0.as_ref().map(|own| std::fs::symlink_metadata(&own.path));
        data.is_some_and(|data| data.is_ok_and(|data| data.mode() & 0o7777 == 0o600))
    }

    /// Lets every user connect. It changes the mode of this file alone, whatever another user has put at the path.
    pub(crate) fn open_to_all(&self) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |own| own.open_to_all())
    }

    /// A file that another process made and will remove.
    pub(crate) fn of_another() -> Self {
        SocketFile(None)
    }

    /// A function that removes the file, for a forced exit, which drops nothing.
    pub(crate) fn remover(&self) -> impl Fn() + Send + Sync + use<> {
        let own = self.0.as_ref().map(Arc::downgrade);
        move || {
            if let Some(own) = own.as_ref().and_then(Weak::upgrade) {
                own.remove();
            }
        }
    }
}

impl Own {
    #[cfg(target_os = "linux")]
    fn open_to_all(&self) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::PermissionsExt;

        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(&self.path, flags, Mode::empty())?;
        let found = rustix::fs::fstat(&file)?;
        if (found.st_dev, found.st_ino) != self.identity {
            return Err(io::Error::new(io::ErrorKind::NotFound, "another file took its place"));
        }
        // This descriptor allows no change of the mode itself.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))
    }

    #[cfg(not(target_os = "linux"))]
    fn open_to_all(&self) -> io::Result<()> {
        let everyone = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::chmodat(rustix::fs::CWD, &self.path, everyone, flags)?)
    }

    fn remove(&self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            // If it cannot be removed, the next server finds that nobody listens on it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.remove();
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Locks the folder against other servers that start there, until it is dropped. Without the lock, two servers that
/// start in the same moment may get in each other's way. Any process may hold the lock for any reason, so the wait
/// for it is short.
pub(crate) fn take_turn(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path.parent()?, flags, Mode::empty()).ok()?;
    let begun = Instant::now();
    loop {
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(folder),
            Err(Errno::WOULDBLOCK | Errno::INTR) if begun.elapsed() < LONGEST_TURN => {
                thread::sleep(BETWEEN_LOOKS);
            }
            Err(_) => return None,
        }
    }
}

/// Removes a socket on which nobody listens any more. Any other file at this path stays, and is an error.
pub(crate) fn make_way(path: &Path) -> io::Result<()> {
    let file_type = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata?.file_type(),
    };
    if !file_type.is_socket() {
        let why = "a file with this name exists, and it is not a socket";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    match knock(path) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path),
        Err(Errno::NOENT) => Ok(()),
        // The queue of waiting connections is full.
        Ok(()) | Err(Errno::AGAIN) => Err(in_use("another server listens there")),
        Err(errno) => Err(errno.into()),
    }
}

/// Connects without waiting.
fn knock(path: &Path) -> rustix::io::Result<()> {
    let socket = stream_socket(AddressFamily::UNIX)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
}

fn in_use(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::AddrInUse, why)
}
