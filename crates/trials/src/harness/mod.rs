//! Shared parts of the trials. Nothing here uses the library: the plainest possible code reads framings,
//! messages and answers, so that a bug in the codec cannot hide itself.
//!
//! | file | content |
//! |---|---|
//! | `programs` `random` `profile` | the programs under test; seeded random numbers; names of profiles and transports |
//! | `daemon` `channel` `proc` | the daemon's process; its standard descriptors; facts from `/proc` |
//! | `wire` `ws` `http` `message` | framings, WebSocket and HTTP from the client's side; one JSON-RPC message |
//! | `raw_client` `link` | one blocking connection to a listening daemon; one driven by a single thread, with its ledger |
//! | `expect` `events` `ledger` | one expected answer; messages that are not answers; everything that a connection expects |
//! | `counters` | the counters of a trial, and its first failure |

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

use std::sync::{MutexGuard, PoisonError};

use crate::harness::prelude::*;

/// Imports shared by every trial.
pub(crate) mod prelude {
    pub(crate) use std::collections::{BTreeMap, VecDeque};
    pub(crate) use std::io::{Read as _, Write as _};
    pub(crate) use std::os::fd::OwnedFd;
    pub(crate) use std::path::{Path, PathBuf};
    pub(crate) use std::process::{Command, ExitCode, ExitStatus, Stdio};
    pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    pub(crate) use std::sync::{Arc, Mutex};
    pub(crate) use std::time::{Duration, Instant};
    pub(crate) use std::{fmt, fs, io, thread};

    pub(crate) use clap::{Parser, ValueEnum};
    pub(crate) use rustix::event::PollFlags;
    pub(crate) use rustix::io::Errno;
    pub(crate) use rustix::net::Shutdown;
    pub(crate) use rustix::process::{Pid, Signal};
    pub(crate) use serde_json::{Value, json};

    pub(crate) use super::channel::{Channel, PIPES, both_ways, pipe, terminal};
    pub(crate) use super::counters::{Counters, Failure, Group};
    pub(crate) use super::daemon::{Daemon, wait_until};
    pub(crate) use super::events::Call;
    pub(crate) use super::expect::{Due, Effect, Outcome, Pages};
    pub(crate) use super::ledger::Ledger;
    pub(crate) use super::link::Link;
    pub(crate) use super::message::Message;
    pub(crate) use super::profile::{Profile, Transport};
    pub(crate) use super::random::Random;
    pub(crate) use super::raw_client::RawClient;
    pub(crate) use super::wire::{Event, Framing};
    pub(crate) use super::{TempFolder, lock, proc, programs, say, ws};
}

/// Locks a mutex, even after a thread panicked with it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints a line, and ignores a closed pipe.
pub(crate) fn say(text: impl std::fmt::Display) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// A temporary folder of this process, removed on drop. Its path is short enough for a socket in it.
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
