//! Unix: descriptors, signals, process groups, file modes.

mod activation;
mod child;
pub(crate) mod descriptors;
mod early;
pub(crate) mod files;
mod guard;
mod interrupt;
mod launch;
pub(crate) mod local;
mod memory;
pub(crate) mod processes;
mod tap_signals;
pub(crate) mod tap_stdio;
pub(crate) mod terminal;
mod tree;

pub(crate) use activation::{InheritedSocket, take_inherited};
pub(crate) use child::{ServerPipes, SignalSender, TappedServer, own_path};
pub(crate) use early::EarlySignals;
pub(crate) use guard::run as run_guard;
pub(crate) use interrupt::{Interruption, Interruptions, die_of};
pub(crate) use launch::run as run_launch;
pub(crate) use memory::release_free_memory;
pub(crate) use tap_signals::{TapSignals, end_by_signal, end_like};
