//! Files and users.

use std::path::PathBuf;

/// `None`: users have no number here.
pub(crate) fn own_user() -> Option<u32> {
    None
}

/// A path of these bytes; `None` if the system has no such path.
pub(crate) fn path_from_bytes(bytes: Vec<u8>) -> Option<PathBuf> {
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

/// Nothing that differs: the time and the size have to do.
#[cfg(feature = "tls")]
pub(crate) fn inode(_: &std::fs::Metadata) -> u64 {
    0
}
