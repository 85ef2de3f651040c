//! The implementation of the `duet-rpc` command.
//!
//! It is a library only so that the command and its test bed can share it. Programs build on the `duet-rpc`
//! package.
//!
//! ```text
//! args         command-line options
//! settings     options translated to settings
//! cmd          one file or folder for each command
//! methods      the daemon's methods
//! logging      log records and their destination
//! exit         exit codes
//! choice       params with a closed list of values
//! console      messages to people
//! json         JSON reformatting
//! sys          seam to the operating system
//! ```

// Input must not end the process; in tests it may.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod args;
mod choice;
mod cmd;
mod console;
mod exit;
mod json;
mod logging;
mod methods;
mod settings;
mod sys;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use duet_rpc::Router;

/// Runs the command. The first word is the program's own name.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    settings::record_parent();
    let words: Vec<_> = words.into_iter().collect();
    match args::Args::read(&words) {
        Ok(args) => cmd::run(args).into(),
        Err(error) => console::report(&error, &words).into(),
    }
}

/// Additions of a test bed to the daemon.
#[derive(Debug)]
pub struct Additions {
    /// Adds methods to the router.
    pub methods: fn(Router) -> Router,
    /// Runs after the log is flushed, before the process ends.
    pub before_exit: fn(),
}

impl Default for Additions {
    /// No additions.
    fn default() -> Self {
        Additions { methods: |router| router, before_exit: || {} }
    }
}

/// Runs the daemon with these additions. `words` holds a program name and the options of `duet-rpc rpc`.
pub fn run_daemon(words: impl IntoIterator<Item = OsString>, additions: &Additions) -> ExitCode {
    settings::record_parent();
    let words: Vec<_> = words.into_iter().collect();
    match args::DaemonArgs::try_parse_from(&words) {
        Ok(args) => cmd::rpc::run(&args.rpc, &args.global, additions).into(),
        Err(error) => console::report(&error, &words).into(),
    }
}
