//! The file of a new trace, and the existing files that it may replace.
//!
//! | the path is | a new trace |
//! |---|---|
//! | free, or an empty file | is written there |
//! | a trace | replaces it |
//! | a trace that another recorder writes | goes to the next free name: `session-2.jsonl` |
//! | another file | is refused |
//! | a device or a pipe | is written there |
//!
//! A lock on the first file of a trace says that its recorder runs. The kernel releases it, even if the recorder is
//! killed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::header::Header;
use crate::reader::{Entry, Reader};
use crate::sys;

/// The longest header that is read to tell the session of a file.
const LONGEST_HEADER: u64 = 1024 * 1024;

/// The number of names that are tried.
const NAMES: u32 = 10_000;

/// Opens and locks the file of a new trace. Returns it with its path, which may be another one. `None` for devices
/// and pipes, because opening a pipe waits for its reader.
pub(crate) fn claim(path: &Path) -> io::Result<Option<(PathBuf, File)>> {
    if fs::metadata(path).is_ok_and(|it| !it.is_file()) {
        return Ok(None);
    }
    if let Some(file) = lock(path)? {
        return Ok(Some((path.to_owned(), file)));
    }
    for number in 2..NAMES {
        let path = numbered(path, number);
        if !path.try_exists()?
            && let Some(file) = lock(&path)?
        {
            return Ok(Some((path, file)));
        }
    }
    Err(io::Error::other("other recorders write all files with such names"))
}

/// Opens and locks a file. `None` if another recorder has locked it.
fn lock(path: &Path) -> io::Result<Option<File>> {
    check_replaceable(path)?;
    // Its content stays until it is locked.
    sys::open_to_claim(path)
}

/// Refuses a file that is not a trace, with [`io::ErrorKind::InvalidData`].
pub(crate) fn check_replaceable(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(it) if it.is_file() && it.len() > 0 && header(path).is_none() => {}
        _ => return Ok(()),
    }
    let why = "the file exists and is not a trace";
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}

/// The header of a trace file.
pub(crate) fn header(path: &Path) -> Option<Header> {
    let mut reader = Reader::new(File::open(path).ok()?.take(LONGEST_HEADER));
    match reader.next_entry().ok()? {
        Some(Entry::Header(header)) => Some(header),
        _ => None,
    }
}

/// The path with a number behind its stem: `a-2.jsonl`.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path.file_stem().unwrap_or_default());
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_before_the_extension() {
        for (path, expected) in
            [("a.jsonl", "a-2.jsonl"), ("d/a.b.jsonl", "d/a.b-2.jsonl"), ("d/a", "d/a-2")]
        {
            assert_eq!(numbered(Path::new(path), 2), Path::new(expected));
        }
    }
}
