//! One trace file that is being read: how far, and whether it is still the same file.
//!
//! | the file on disk | result of `check` |
//! |---|---|
//! | the same file, not shorter | `Same`: read on |
//! | shorter than what was read, or its first bytes differ | `Replaced`: start again |
//! | another file of this name | `Replaced` |
//! | no file of this name | `Gone`: the open descriptor still reads what was written |

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use duet_rpc_trace::Reader;

use crate::sys::files;

/// Number of first bytes that are compared, to notice a file that was truncated and written again.
const COMPARED: usize = 256;

/// Block size for reading lines again. Rows that are shown together are next to each other.
const BLOCK: u64 = 256 * 1024;

#[derive(Debug)]
pub(super) struct Part {
    path: PathBuf,
    pub(super) reader: Reader<File>,
    identity: (u64, u64),
    beginning: Vec<u8>,
    /// The last block that was read, and its position.
    block: Vec<u8>,
    block_start: u64,
}

/// The state of a file, compared with what was read of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileState {
    Same,
    Replaced,
    Gone,
}

impl Part {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let identity = files::identity(path, &file.metadata()?);
        let (path, beginning, block) = (path.to_owned(), Vec::new(), Vec::new());
        Ok(Part { path, reader: Reader::new(file), identity, beginning, block, block_start: 0 })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The size of the file now.
    pub(super) fn size(&self) -> u64 {
        self.file().metadata().map_or(0, |data| data.len())
    }

    /// The number of bytes that were read.
    pub(super) fn position(&self) -> u64 {
        self.reader.span().1
    }

    /// Compares the file on disk with what was read of it.
    pub(super) fn check(&mut self) -> FileState {
        let on_disk = match fs::metadata(&self.path) {
            Ok(data) => data,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return FileState::Gone,
            // A folder that cannot be searched for a moment does not change the file.
            Err(_) => return FileState::Same,
        };
        if files::identity(&self.path, &on_disk) != self.identity || on_disk.len() < self.position()
        {
            return FileState::Replaced;
        }
        let mut beginning = vec![0; self.beginning.len().max(COMPARED)];
        let count = files::read_at(self.file(), &mut beginning, 0).unwrap_or(0);
        beginning.truncate(count);
        if !beginning.starts_with(&self.beginning) {
            return FileState::Replaced;
        }
        self.beginning = beginning;
        FileState::Same
    }

    /// Reads a line again.
    pub(super) fn line(&mut self, offset: u64, length: u32) -> io::Result<&[u8]> {
        let end = offset + u64::from(length);
        let is_here =
            offset >= self.block_start && end <= self.block_start + self.block.len() as u64;
        if !is_here {
            let wanted = u64::from(length).max(BLOCK);
            self.block.clear();
            self.block_start = offset;
            let reader = ReadAt { file: self.reader.get_ref(), position: offset };
            reader.take(wanted).read_to_end(&mut self.block)?;
        }
        let start = usize::try_from(offset - self.block_start).unwrap_or(usize::MAX);
        let line = self.block.get(start..start.saturating_add(length as usize));
        line.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter"))
    }

    /// Frees a large block.
    pub(super) fn trim(&mut self) {
        if self.block.capacity() as u64 > 4 * BLOCK {
            self.block = Vec::new();
        }
    }

    fn file(&self) -> &File {
        self.reader.get_ref()
    }
}

/// Reads from a position, without moving the one of the descriptor.
pub(super) struct ReadAt<'a> {
    pub(super) file: &'a File,
    pub(super) position: u64,
}

impl Read for ReadAt<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = files::read_at(self.file, buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}
