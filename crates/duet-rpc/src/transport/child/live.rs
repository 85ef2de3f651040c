//! The programs of this process that run, so that they can be killed when it has to exit at once:
//! then no destructor runs.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::process::{Child, Command};

use super::CannotStart;
use super::tree::{Marker, Tree};

static LIVE: Mutex<Live> = Mutex::new(Live { trees: Vec::new(), is_closed: false });

struct Live {
    trees: Vec<Arc<Tree>>,
    /// The process is about to exit: nothing more may be started.
    is_closed: bool,
}

/// A tree that is known here until this is dropped.
pub(super) struct Registered(Arc<Tree>);

impl Registered {
    pub(super) fn tree(&self) -> &Arc<Tree> {
        &self.0
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        lock().trees.retain(|tree| !Arc::ptr_eq(tree, &self.0));
    }
}

/// Starts a program.
pub(super) fn spawn(command: &mut Command) -> io::Result<(Child, Registered)> {
    // Locked until it is known, so that whoever kills all does not miss it.
    let mut live = lock();
    if live.is_closed {
        return Err(io::Error::other("this process is about to exit"));
    }
    let marker = Marker::put_on(command);
    let child = command.spawn().map_err(|error| CannotStart::wrap(command, error))?;
    let id = child.id().unwrap_or_default();
    #[cfg(unix)]
    super::descriptor_limit::restore(id);
    let tree = Arc::new(Tree::new(id, marker));
    live.trees.push(Arc::clone(&tree));
    Ok((child, Registered(tree)))
}

/// Kills all programs and what they started, as far as there is time.
pub(super) fn kill_all(until: Instant) {
    let trees = lock().trees.clone();
    for tree in trees {
        tree.kill(until);
    }
}

/// The same, and nothing is started any more: this process is about to exit.
#[cfg(unix)]
pub(super) fn kill_all_for_good(until: Instant) {
    lock().is_closed = true;
    kill_all(until);
}

/// Kills all that are in the programs' groups, which takes no look at other processes.
#[cfg(unix)]
pub(super) fn kill_groups() {
    let trees = lock().trees.clone();
    trees.iter().for_each(|tree| tree.kill_group());
}

fn lock() -> MutexGuard<'static, Live> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}
