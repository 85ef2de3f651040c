//! `completions`: a script that completes this command's words in a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;
use crate::console;
use crate::exit::Exit;

pub(crate) fn run(shell: Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "duet-rpc", &mut script);
    console::print(&String::from_utf8_lossy(&script))
}
