//! `chaos`: many short lives of the daemon, ended in every way. `chaos --help` says how to call it.

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    duet_rpc_trials::chaos::command::main()
}

#[cfg(not(unix))]
fn main() {}
