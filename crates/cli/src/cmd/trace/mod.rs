//! `trace`: reads trace files, one file for each command.

mod cat;
mod check;
mod chosen;
mod convert;
pub(super) mod diff;
pub(super) mod input;
mod redact;
mod report;
mod show;
pub(super) mod stats;
pub(super) mod timeline;

use crate::args::{Global, TraceArgs, TraceCommand};
use crate::exit::Exit;

/// Runs a command on a trace.
pub(crate) fn run(args: &TraceArgs, global: &Global) -> Exit {
    match &args.command {
        TraceCommand::Show(args) => show::run(args, global),
        TraceCommand::Cat(args) => cat::run(args),
        TraceCommand::Stats(args) => stats::run(args),
        TraceCommand::Check(args) => check::run(args, global),
        TraceCommand::Diff(args) => diff::run(args, global),
        TraceCommand::Convert(args) => convert::run(args),
        TraceCommand::Redact(args) => redact::run(args),
    }
}
