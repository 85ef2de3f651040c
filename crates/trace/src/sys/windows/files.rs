//! Files and folders. They inherit the rights of their folder: below the user's profile, those of the user.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Others may read, rename and delete a file that is open, but not write to it.
const SHARED_WITH_READERS: u32 = 0x1 | 0x4;

/// Another process has the file open, and does not share what was asked for (`ERROR_SHARING_VIOLATION`).
const NOT_SHARED: i32 = 32;

/// The folder for the state of programs.
pub(crate) fn state_folder() -> Option<PathBuf> {
    std::env::var_os("LOCALAPPDATA").map(PathBuf::from).filter(|it| it.is_absolute())
}

/// Creates a folder in an existing one.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)
}

/// Nothing to do: a folder below the user's profile is private.
pub(crate) fn make_private(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Creates a file, or empties an existing one.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).open(path)
}

/// Opens a file alone for writing, and leaves its content. `None` if another process writes it. A lock would keep readers
/// away, too.
pub(crate) fn open_to_claim(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).share_mode(SHARED_WITH_READERS);
    match options.open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.raw_os_error() == Some(NOT_SHARED) => Ok(None),
        Err(error) => Err(error),
    }
}
