//! `chaos`: many short lives of the daemon, ended in every way there is. `chaos --help` says how to call it.

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    duet_rpc_trials::chaos::command::main(std::env::args().skip(1))
}

#[cfg(not(unix))]
fn main() {}
