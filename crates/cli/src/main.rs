//! The `duet-rpc` command. Its code is in the library beside this file, shared with the test bed.

use std::process::ExitCode;

fn main() -> ExitCode {
    duet_rpc_cli::run(std::env::args_os())
}
