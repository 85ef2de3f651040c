//! `completions`: the completion script for a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;
use crate::console;
use crate::exit::Exit;

pub(crate) fn run(shell: Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "duet-rpc", &mut script);
    let script = String::from_utf8_lossy(&script);
    console::print(&match shell {
        // The generator writes the hyphenated name in two different ways.
        Shell::Bash => script.replace("duet__subcmd__rpc", "duet__rpc"),
        _ => script.into_owned(),
    })
}
