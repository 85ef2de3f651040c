//! Shared parts of the trials. Nothing here uses the library: framings, messages and answers are read by the
//! plainest code that can do it, so that a bug in the codec cannot hide itself.
//!
//! | file | content |
//! |---|---|
//! | `programs` `random` `profile` | the programs under test; seeded random numbers; names of profiles and transports |
//! | `daemon` `channel` `proc` | the daemon's process; its standard descriptors; what `/proc` tells about it |
//! | `wire` `ws` `http` `message` | framings, WebSocket and HTTP as a client sees them; one JSON-RPC message |
//! | `raw_client` `link` | one blocking connection to a listening daemon; one that a single thread drives, with its ledger |
//! | `expect` `events` `ledger` | one expected answer; unasked messages; all that a connection expects |
//! | `counters` | what a trial did, and its first failure |

pub(crate) mod channel;
pub(crate) mod counters;
pub(crate) mod daemon;
pub(crate) mod events;
pub(crate) mod expect;
pub(crate) mod http;
pub(crate) mod ledger;
pub(crate) mod link;
pub(crate) mod message;
pub(crate) mod proc;
pub(crate) mod profile;
pub mod programs;
pub(crate) mod random;
pub(crate) mod raw_client;
pub(crate) mod wire;
pub(crate) mod ws;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even one that a panicking thread has left.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints a line. A reader that has closed the pipe is no reason to panic.
pub(crate) fn say(text: impl std::fmt::Display) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// A temporary folder of this process; removed on drop. Its path is short enough for a socket in it.
#[derive(Debug)]
pub(crate) struct TempFolder(PathBuf);

impl TempFolder {
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let base = std::env::temp_dir();
        let base = if base.as_os_str().len() > 40 { PathBuf::from("/tmp") } else { base };
        let folder = base.join(format!("duet-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(TempFolder(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
