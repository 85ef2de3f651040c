//! What the doctor leaves behind when it is itself told to end: nothing.
//!
//! The processes that it starts are in groups of their own, so Ctrl-C at a terminal does not reach
//! them, and one that hangs would live on.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use duet_rpc::is_signal_ignored;
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;

/// The groups that were started and not killed.
static LIVE: Mutex<Live> = Mutex::new(Live { groups: Vec::new(), is_over: false });

struct Live {
    groups: Vec<Pid>,
    /// Nothing more is to be started.
    is_over: bool,
}

/// From now on SIGINT, SIGTERM and SIGHUP end what was started, so that every wait is over at once,
/// and the doctor ends as it always does. A signal that was ignored at the start changes nothing.
pub(super) fn watch() -> io::Result<()> {
    let (mut told, teller) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        match is_signal_ignored(signal) {
            false => pipe::register(signal, teller.try_clone()?)?,
            // It is received all the same: what is started would inherit that it is ignored.
            true => flag::register(signal, Arc::default())?,
        };
    }
    // If whoever started the doctor ignores this one, the system forgets how processes ended, unless
    // somebody here wants to know.
    flag::register(SIGCHLD, Arc::new(AtomicBool::new(false)))?;
    let end = move || {
        let Ok(1) = told.read(&mut [0]) else { return };
        let mut live = live();
        live.is_over = true;
        for group in &live.groups {
            let _ = kill_process_group(*group, Signal::KILL);
        }
    };
    thread::Builder::new().spawn(end)?;
    Ok(())
}

/// Starts a process, unless the doctor is to end.
pub(super) fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut live = live();
    if live.is_over {
        return Err(io::ErrorKind::Interrupted.into());
    }
    let child = command.spawn()?;
    live.groups.push(Pid::from_child(&child));
    Ok(child)
}

/// This one is killed. To be told before it is reaped, as its number may then be another's.
pub(super) fn forget(group: Pid) {
    live().groups.retain(|it| *it != group);
}

/// Whether the doctor was told to end.
pub(super) fn is_over() -> bool {
    live().is_over
}

fn live() -> MutexGuard<'static, Live> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}
