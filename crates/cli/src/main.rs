//! The `duet-rpc` command.
//!
//! This version has `version` and `explain`; the daemon is not in it yet, and the command says so
//! instead of pretending.

// Nothing that comes from outside may end the process; tests may.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod explain;

use std::io::{self, Write};
use std::process::ExitCode;

const HELP: &str = "\
JSON-RPC 2.0 for two programs that talk over pipes and streams

Usage: duet-rpc <COMMAND>

Commands:
  version            print the version
  explain [FRAMING]  read a stream from stdin and say what each part of it is
                     (lsp, ndjson, length or auto; default auto)

Reserved for the next versions: rpc, call, doctor, completions, man, prompt

Options:
  -h, --help     print this help
  -V, --version  print the version
";

/// The command did not do what it was asked to.
const FAILED: u8 = 1;
/// The command line was not understood.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [] | ["-h" | "--help"] => print(HELP),
        ["-V" | "--version" | "version"] => print(concat!(env!("CARGO_PKG_VERSION"), "\n")),
        ["explain"] => explain("auto"),
        ["explain", framing] => explain(framing),
        ["rpc" | "call" | "doctor" | "completions" | "man" | "prompt", ..] => {
            say(format_args!("`{}` is reserved and not in this version", words[0]));
            ExitCode::from(FAILED)
        }
        _ => {
            say(format_args!("unknown command or option: {}\n\n{HELP}", words.join(" ")));
            ExitCode::from(USAGE)
        }
    }
}

fn explain(framing: &str) -> ExitCode {
    match framing.parse() {
        Ok(framing) => finish(explain::run(framing, io::stdin().lock(), io::stdout().lock())),
        Err(unknown) => {
            say(format_args!("{unknown}"));
            ExitCode::from(USAGE)
        }
    }
}

fn print(text: &str) -> ExitCode {
    finish(io::stdout().write_all(text.as_bytes()))
}

fn finish(result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("{error}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Says something on stderr. If that fails there is nobody left to tell.
fn say(what: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "duet-rpc: {what}");
}
