//! Windows: handles, console events, job objects.

mod activation;
pub(crate) mod descriptors;
pub(crate) mod files;
mod interrupt;
pub(crate) mod local;
pub(crate) mod processes;
mod tap_server;
mod tap_signals;
pub(crate) mod tap_stdio;
pub(crate) mod terminal;

use crate::args::{GuardArgs, LaunchArgs};
use crate::console;
use crate::exit::Exit;

pub(crate) use activation::{InheritedSocket, take_inherited};
pub(crate) use interrupt::{EarlySignals, Interruption, Interruptions, die_of};
pub(crate) use tap_server::{ServerPipes, SignalSender, TappedServer, own_path};
pub(crate) use tap_signals::{TapSignals, end_by_signal, end_like};

/// A job object does what the guard does elsewhere.
pub(crate) fn run_guard(_: &GuardArgs) -> Exit {
    no_guard()
}

/// The allocator of Windows returns large blocks by itself.
pub(crate) fn release_free_memory() {}

/// See [`run_guard`].
pub(crate) fn run_launch(_: &LaunchArgs) -> Exit {
    no_guard()
}

fn no_guard() -> Exit {
    console::say(format_args!("Windows needs no guard: a job object ends the server"));
    Exit::Usage
}
