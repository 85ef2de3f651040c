//! The commands, one file or folder each.

mod call;
mod completions;
mod doctor;
mod explain;
mod interrupt;
mod man;
pub(crate) mod rpc;
mod tap;
mod trace;
pub(crate) mod watch;

use std::io;

use clap::CommandFactory;

use crate::args::{Args, Command};
use crate::exit::Exit;
use crate::{Additions, console};

/// Runs the command.
pub(crate) fn run(args: Args) -> Exit {
    let global = &args.global;
    match args.command {
        None => {
            let in_color = console::may_color(&io::stdout(), global.no_color);
            console::print(&console::render(&Args::command().render_help(), in_color))
        }
        Some(Command::Version) => console::print(concat!(env!("CARGO_PKG_VERSION"), "\n")),
        Some(Command::Rpc(args)) => rpc::run(&args, global, &Additions::default()),
        Some(Command::Call(args)) => call::run(&args, global),
        Some(Command::Doctor(args)) => doctor::run(&args, global),
        Some(Command::Explain(args)) => explain::run(args.framing.choice()),
        Some(Command::Tap(args)) => tap::run(&args),
        Some(Command::TapGuard(args)) => tap::guard::run(&args),
        Some(Command::TapLaunch(args)) => tap::launch::run(&args),
        Some(Command::Trace(args)) => trace::run(&args, global),
        Some(Command::Watch(args)) => watch::run(&args),
        Some(Command::Completions { shell }) => completions::run(shell),
        Some(Command::Man { command }) => man::run(command.as_deref()),
        Some(Command::Prompt { .. }) => {
            console::say(format_args!(
                "`prompt` is reserved for a later version and not in this version"
            ));
            Exit::Failed
        }
    }
}
