//! The `duet-rpc` command. All of it stands in the library beside this file, which the test bed
//! shares.

use std::process::ExitCode;

fn main() -> ExitCode {
    duet_rpc_cli::run(std::env::args_os())
}
