//! `trace`: reads trace files, one file for each command.

mod cat;

use crate::args::{TraceArgs, TraceCommand};
use crate::exit::Exit;

/// Runs a command on a trace.
pub(crate) fn run(args: &TraceArgs) -> Exit {
    match &args.command {
        TraceCommand::Cat(args) => cat::run(args),
    }
}
