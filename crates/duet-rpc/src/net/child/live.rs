//! The running programs of this process, so that a forced exit, which runs no destructor, can kill them.

use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};

use super::CannotStart;
use crate::sync::lock;
use crate::sys::tree::{Marker, Tree};
use crate::sys::{limits, program};

/// Locked for a moment only: a forced exit must not wait for this lock.
static LIVE: Mutex<Live> = Mutex::new(Live { trees: Vec::new(), is_closed: false });

/// Read-locked from the start of a program until it is registered. A start may never return, for example if the
/// program is on a network share that does not answer.
static STARTING: RwLock<()> = RwLock::new(());

/// Interval of the checks whether a program is still starting.
const LOOK_EVERY: Duration = Duration::from_millis(1);

struct Live {
    trees: Vec<Arc<Tree>>,
    /// The process is about to exit: no program may start any more.
    is_closed: bool,
}

/// A tree that is registered until this is dropped.
pub(super) struct Registered(Arc<Tree>);

impl Registered {
    pub(super) fn tree(&self) -> &Arc<Tree> {
        &self.0
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        live().trees.retain(|tree| !Arc::ptr_eq(tree, &self.0));
    }
}

/// Starts a program with pipes as its stdin, stdout and stderr.
pub(super) fn spawn(command: &mut Command) -> io::Result<(Child, Registered)> {
    prepare(command);
    start(|| {
        let marker = Marker::put_on(command);
        let child = command.spawn().or_else(|error| match program::with_file_found(command) {
            Some(mut found) if error.kind() == io::ErrorKind::NotFound => {
                let _same = Marker::put_on(prepare(&mut found));
                found.spawn()
            }
            _ => Err(error),
        });
        let child = child.map_err(|error| CannotStart::wrap(command, error))?;
        limits::restore(&child);
        let tree = Tree::new(&child, marker).map_err(|error| CannotStart::wrap(command, error))?;
        Ok((child, tree))
    })
}

fn prepare(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true)
}

fn start<T>(start: impl FnOnce() -> io::Result<(T, Tree)>) -> io::Result<(T, Registered)> {
    // Held until the program is registered, so that `kill_all` does not miss it.
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    if live().is_closed {
        return Err(io::Error::other("this process is about to exit"));
    }
    let (child, tree) = start()?;
    let tree = Arc::new(tree);
    live().trees.push(Arc::clone(&tree));
    Ok((child, Registered(tree)))
}

/// Kills all programs and the processes that they started, within the time limit.
pub(super) fn kill_all(until: Instant) {
    if is_starting() {
        // Kill the registered programs first, because a start may never return.
        kill_known(until);
        while is_starting() && Instant::now() < until {
            thread::sleep(LOOK_EVERY);
        }
    }
    kill_known(until);
}

/// Returns `true` while a program starts that is not registered yet.
fn is_starting() -> bool {
    matches!(STARTING.try_write(), Err(TryLockError::WouldBlock))
}

fn kill_known(until: Instant) {
    let trees = live().trees.clone();
    for tree in trees {
        tree.kill(until);
    }
}

/// Like [`kill_all`], and refuses to start further programs: this process is about to exit.
pub(super) fn kill_all_for_good(until: Instant) {
    live().is_closed = true;
    kill_all(until);
}

/// Kills the process groups of the programs, without a search for processes that left their group.
pub(super) fn kill_groups() {
    let trees = live().trees.clone();
    trees.iter().for_each(|tree| tree.kill_group());
}

fn live() -> MutexGuard<'static, Live> {
    lock(&LIVE)
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn l5_program_that_takes_for_ever_to_start_does_not_hold_up_the_end() {
        let (begun, has_begun) = channel();
        let (_end, ends) = channel::<()>();
        thread::spawn(move || {
            start::<()>(|| {
                begun.send(()).expect("the test waits");
                let _ = ends.recv();
                Err(io::ErrorKind::Other.into())
            })
        });
        has_begun.recv().expect("it begins");
        // Not `kill_all`, which would end the programs of other tests.
        assert!(is_starting());
        drop(live());
        let mut command = Command::new("/nonexistent/program");
        assert_eq!(spawn(&mut command).err().map(|it| it.kind()), Some(io::ErrorKind::NotFound));
    }
}
