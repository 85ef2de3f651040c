//! Output for people: results on stdout, errors on stderr.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, IsTerminal, Stdin, Stdout, Write};

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::exit::Exit;
use crate::sys::{descriptors, terminal};

/// Returns stdin, if it can be read.
pub(crate) fn stdin() -> io::Result<Stdin> {
    descriptors::check_stdin().map(|()| io::stdin())
}

/// Returns stdout, if it can be written.
pub(crate) fn stdout() -> io::Result<Stdout> {
    descriptors::check_stdout().map(|()| io::stdout())
}

/// Prints a result to stdout.
pub(crate) fn print(text: &str) -> Exit {
    let print =
        |mut stdout: Stdout| stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match stdout().and_then(print) {
        Ok(()) => Exit::Success,
        Err(error) => cannot_write(&error),
    }
}

/// Reports that stdout cannot be written, and returns the exit code.
pub(crate) fn cannot_write(error: &io::Error) -> Exit {
    // A reader that closes the pipe needs no error message.
    if error.kind() != io::ErrorKind::BrokenPipe {
        say(format_args!("cannot write to stdout: {error}"));
    }
    Exit::Failed
}

/// Writes a message to stderr. A failure is ignored: there is no other place to report it.
pub(crate) fn say(what: fmt::Arguments<'_>) {
    // One write, so that no other output comes in between.
    let _ = io::stderr().write_all(format!("duet-rpc: {what}\n").as_bytes());
}

/// Reports a wrong command line, or prints the requested help or version (C1).
pub(crate) fn report(error: &clap::Error, words: &[OsString]) -> Exit {
    let no_color = words.iter().take_while(|word| *word != "--").any(|word| word == "--no-color");
    match error.kind() {
        ErrorKind::DisplayVersion => print(concat!(env!("CARGO_PKG_VERSION"), "\n")),
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            print(&render(&error.render(), may_color(&io::stdout(), no_color)))
        }
        _ => {
            let mut text = render(&error.render(), may_color(&io::stderr(), no_color));
            text.push_str(&tap_advice(error, words).unwrap_or_default());
            let _ = io::stderr().write_all(text.as_bytes());
            Exit::Usage
        }
    }
}

/// The advice for a `tap` without `--` before the command of the server.
fn tap_advice(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let is_tap = words.iter().skip(1).find(|word| !word.to_string_lossy().starts_with('-'));
    let is_unknown = error.kind() == ErrorKind::UnknownArgument && is_tap? == "tap";
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_advised = is_unknown && !word.starts_with('-') && !words.iter().any(|it| it == "--");
    is_advised
        .then(|| format!("\nPut `--` before the command of the server: duet-rpc tap -- {word}\n"))
}

/// Renders a styled text, with or without colours.
pub(crate) fn render(text: &clap::builder::StyledStr, in_color: bool) -> String {
    match in_color {
        true => text.ansi().to_string(),
        false => text.to_string(),
    }
}

/// Returns true if output to this stream may have colours: only on a terminal that supports them, unless the
/// user disabled them (C2).
pub(crate) fn may_color(stream: &impl IsTerminal, no_color: bool) -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stream.is_terminal() && !no_color && !is_set("NO_COLOR") && !is_dumb && terminal::shows_colors()
}
