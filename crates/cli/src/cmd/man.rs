//! `man`: the manual, rendered from the definitions of the help.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_mangen::Man;

use crate::args::Args;
use crate::console;
use crate::exit::Exit;

/// Prints the page of one command, or the main page.
pub(crate) fn run(command: Option<&str>) -> Exit {
    let mut page = Vec::new();
    match write(command, &mut page) {
        Ok(()) => console::print(&String::from_utf8_lossy(&page)),
        Err(error) => {
            console::say(format_args!("cannot make the manual page: {error}"));
            Exit::Failed
        }
    }
}

fn write(command: Option<&str>, page: &mut Vec<u8>) -> io::Result<()> {
    let whole = Args::command().disable_help_subcommand(true);
    // A reserved command has no page.
    let mut whole = whole.mut_subcommand("prompt", |prompt| prompt.hide(true));
    // Gives each command its full name and the global options.
    whole.build();
    let described = match command {
        None => whole,
        Some(name) => {
            let found = whole.find_subcommand(name).cloned();
            found.ok_or_else(|| io::Error::other("no such command"))?
        }
    };
    let man = Man::new(described).source(concat!("duet-rpc ", env!("CARGO_PKG_VERSION")));
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if command.is_none() {
        man.render_subcommands_section(page)?;
    }
    write_tables(&man, page)?;
    writeln!(page, "{ENVIRONMENT}.SH \"EXIT STATUS\"")?;
    for exit in Exit::ALL {
        writeln!(page, ".TP\n{}\n{}", exit as u8, exit.meaning())?;
    }
    match command {
        None => man.render_version_section(page),
        Some(_) => Ok(()),
    }
}

/// Writes the examples and tables of the help, with their line breaks.
fn write_tables(man: &Man, page: &mut Vec<u8>) -> io::Result<()> {
    let mut section = Vec::new();
    man.render_extra_section(&mut section)?;
    let section = String::from_utf8_lossy(&section);
    writeln!(page, "{}.fi", section.replace(".SH EXTRA\n", ".SH EXTRA\n.nf\n"))
}

const ENVIRONMENT: &str = "\
.SH ENVIRONMENT
.TP
DUET_RPC_LOG
File to append log records to, instead of stderr.
.TP
NO_COLOR
A non-empty value disables colours.
";
