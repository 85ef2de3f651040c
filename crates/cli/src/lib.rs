//! What the `duet-rpc` command is made of.
//!
//! This is a library only so that the command and its test bed can share it; what programs build on
//! is the `duet-rpc` package.
//!
//! ```text
//! args      flags as typed
//! settings  what they come to
//! cmd       one verb, one file
//! methods   what the daemon serves
//! logging   records, and where they go
//! exit      every exit code
//! console   what is said to people
//! json      text of JSON, laid out anew
//! ```

// Nothing that comes from outside may end the process; tests may.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod args;
mod cmd;
mod console;
mod exit;
mod json;
mod logging;
mod methods;
mod settings;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use duet_rpc::Router;

/// Runs the command. The first word is the program's own name.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<_> = words.into_iter().collect();
    match args::Args::try_parse_from(&words) {
        Ok(args) => cmd::run(args).into(),
        Err(error) => console::report(&error, &words).into(),
    }
}

/// Runs the daemon with more methods than it has, for a test bed: the words are a program's name and
/// the options of `duet-rpc rpc`.
pub fn run_daemon(
    words: impl IntoIterator<Item = OsString>,
    extend: impl FnOnce(Router) -> Router,
) -> ExitCode {
    let words: Vec<_> = words.into_iter().collect();
    match args::DaemonArgs::try_parse_from(&words) {
        Ok(args) => cmd::rpc::run(&args.rpc, &args.global, extend).into(),
        Err(error) => console::report(&error, &words).into(),
    }
}
