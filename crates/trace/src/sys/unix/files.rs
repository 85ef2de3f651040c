//! Files and folders for this user only, whatever the umask is.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// The folder for the state of programs.
pub(crate) fn state_folder() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let state = absolute("XDG_STATE_HOME");
    state.or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
}

/// Creates a folder in an existing one.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)?;
    // A umask can only take rights away. Most leave it as it should be.
    match fs::metadata(folder)?.permissions().mode() & 0o777 {
        0o700 => Ok(()),
        _ => fs::set_permissions(folder, Permissions::from_mode(0o700)),
    }
}

/// Makes an existing folder private.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    let mode = fs::metadata(folder)?.permissions().mode();
    match mode & 0o077 {
        0 => Ok(()),
        _ => fs::set_permissions(folder, Permissions::from_mode(0o700)),
    }
}

/// Creates a file, or empties an existing one.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let kind = file.metadata()?;
    // Devices and pipes keep their mode.
    let is_regular = kind.is_file() && !kind.file_type().is_char_device();
    if is_regular && kind.permissions().mode() & 0o777 != 0o600 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Opens and locks a file, and leaves its content. `None` if another process has locked it.
pub(crate) fn open_to_claim(path: &Path) -> io::Result<Option<File>> {
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & 0o777 != 0o600 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        // Some file systems have no locks.
        _ => Ok(Some(file)),
    }
}
