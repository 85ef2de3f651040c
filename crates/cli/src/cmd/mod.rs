//! The commands, one file or folder each.

mod api;
mod bridge;
mod call;
mod ci_report;
mod completions;
mod dial;
mod doctor;
mod explain;
mod faulty_pipe;
mod handshake;
mod man;
mod mock;
mod recording;
mod replay;
pub(crate) mod rpc;
mod stderr;
mod tap;
mod trace;
mod upstream;
pub(crate) mod watch;

use std::io;

use clap::CommandFactory;

use crate::args::{Args, Command};
use crate::exit::Exit;
use crate::{Additions, console, sys};

/// Runs the command.
pub(crate) fn run(args: Args) -> Exit {
    let global = &args.global;
    match args.command {
        None => {
            let in_color = console::may_color(&io::stdout(), global.no_color);
            console::print(&console::render(&Args::command().render_help(), in_color))
        }
        Some(Command::Version) => console::print(concat!(env!("CARGO_PKG_VERSION"), "\n")),
        Some(Command::Rpc(args)) => apart(|| rpc::run(&args, global, &Additions::default())),
        Some(Command::Call(args)) => apart(|| call::run(&args, global)),
        Some(Command::Doctor(args)) => apart(|| doctor::run(&args, global)),
        Some(Command::Explain(args)) => apart(|| explain::run(&args)),
        Some(Command::Bridge(args)) => apart(|| bridge::run(&args)),
        Some(Command::BridgeWorker(args)) => apart(|| bridge::run_worker(&args, global)),
        Some(Command::Tap(args)) => apart(|| tap::run(&args)),
        Some(Command::TapGuard(args)) => apart(|| sys::run_guard(&args)),
        Some(Command::TapLaunch(args)) => apart(|| sys::run_launch(&args)),
        Some(Command::Trace(args)) => apart(|| trace::run(&args, global)),
        Some(Command::Replay(args)) => apart(|| replay::run(args, global)),
        Some(Command::Mock(args)) => apart(|| mock::run(&args)),
        Some(Command::Watch(args)) => apart(|| watch::run(&args)),
        Some(Command::Api(args)) => apart(|| api::run(&args, global)),
        Some(Command::Completions { shell }) => apart(|| completions::run(shell)),
        Some(Command::Man { command }) => apart(|| man::run(command.as_deref())),
        Some(Command::Prompt { .. }) => {
            console::say(format_args!(
                "`prompt` is reserved for a later version and not in this version"
            ));
            Exit::Failed
        }
    }
}

/// Runs a command in a stack frame of its own. Otherwise the compiler would merge all commands into one function, whose
/// frame has the variables of each, and a daemon would keep them in memory for its whole life.
#[inline(never)]
fn apart(run: impl FnOnce() -> Exit) -> Exit {
    run()
}
