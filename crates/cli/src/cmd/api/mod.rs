//! `api`: OpenRPC documents, one file for each command.
//!
//! ```text
//! source    documents from files and servers
//! show      a page on the terminal, or in HTML
//! page      the lines of the page on the terminal
//! compare   `check` and `diff`
//! generate  clients
//! ```

mod compare;
mod generate;
mod page;
mod show;
mod source;

use crate::args::{ApiArgs, ApiCommand, Global};
use crate::console;
use crate::exit::{Exit, Problem};

/// Runs a command on an API.
pub(crate) fn run(args: &ApiArgs, global: &Global) -> Exit {
    let done = match &args.command {
        ApiCommand::Show(args) => show::run(args, global),
        ApiCommand::Gen(args) => generate::run(args, global),
        ApiCommand::Check(args) => compare::check(args, global),
        ApiCommand::Diff(args) => compare::diff(args, global),
    };
    match done {
        Ok(exit) | Err(CannotGoOn::Reported(exit)) => exit,
        Err(CannotGoOn::Problem(problem)) => {
            console::say(format_args!("{}", problem.message));
            problem.exit
        }
    }
}

/// A command that cannot go on.
enum CannotGoOn {
    Problem(Problem),
    /// The message is printed already.
    Reported(Exit),
}

impl From<Problem> for CannotGoOn {
    fn from(problem: Problem) -> Self {
        CannotGoOn::Problem(problem)
    }
}
