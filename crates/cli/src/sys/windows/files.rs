//! Files: the log, access rights, identity.

use std::collections::hash_map::RandomState;
use std::fs::{File, Metadata, OpenOptions};
use std::hash::BuildHasher;
use std::io::{self, Seek, SeekFrom};
use std::os::windows::fs::FileExt;
use std::os::windows::io::AsHandle;
use std::path::Path;

use winapi_util::{AsHandleRef, HandleRef, file};

/// Nothing to survive: files have no size limit that ends a process.
pub(crate) fn survive_size_limit() -> io::Result<()> {
    Ok(())
}

/// A private duplicate of stderr.
pub(crate) fn stderr() -> io::Result<File> {
    io::stderr().as_handle().try_clone_to_owned().map(File::from)
}

/// Opens a log file to append to. Refuses one that is stdin or stdout (L1).
pub(crate) fn open_log(path: &Path) -> io::Result<File> {
    let opened = OpenOptions::new().append(true).create(true).open(path)?;
    match is_ours(&opened) {
        true => Err(io::Error::other("it is stdin or stdout, which carry messages")),
        false => Ok(opened),
    }
}

/// Returns true if the file is this process's stdin or stdout, under any name (L1). Pipes and devices have no identity, and
/// a pipe has no name under which it could be opened.
fn is_ours(opened: &File) -> bool {
    let Some(id) = id_of(&HandleRef::from_file(opened)) else { return false };
    [HandleRef::stdin(), HandleRef::stdout()].iter().any(|it| id_of(it) == Some(id))
}

fn id_of(handle: &impl AsHandleRef) -> Option<(u64, u64)> {
    let is_disk = file::typ(handle).is_ok_and(|kind| kind.is_disk());
    let found = file::information(handle).ok().filter(|_| is_disk)?;
    Some((found.volume_serial_number(), found.file_index()))
}

/// Nothing to wait for: a write waits by itself.
pub(crate) fn wait_for_room(_: &File) -> io::Result<()> {
    Ok(())
}

/// A device can be written, or its first write tells.
pub(crate) fn check_writable(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Checks that there is this folder. Only the system knows who may create files in it.
pub(crate) fn check_folder(folder: &Path) -> io::Result<()> {
    match std::fs::metadata(folder)?.is_dir() {
        true => Ok(()),
        false => Err(io::ErrorKind::NotADirectory.into()),
    }
}

/// Creates a file. It inherits the rights of its folder.
pub(crate) fn create_new_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Returns false: a file has the rights of its folder, which has no mode to look at.
pub(crate) fn is_exposed(_: &Path) -> bool {
    false
}

/// Returns false: there are no Unix sockets, and a named pipe is for its user only.
pub(crate) fn is_socket_for_all(_: &Path) -> bool {
    false
}

/// Tells a file from every other one. A file that cannot be opened has no identity.
pub(crate) fn identity(path: &Path, _: &Metadata) -> (u64, u64) {
    let opened = File::open(path).ok();
    opened.and_then(|opened| id_of(&HandleRef::from_file(&opened))).unwrap_or_default()
}

/// Reads from a position. The call of the system moves the position of the handle, which is put back for other readers.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    let mut handle = file;
    let before = handle.stream_position()?;
    let read = file.seek_read(buffer, position);
    handle.seek(SeekFrom::Start(before))?;
    read
}

/// The bytes of an absolute path in a `file:` URI, before they are escaped.
pub(crate) fn uri_path(path: &Path) -> Vec<u8> {
    let text = path.to_string_lossy().replace('\\', "/");
    let text = text.strip_prefix("//?/").unwrap_or(&text);
    match text.strip_prefix("//") {
        // The name of another machine follows the scheme.
        Some(place) => place.as_bytes().to_vec(),
        None => format!("/{}", text.trim_start_matches('/')).into_bytes(),
    }
}

/// Fills a buffer with random bytes for a secret: keyed hashes, with the keys that the system gave the standard library.
pub(crate) fn fill_random(bytes: &mut [u8; 16]) -> io::Result<()> {
    for half in bytes.chunks_exact_mut(8) {
        half.copy_from_slice(&RandomState::new().hash_one(0).to_ne_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_the_drive_or_the_machine() {
        for (path, expected) in [
            (r"C:\my files\a.rs", "/C:/my files/a.rs"),
            (r"\\?\C:\a.rs", "/C:/a.rs"),
            (r"\\machine\share\a.rs", "machine/share/a.rs"),
        ] {
            assert_eq!(uri_path(Path::new(path)), expected.as_bytes());
        }
    }

    #[test]
    fn a_read_at_a_position_leaves_the_position_of_the_file() {
        let path = std::env::temp_dir().join(format!("duet-rpc-read-at-{}", std::process::id()));
        std::fs::write(&path, b"abcdef").expect("it can be made");
        let mut file = File::open(&path).expect("it is there");
        let mut bytes = [0; 2];
        for (position, count, expected) in [(4, 2, *b"ef"), (6, 0, [0, 0]), (0, 2, *b"ab")] {
            bytes = [0; 2];
            assert_eq!(read_at(&file, &mut bytes, position).expect("it reads"), count);
            assert_eq!(bytes, expected);
        }
        io::Read::read_exact(&mut file, &mut bytes).expect("it reads");
        assert_eq!(bytes, *b"ab");
    }

    #[test]
    fn a_log_file_is_told_from_others() {
        let folder = std::env::temp_dir();
        let (one, two) = (folder.join("duet-rpc-one"), folder.join("duet-rpc-two"));
        let files = [&one, &two].map(|path| File::create(path).expect("it can be made"));
        let ids = [&one, &two].map(|path| identity(path, &files[0].metadata().expect("a file")));
        assert_ne!(ids[0], ids[1]);
        assert_eq!(id_of(&HandleRef::from_file(&files[0])), Some(ids[0]));
        assert!(open_log(&one).is_ok());
    }
}
