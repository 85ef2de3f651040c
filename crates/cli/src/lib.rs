//! What the `duet-rpc` command is made of.
//!
//! This is a library only so that the command and its test bed can share it; what programs build on
//! is the `duet-rpc` package.
//!
//! ```text
//! args         flags as typed
//! settings     what they come to
//! cmd          one verb, one file
//! methods      what the daemon serves
//! logging      records, and where they go
//! exit         every exit code
//! choice       params that are one of a closed list
//! console      messages to people
//! descriptors  which ones were closed at the start, and whether there is room for more
//! json         text of JSON, laid out anew
//! ```

// Nothing that comes from outside may end the process; tests may.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod args;
mod choice;
mod cmd;
mod console;
mod descriptors;
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
    settings::note_parent();
    let words: Vec<_> = words.into_iter().collect();
    match args::Args::try_parse_from(&words) {
        Ok(args) => cmd::run(args).into(),
        Err(error) => console::report(&error, &words).into(),
    }
}

/// What a test bed adds to the daemon.
#[derive(Debug)]
pub struct Additions {
    /// Adds methods.
    pub methods: fn(Router) -> Router,
    /// Called when all is done, before the process ends.
    pub before_exit: fn(),
}

impl Default for Additions {
    /// Nothing.
    fn default() -> Self {
        Additions { methods: |router| router, before_exit: || {} }
    }
}

/// Runs the daemon with these additions. The words are a program's name and the options of
/// `duet-rpc rpc`.
pub fn run_daemon(words: impl IntoIterator<Item = OsString>, additions: &Additions) -> ExitCode {
    settings::note_parent();
    let words: Vec<_> = words.into_iter().collect();
    match args::DaemonArgs::try_parse_from(&words) {
        Ok(args) => cmd::rpc::run(&args.rpc, &args.global, additions).into(),
        Err(error) => console::report(&error, &words).into(),
    }
}
