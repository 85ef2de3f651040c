//! `chaos`: runs many short-lived daemons and ends each in another way. See `chaos --help`.

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    duet_rpc_trials::chaos::command::main()
}

#[cfg(not(unix))]
fn main() {}
