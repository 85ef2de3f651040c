//! A folder for the files of one test.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary folder, removed on drop.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (pid, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        // The path of a socket has room for about 100 bytes, and TMPDIR may be longer.
        let folder = Some(std::env::temp_dir()).filter(|path| path.as_os_str().len() <= 50);
        let folder = folder.unwrap_or_else(|| PathBuf::from("/tmp"));
        let path = folder.join(format!("duet-rpc-{pid}-{number}"));
        fs::create_dir_all(&path).expect("a folder can be made");
        Folder(path)
    }

    /// A path in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A path in it, as text.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("a plain path").to_owned()
    }

    /// The URL of a socket in it.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("unix://{}", self.text(name))
    }

    /// Writes a file, and returns its path.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), bytes).expect("the file can be written");
        self.text(name)
    }

    /// Makes a named pipe, and returns its path.
    pub(crate) fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        assert!(Command::new("mkfifo").arg(&path).status().expect("there is mkfifo").success());
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
