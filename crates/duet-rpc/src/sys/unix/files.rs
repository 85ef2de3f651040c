//! Files and users.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The user of this process.
pub(crate) fn own_user() -> Option<u32> {
    Some(rustix::process::geteuid().as_raw())
}

/// A path of these bytes; `None` if the system has no such path.
pub(crate) fn path_from_bytes(bytes: Vec<u8>) -> Option<PathBuf> {
    Some(OsString::from_vec(bytes).into())
}

/// A number that another file at the same path does not have.
#[cfg(feature = "tls")]
pub(crate) fn inode(data: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(data)
}
